"""The chance of being among the k best: against all worlds, and against exact fractions on hard cases."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

import skyband as sb
from skyband.uncertain import single_pass
from skyband.uncertain.kernels import possible_worlds
from tests.uncertain import oracle

SPEEDS = [80, 65, 45, 30, 50, 25]
CHANCES = [0.3, 0.4, 0.5, 1.0, 0.8, 0.2]
PAIRS = [-1, 1, 1, -1, 2, 2]


def random_input(draw, most=8, grid=16, rules=True):
    """A few tuples with ties, whose probabilities are exact, and rules that may add up to 1."""
    n = draw.randint(1, most)
    labels = [draw.choice([-1, 0, 1, 2]) if rules else -1 for _ in range(n)]
    left = dict.fromkeys(range(3), grid)
    scores, chances = [], []
    for i in range(n):
        label = labels[i] = labels[i] if left.get(labels[i]) else -1
        room = left.get(label, grid)
        units = draw.choice([1, room, draw.randint(1, room)])
        if label >= 0:
            left[label] -= units
        scores.append(float(draw.randint(0, 4)))
        chances.append(units / grid)
    return scores, chances, labels


def test_the_paper_s_tables():
    found = sb.uncertain.topk_probabilities(SPEEDS, CHANCES, [2, 3], PAIRS)
    assert found[:, 0] == pytest.approx([0.3, 0.4, 0.38, 0.202, 0.704, 0.014], abs=1e-12)
    assert found[:, 1] == pytest.approx([0.3, 0.4, 0.5, 0.784, 0.8, 0.146], abs=1e-12)


@pytest.mark.parametrize("method", ["fast", "definition"])
@pytest.mark.parametrize("seed", range(60))
def test_agrees_with_all_worlds(seed, method):
    draw = random.Random(seed)
    scores, chances, labels = random_input(draw, rules=seed % 5 != 0)
    for k in (1, 2, 3, 9):
        found = sb.uncertain.topk_probabilities(scores, chances, k, labels, method=method)
        truth = oracle.tops(oracle.tuples(scores, chances, labels), k)
        assert truth == oracle.tops_by_counting(oracle.tuples(scores, chances, labels), k)
        assert found == pytest.approx([float(one) for one in truth], abs=1e-13)


@pytest.mark.parametrize("seed", range(30))
def test_exact_ranks_agree_with_all_worlds(seed):
    scores, chances, labels = random_input(random.Random(seed))
    found = sb.uncertain.rank_probabilities(scores, chances, 4, labels)
    truth = oracle.exact_ranks(oracle.tuples(scores, chances, labels), 4)
    assert found == pytest.approx(np.array([[float(p) for p in row] for row in truth]), abs=1e-13)


HARD = {
    "near zero": lambda draw: draw.random() * 1e-9 + 1e-12,
    "near one": lambda draw: 1 - draw.random() * 1e-9,
    "both": lambda draw: draw.choice([1e-12, 1e-6, 0.5, 1 - 1e-9, 1 - 2**-53]),
    "anything": lambda draw: draw.random() or 0.5,
}


@pytest.mark.parametrize("kind", HARD)
@pytest.mark.parametrize("members", [7, *(pytest.param(one, marks=pytest.mark.long) for one in (1, 2, 40))])
def test_hard_cases_against_exact_fractions(kind, members):
    """Rules that sum to 1 or nearly: where a factor was divided out again, errors would grow without bound."""
    draw = random.Random(members)
    n, k = 160, 8
    chances, labels = [], []
    for rule in range(n // members):
        mine = [HARD[kind](draw) for _ in range(members)]
        total = sum(map(Fraction, mine))
        if members > 1 and (total > 1 or rule % 2):  # the largest doubles that keep to the rule
            room = 1 if rule % 3 else 1 - Fraction(1, 10**9)
            mine = [float(Fraction(int(Fraction(p) / total * room * 2**60), 2**60)) for p in mine]
            mine = [max(np.nextafter(p, 0), 1e-300) for p in mine]
            assert sum(map(Fraction, mine)) <= 1
        chances += mine
        labels += [rule] * members
    scores = [draw.random() for _ in chances]
    found = sb.uncertain.topk_probabilities(scores, chances, [1, k], labels)
    exact = oracle.tuples(scores, chances, labels)
    for column, k_ in enumerate((1, k)):
        truth = oracle.tops_by_counting(exact, k_)
        assert max(abs(Fraction(float(a)) - b) for a, b in zip(found[:, column], truth, strict=True)) < 1e-13


@pytest.mark.parametrize("scale", [1e-3, 1.0])
def test_thousands_of_tuples_against_exact_fractions(scale):
    """Probabilities are multiples of 2**-20, so that the fractions stay short enough to be exact."""
    draw = random.Random(7)
    n, k = 3000, 4
    labels = [draw.choice([-1, *range(n // 3)]) for _ in range(n)]
    members = {label: labels.count(label) for label in set(labels)}
    chances = [
        max(1, int(draw.random() * scale * 2**20 / (members[label] if label >= 0 else 1))) / 2**20 for label in labels
    ]
    scores = [draw.random() for _ in range(n)]
    found = sb.uncertain.topk_probabilities(scores, chances, k, labels)
    truth = by_whole_numbers(scores, chances, labels, k)
    assert np.abs(found - truth).max() < 1e-12


def by_whole_numbers(scores, chances, labels, k, bits=200):
    """Pr_k tuple by tuple with fixed-point whole numbers of 200 bits: exact to far below a double's last bit."""
    one = 1 << bits
    order = sorted(range(len(scores)), key=lambda i: (scores[i], i), reverse=True)
    out = np.zeros(len(scores))
    laws = [one] + [0] * (k - 1)

    def joined(law, q):
        stay = one - q
        return [(law[j] * stay + (law[j - 1] * q if j else 0)) >> bits for j in range(k)]

    alone, ruled = laws, {}
    for i in order:
        label = labels[i]
        q = int(chances[i] * one)
        law = alone
        for other, sum_ in ruled.items():
            if other != label:
                law = joined(law, sum_)
                if not any(law):
                    break
        out[i] = float(Fraction(q * sum(law), one * one))
        if label < 0:
            alone = joined(alone, q)
        else:
            ruled[label] = ruled.get(label, 0) + q
        if not any(law):
            break
    return out


