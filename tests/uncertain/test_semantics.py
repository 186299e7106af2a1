"""Seven meanings of a good answer, each against the list of all worlds."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

import skyband as sb
from skyband.uncertain.kernels import selection
from skyband.uncertain.kernels.possible_worlds import CLOSE
from skyband.uncertain.semantics import lowest_first
from tests.uncertain import oracle
from tests.uncertain.test_probabilities import CHANCES, PAIRS, SPEEDS, random_input

KS = (1, 2, 3, 7)


def rows(table):
    return [(row["row"], row["probability"]) for row in table.to_pylist()]


def same(found, truth):
    assert [row for row, _ in found] == [row for row, *_ in truth]
    assert [p for _, p in found] == pytest.approx([float(p) for _, p, *_ in truth], abs=1e-12)


@pytest.mark.parametrize("semantics", ["pk-topk", "global-topk"])
@pytest.mark.parametrize("seed", range(40))
def test_highest_probabilities(seed, semantics):
    scores, chances, labels = random_input(random.Random(seed))
    for k in KS:
        found = sb.uncertain.rank(scores, chances, k, semantics, labels)
        same(rows(found), oracle.pk_topk(oracle.tuples(scores, chances, labels), k))
        assert found["rank"].to_pylist() == list(range(1, found.num_rows + 1))
        assert found["score"].to_pylist() == [scores[row] for row in found["row"].to_pylist()]


@pytest.mark.parametrize("seed", range(40))
def test_probabilities_above_a_threshold(seed):
    draw = random.Random(seed)
    scores, chances, labels = random_input(draw)
    for k in KS:
        for threshold in (1e-9, draw.random(), 0.25, 0.5, 1.0):
            found = sb.uncertain.rank(scores, chances, k, "pt-k", labels, threshold)
            same(rows(found), oracle.pt_k(oracle.tuples(scores, chances, labels), k, Fraction(threshold)))


@pytest.mark.parametrize("seed", range(60))
def test_likeliest_tuple_for_each_rank(seed):
    scores, chances, labels = random_input(random.Random(seed))
    for k in KS:
        found = sb.uncertain.rank(scores, chances, k, "u-kranks", labels)
        same(rows(found), oracle.u_kranks(oracle.tuples(scores, chances, labels), k))


@pytest.mark.parametrize("seed", range(150))
def test_likeliest_list(seed):
    scores, chances, labels = random_input(random.Random(seed), grid=random.Random(seed).choice([2, 16, 1000]))
    exact = oracle.tuples(scores, [Fraction(p).limit_denominator(1000) for p in chances], labels)
    for k in KS:
        found = sb.uncertain.rank(scores, chances, k, "u-topk", labels)
        lists = oracle.u_topk_lists(exact, k)
        mine = tuple(found["row"].to_pylist())
        best = max(lists.values())
        assert mine in lists
        assert float(lists[mine]) == pytest.approx(float(best), rel=1e-11)  # any of the most probable ones
        assert found["probability"].to_pylist() == pytest.approx([float(best)] * len(mine), abs=1e-12)
        assert found["rank"].to_pylist() == list(range(1, len(mine) + 1))


@pytest.mark.parametrize("seed", range(40))
def test_expected_ranks(seed):
    scores, chances, labels = random_input(random.Random(seed))
    for k in KS:
        found = sb.uncertain.rank(scores, chances, k, "expected-rank", labels)
        truth = oracle.expected_rank(oracle.tuples(scores, chances, labels), k)
        same(rows(found), truth)
        assert found["expected_rank"].to_pylist() == pytest.approx([float(one[2]) for one in truth], abs=1e-12)


def weights_of(draw):
    """Weights of some ranks, as exact fractions: falling, any, with gaps, or of both signs."""
    some = [Fraction(draw.randint(-8, 8), 8) for _ in range(draw.randint(1, 6))]
    falling = [Fraction(1, i) for i in range(1, draw.randint(2, 7))]
    step = [Fraction(1)] * draw.randint(1, 4)
    return draw.choice([some if any(some) else step, list(map(abs, some)) if any(some) else step, falling, step])


@pytest.mark.parametrize("seed", range(80))
def test_a_ranking_function_with_weights(seed):
    draw = random.Random(seed)
    scores, chances, labels = random_input(draw)
    for k in KS:
        weights = [Fraction(float(weight)) for weight in weights_of(draw)]
        found = sb.uncertain.rank(scores, chances, k, "prf", labels, weights=list(map(float, weights)))
        exact = oracle.tuples(scores, chances, labels)
        truth = oracle.prf(exact, k, lambda rank, weights=weights: weights[rank - 1] if rank <= len(weights) else 0)
        truth = [row for row in truth if abs(row[2]) > 1e-14]  # a sum of both signs that is 0 up to rounding is 0
        same(rows(found), truth)
        assert found["prf"].to_pylist() == pytest.approx([float(one[2]) for one in truth], abs=1e-12)


@pytest.mark.parametrize("seed", range(40))
def test_a_ranking_function_with_falling_weights(seed):
    draw = random.Random(seed)
    scores, chances, labels = random_input(draw)
    for k, alpha in zip(KS, (draw.random() or 0.5, 0.5, 0.001, 1.0), strict=True):
        found = sb.uncertain.rank(scores, chances, k, "prf", labels, alpha=alpha)
        truth = oracle.prf(oracle.tuples(scores, chances, labels), k, lambda rank, alpha=alpha: Fraction(alpha) ** rank)
        same(rows(found), truth)
        assert found["prf"].to_pylist() == pytest.approx([float(one[2]) for one in truth], rel=1e-11)


def test_special_cases_of_ranking_functions():
    """As the definition says: ones for k ranks are Pr_k, one for the first rank is the likeliest best, alpha 1 is p."""
    for k in (1, 2, 3):
        ones = sb.uncertain.rank(SPEEDS, CHANCES, k, "prf", PAIRS, weights=[1] * k)
        tops = sb.uncertain.rank(SPEEDS, CHANCES, k, "pk-topk", PAIRS)
        assert ones["row"].to_pylist() == tops["row"].to_pylist()
        assert ones["prf"].to_pylist() == pytest.approx(tops["probability"].to_pylist())
    first = sb.uncertain.rank(SPEEDS, CHANCES, 1, "prf", PAIRS, weights=[1])
    assert first["row"].to_pylist() == sb.uncertain.rank(SPEEDS, CHANCES, 1, "u-kranks", PAIRS)["row"].to_pylist()
    sure = sb.uncertain.rank(SPEEDS, CHANCES, 3, "prf", PAIRS, alpha=1)
    assert sure["prf"].to_pylist() == sure["probability"].to_pylist() == [1.0, 0.8, 0.5]


def test_ranking_functions_of_many_tuples():
    rng = np.random.default_rng(5)
    n = 3000
    scores, chances = rng.random(n).round(2), np.maximum(rng.random(n), 1e-6)
    labels = np.where(rng.random(n) < 0.5, rng.integers(0, n, n), -1)
    for label in np.unique(labels[labels >= 0]):
        chances[labels == label] /= (labels == label).sum()
    exact = sb.uncertain.rank_probabilities(scores, chances, 60, labels)
    for weights in (np.linspace(1, 0, 50, endpoint=False), rng.normal(size=60)):
        values = exact[:, : weights.size] @ weights
        order = np.lexsort([-np.arange(n), -scores])
        expected = order[np.argsort(-np.abs(values[order]).round(13), kind="stable")][:25]
        found = sb.uncertain.rank(scores, chances, 25, "prf", labels, weights=weights)
        assert found["row"].to_pylist() == expected.tolist()
        assert found["prf"].to_pylist() == pytest.approx(values[expected].tolist())
    ranks = sb.uncertain.rank_probabilities(scores, chances, 400, labels)
    values = ranks @ 0.7 ** np.arange(1, 401)
    found = sb.uncertain.rank(scores, chances, 25, "prf", labels, alpha=0.7)
    assert found["prf"].to_pylist() == pytest.approx(np.sort(values)[::-1][:25].tolist())


def test_values_too_small_to_be_ranked():
    """Below 1e-100 of the largest weight; a tuple that cannot have a weighted rank is in no answer either."""
    n = 400
    scores, chances = np.arange(n)[::-1].astype(float), np.full(n, 0.5)
    found = sb.uncertain.rank(scores, chances, n, "prf", weights=[1e3])
    assert found["row"].to_pylist() == list(range(332))  # 0.5 ** 332 is the last one above
    assert sb.uncertain.rank(scores, chances, n, "prf", alpha=0.1).num_rows < n
    assert sb.uncertain.rank([3.0, 2.0], [1.0, 0.5], 2, "prf", weights=[1])["row"].to_pylist() == [0]
    assert sb.uncertain.rank([3.0, 2.0], [1.0, 0.5], 2, "prf", weights=[1, -1])["prf"].to_pylist() == [1.0, -0.5]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({}, "weights=None is missing; semantics='prf' needs weights= of the ranks"),
        ({"weights": [1], "alpha": 0.5}, "alpha=0.5 is not supported with weights="),
        ({"weights": []}, r"weights must be a list of 1 to 100000 finite numbers, not all 0, got \[\]"),
        ({"weights": [0, 0.0]}, "not all 0"),
        ({"weights": [1, float("nan")]}, "finite numbers"),
        ({"weights": [1, "2"]}, "finite numbers"),
        ({"weights": [True]}, "finite numbers"),
        ({"weights": "123"}, "finite numbers"),
        ({"weights": [1] * 100_001}, "got 100001 weights"),
        ({"alpha": 0}, r"alpha=0 must be a number in \(0, 1\]"),
        ({"alpha": 1.5}, r"alpha=1.5 must be a number in \(0, 1\]"),
        ({"alpha": "0.5"}, "must be a number"),
    ],
)
def test_weights_are_numbers(more, message):
    with pytest.raises(sb.InvalidQueryError, match=message):
        sb.uncertain.rank([1.0], [0.5], 1, "prf", **more)


def test_weights_without_use_are_refused():
    with pytest.raises(sb.InvalidQueryError, match=r"weights=\[1\] is not supported with semantics='pk-topk'"):
        sb.uncertain.rank([1.0], [0.5], 1, weights=[1])
    with pytest.raises(sb.InvalidQueryError, match=r"alpha=0.5 is not supported with semantics='u-topk'"):
        sb.uncertain.rank([1.0], [0.5], 1, "u-topk", alpha=0.5)
    assert sb.UncertainTopK(k=1, size=5, semantics="prf", weights=[1, 2, 0, 0]).weights == (1.0, 2.0)


def test_tuples_that_surely_exist_have_their_rank():
    found = sb.uncertain.rank([3.0, 1.0, 2.0], [1.0, 1.0, 1.0], 3, "expected-rank")
    assert found["expected_rank"].to_pylist() == [1, 2, 3]
    for semantics in ("pk-topk", "u-kranks", "u-topk"):
        assert sb.uncertain.rank([3.0, 1.0, 2.0], [1.0] * 3, 2, semantics)["row"].to_pylist() == [0, 2]


def test_the_paper_s_answers():
    assert set(sb.uncertain.rank(SPEEDS, CHANCES, 3, rules=PAIRS)["row"].to_pylist()) == {2, 3, 4}
    assert set(sb.uncertain.rank(SPEEDS, CHANCES, 2, rules=PAIRS)["row"].to_pylist()) == {1, 4}


def test_answers_are_not_part_of_larger_ones():
    """Why k = 2 cannot be cut out of k = 3: the second best reading for two is not among the best three."""
    two = set(sb.uncertain.rank(SPEEDS, CHANCES, 2, rules=PAIRS)["row"].to_pylist())
    three = set(sb.uncertain.rank(SPEEDS, CHANCES, 3, rules=PAIRS)["row"].to_pylist())
    assert not two <= three


def test_a_list_as_long_as_the_longest_world():
    found = sb.uncertain.rank([3.0, 2.0, 1.0], [0.5, 0.4, 0.25], 5, "u-topk", [1, 1, -1])
    assert rows(found) == [(0, 0.125), (2, 0.125)]


def test_many_tuples_have_the_same_answers_as_the_definition():
    rng = np.random.default_rng(2)
    n = 3000
    scores, chances = rng.random(n).round(2), np.maximum(rng.random(n), 1e-6)
    labels = np.where(rng.random(n) < 0.5, rng.integers(0, n, n), -1)
    for label in np.unique(labels[labels >= 0]):
        chances[labels == label] /= (labels == label).sum()
    tops = sb.uncertain.topk_probabilities(scores, chances, 25, labels, method="definition")
    order = np.lexsort([-np.arange(n), -scores])
    expected = order[np.argsort(-tops[order].round(13), kind="stable")][:25]
    assert sb.uncertain.rank(scores, chances, 25, rules=labels)["row"].to_pylist() == expected.tolist()
    above = sb.uncertain.rank(scores, chances, 25, "pt-k", labels, 0.3)["row"].to_pylist()
    assert set(above) == set(np.flatnonzero(tops >= 0.3).tolist())
    assert sb.uncertain.rank(scores, chances, 25, "u-topk", labels).num_rows == 25


def test_a_long_list_has_a_probability_below_the_smallest_double():
    n = 5000
    found = sb.uncertain.rank(np.arange(n)[::-1].astype(float), np.full(n, 0.4), 2000, "u-topk")
    assert found["row"].to_pylist() == list(range(2000))  # nothing is gained by a gap: 0.4 · 0.6 each


def test_nearly_equal_keys_keep_their_order():
    keys = np.array([2.0, 1.0 + 2e-16, 1.0, 3.0, 1.0 - 1e-16])
    assert lowest_first(keys, 4).tolist() == [1, 2, 4, 0]
    assert lowest_first(np.empty(0), 4).tolist() == []
    many = np.concatenate([keys, np.full(100, 5.0)])
    assert lowest_first(many, 3).tolist() == [1, 2, 4]


@pytest.mark.parametrize("seed", range(20))
def test_the_k_most_probable_are_chosen_as_by_sorting(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 300))
    tops = rng.choice([0.0, 0.25, 0.5, 0.75, *rng.random(20)], (n, 3)) * (1 + rng.choice([0.0, 2e-16, -2e-16], (n, 3)))
    room = selection.room_for(n)
    for column, k in ((0, 1), (1, 7), (2, 400)):
        found = -room.rows[: selection.choose(tops, column, k, CLOSE, room)]
        positive = np.flatnonzero(tops[:, column] > 0)
        assert found.tolist() == positive[lowest_first(-tops[positive, column], k)].tolist()


def test_no_tuples():
    for semantics in ("pk-topk", "global-topk", "u-kranks", "u-topk", "expected-rank"):
        assert sb.uncertain.rank([], [], 3, semantics).num_rows == 0
    assert sb.uncertain.rank([], [], 3, "pt-k", threshold=0.5).num_rows == 0
    assert sb.uncertain.rank([], [], 3, "prf", weights=[1, 2]).column_names[-1] == "prf"
    assert sb.uncertain.rank([np.nan, 5.0], [0.5, 0.5], 3)["row"].to_pylist() == [1]


@pytest.mark.parametrize("threshold", [0, 0.0, -0.5, 1.1, "0.5", True, float("nan")])
def test_a_threshold_is_a_probability(threshold):
    with pytest.raises(sb.InvalidQueryError, match=r"must be a number in \(0, 1\] for semantics='pt-k'"):
        sb.uncertain.rank([1.0], [0.5], 1, "pt-k", threshold=threshold)


def test_a_threshold_without_use_is_refused():
    with pytest.raises(sb.InvalidQueryError, match=r"threshold=0\.5 is not supported with semantics='u-topk'"):
        sb.uncertain.rank([1.0], [0.5], 1, "u-topk", threshold=0.5)
    with pytest.raises(sb.InvalidQueryError, match=r"semantics must be one of 'pk-topk'.*, got 'best'"):
        sb.uncertain.rank([1.0], [0.5], 1, "best")