@pytest.mark.parametrize("rules", [False, True])
def test_large_inputs_agree_with_the_definition(rules):
    rng = np.random.default_rng(3)
    n = 2000
    labels = rng.integers(0, n // 2, n) if rules else np.full(n, -1)
    shares = np.bincount(labels + 1, minlength=n)[labels + 1]
    for scale in (1.0, 0.05):
        chances = np.maximum(rng.random(n) * scale / (shares if rules else 1), 1e-9)
        scores = rng.random(n)
        fast = sb.uncertain.topk_probabilities(scores, chances, [5, 50], labels)
        slow = sb.uncertain.topk_probabilities(scores, chances, [5, 50], labels, method="definition")
        assert np.abs(fast - slow).max() < 1e-13


def test_one_pass_serves_every_k():
    rng = np.random.default_rng(5)
    scores, chances = rng.random(300), rng.random(300)
    together = sb.uncertain.topk_probabilities(scores, chances, [7, 1, 30])
    for column, k in enumerate([7, 1, 30]):
        assert np.abs(together[:, column] - sb.uncertain.topk_probabilities(scores, chances, k)).max() < 1e-15
    ranks = sb.uncertain.rank_probabilities(scores, chances, 30)
    assert np.abs(ranks.cumsum(1)[:, [6, 0, 29]] - together).max() < 1e-14


def test_tuples_that_never_have_k_better_ones_keep_their_own_probability_to_the_last_bit():
    chances = np.array([0.3, 0.1, 0.7, 0.3, 0.9, 0.1])
    found = sb.uncertain.topk_probabilities(np.arange(6.0), chances, 6)
    assert found.tolist() == chances.tolist()


def test_of_equal_scores_the_later_is_the_better():
    assert sb.uncertain.topk_probabilities([1.0, 1.0, -0.0, 0.0], [1.0] * 4, 1).tolist() == [0, 1, 0, 0]
    assert sb.uncertain.topk_probabilities([-0.0, 0.0], [1.0] * 2, 1).tolist() == [0, 1]
    assert sb.uncertain.topk_probabilities([0.0, -0.0], [1.0] * 2, 1).tolist() == [0, 1]


def test_the_scan_ends_when_no_later_tuple_can_enter():
    rng = np.random.default_rng(11)
    n = 50_000
    passed = single_pass.one_pass(rng.random(n), rng.random(n), np.full(n, -1), np.array([20]))
    assert passed.order.size < n / 20
    # And what is left out is as good as nothing: Chernoff's bound says so, and so does the whole scan.
    whole = single_pass.one_pass(rng.random(200), np.full(200, 1.0), np.full(200, -1), np.array([20]))
    assert (whole.tops[20:] == 0).all()


def test_more_is_sorted_where_the_guess_was_too_low():
    """The best tuples are far less probable than the others: the guess from the mean is wrong by far."""
    n = 20_000
    scores = np.arange(n)[::-1].astype(float)
    chances = np.where(np.arange(n) < 15_000, 1e-7, 1.0)
    found = sb.uncertain.topk_probabilities(scores, chances, 3)
    assert found[:15_000] == pytest.approx(1e-7)
    assert found[15_000:15_004] == pytest.approx([1, 1, 1, 0], abs=2e-3)


def test_a_list_of_all_kinds_of_labels():
    expected = sb.uncertain.topk_probabilities(SPEEDS, CHANCES, 2, PAIRS)
    for rules in (
        [None, "a", "a", None, "b", "b"],
        [None, 7, 7, None, -3, -3],
        np.array([np.nan, 0.5, 0.5, np.nan, 2, 2]),
    ):
        assert sb.uncertain.topk_probabilities(SPEEDS, CHANCES, 2, rules).tolist() == expected.tolist()
    alone = sb.uncertain.topk_probabilities(SPEEDS, CHANCES, 2)
    for rules in ([None] * 6, [-1] * 6, np.full(6, np.nan), [0, 1, 2, 3, 4, 5]):
        assert sb.uncertain.topk_probabilities(SPEEDS, CHANCES, 2, rules).tolist() == alone.tolist()


def test_no_tuples_and_tuples_without_a_score():
    assert sb.uncertain.topk_probabilities([], [], 3).tolist() == []
    assert sb.uncertain.topk_probabilities([np.nan, 1.0], [0.5, 0.5], 3).tolist() == [0, 0.5]
    assert sb.uncertain.topk_probabilities([None, 1.0], [None, 0.5], 3).tolist() == [0, 0.5]
    assert sb.uncertain.rank_probabilities([], [], 2).shape == (0, 2)


def test_a_stream_s_probability_is_the_sum_over_its_tuples():
    found = sb.uncertain.stream_probabilities(SPEEDS, CHANCES, ["a", "b", "c", "a", "b", "c"], 2, PAIRS)
    assert found == pytest.approx({"a": 0.3 + 0.202, "b": 0.4 + 0.704, "c": 0.38 + 0.014})
    assert list(found) == ["b", "a", "c"]
    with pytest.raises(sb.InvalidInputError, match="stream must not be null, got null at row 1"):
        sb.uncertain.stream_probabilities([1.0, 2.0], [0.5, 0.5], ["a", None], 1)


@pytest.mark.parametrize("wrong", [0.0, -0.1, 1.0000001, np.nan, None, np.inf])
def test_refuses_what_is_no_probability(wrong):
    with pytest.raises(sb.InvalidInputError, match=r"probability must be in \(0, 1\], got \S+ at row 1"):
        sb.uncertain.topk_probabilities([1.0, 2.0], [0.5, wrong], 1)


def test_refuses_rules_that_sum_above_1():
    with pytest.raises(sb.InvalidInputError, match=r"rule 'b' add up to 1\.2, but must add up to at most 1"):
        sb.uncertain.topk_probabilities([1.0, 2.0, 3.0], [0.6, 1, 0.6], 1, ["b", "a", "b"])
    sb.uncertain.topk_probabilities(range(10), [0.1] * 10, 1, [3] * 10)  # one by rounding only: 1 - 1e-16


def test_refuses_columns_that_do_not_fit():
    with pytest.raises(sb.InvalidInputError, match="must have the same length, got 1 probabilities and 2 scores"):
        sb.uncertain.topk_probabilities([1.0, 2.0], [0.5], 1)
    with pytest.raises(sb.InvalidInputError, match="must have the same length, got 3 rules and 2 scores"):
        sb.uncertain.topk_probabilities([1.0, 2.0], [0.5, 0.5], 1, [1, 2, 3])
    with pytest.raises(sb.InvalidInputError, match="probabilities are of type string, but must be numbers in"):
        sb.uncertain.topk_probabilities([1.0, 2.0], ["x", "y"], 1)
    with pytest.raises(sb.InvalidQueryError, match="k must be between 1 and 2147483647, got 0"):
        sb.uncertain.topk_probabilities([1.0], [0.5], 0)
    with pytest.raises(sb.InvalidQueryError, match=r"k=\[\] is empty"):
        sb.uncertain.topk_probabilities([1.0], [0.5], [])
    with pytest.raises(sb.InvalidQueryError, match="method='slow'"):
        sb.uncertain.topk_probabilities([1.0], [0.5], 1, method="slow")


@pytest.mark.parametrize("n", [1, 7, 8, 9, 15, 16, 17, 24, 25, 63, 64, 65])
@pytest.mark.parametrize("reach", [1, 3, 20])
def test_rules_inside_and_across_blocks(n, reach):
    """Blocks of eight tuples are told of together: rules begin, end and lie in them, at every place."""
    rng = np.random.default_rng(n)
    labels = (np.arange(n) + rng.integers(0, reach, n)) // 2  # members are close to each other, best first
    scores = -np.arange(n).astype(float)
    chances = rng.random(n) / np.bincount(labels)[labels]
    ks = [1, 2, 6, 7, 8, 9, 30]
    fast = sb.uncertain.topk_probabilities(scores, chances, ks, labels)
    slow = sb.uncertain.topk_probabilities(scores, chances, ks, labels, method="definition")
    assert np.abs(fast - slow).max() < 1e-15
    ranks = sb.uncertain.rank_probabilities(scores, chances, 30, labels)
    assert np.abs(ranks.cumsum(1)[:, [k - 1 for k in ks]] - slow).max() < 1e-15


@pytest.mark.parametrize("n", [1, 8, 9, 100, 257, 5000])
def test_the_room_in_the_tree_is_enough(n):
    """Kernels do not check indices: the deepest node has a row, and one more for the ranks of its tuples."""
    blocks, deepest = -(-n // possible_worlds.BLOCK), 1
    while blocks > 1:
        blocks, deepest = -(-blocks // 2), deepest + 1
    assert possible_worlds.tree_for(n, 4).factors.shape[0] >= deepest + 2
