"""Equal scores under ``ties="rank"``: what only this policy can get wrong, and what it has in common with the other.

The conformance suite runs both policies against the oracle on short streams. Here are longer ones, on which arrays that
2k objects would have filled overflow with ties, and what happens where the two policies meet.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skyband as sb
from skyband.data import window_table
from skyband.data.answer_log import AnswerLog
from skyband.kernels.expand import fill_tied_ranks
from skyband.topk.algorithms.panes import MOST_LATTICES, Panes
from tests import oracle
from tests.drive import ALGORITHMS, WITH_TIES, held, read, time_query
from tests.streams import asked, cut, time_rows
from tests.topk.test_panes import SHAPES, drawn, pushed

WITHOUT_TIES = sorted(set(ALGORITHMS) - set(WITH_TIES))

# Where scores tie, by chance or by nature: the shapes of the other policy, and some that are nothing but ties.
TIED_SHAPES = {
    "ties": SHAPES["ties"],
    "rare": SHAPES["rare"],
    "infinite": SHAPES["infinite"],
    "uniform": SHAPES["uniform"],
    "equal": lambda draw, n: np.full(n, 3.0),
    "grid": lambda draw, n: draw.integers(1, 101, n).astype(float),
    "stairs down": lambda draw, n: -(np.arange(n) // 300).astype(float),
    "stairs up": lambda draw, n: (np.arange(n) // 300).astype(float),
    "phases": lambda draw, n: np.where(np.arange(n) // 2_000 % 2, 1.0, draw.random(n)),
    "zeros": lambda draw, n: draw.choice([0.0, -0.0, -1.0], n),
}
every_shape = pytest.mark.parametrize("shape", TIED_SHAPES)


def ranked(query, **more):
    return sb.TopK(**{**query.to_dict(), "ties": "rank", **more})


def windows(answers):
    """{(query, end): its rows in order} of a table."""
    found = {}
    for query, _, end, *row in read(answers, "query"):
        found.setdefault((query, end), []).append(tuple(row))
    return found


def test_equal_keys_share_a_rank_only_where_the_query_says_so_and_never_across_windows():
    listed = [  # tied, keys, ranks
        (1, [9.0, 9.0, 7.0, 7.0], [1, 1, 3, 3]),
        (1, [], []),
        (0, [7.0, 7.0, 0.0], [1, 2, 3]),
        (1, [np.inf, np.inf, 1.0], [1, 1, 3]),
        (1, [1.0, 0.0, -0.0], [1, 2, 2]),
    ]
    tied, keys, wanted = zip(*listed, strict=True)
    ranks = np.zeros(sum(map(len, keys)), np.int64)
    fill_tied_ranks(np.array([len(one) for one in keys]), np.concatenate(keys), np.array(tied), ranks)
    assert ranks.tolist() == [rank for one in wanted for rank in one]


@pytest.mark.parametrize("algorithm", WITH_TIES)
def test_a_small_example_by_hand(algorithm):
    #  window 0..4      5 9 7 5      7 and its betters are 2: the third place is shared by the fives
    #  window 4..8      1 1 1 1      all of them are first
    query = sb.TopK(k=3, size=4, ties="rank")
    found = sb.replay(query, None, [5.0, 9.0, 7.0, 5.0, 1.0, 1.0, 1.0, 1.0], algorithm=algorithm)
    assert found["rank"].to_pylist() == [1, 2, 3, 3, 1, 1, 1, 1]
    assert found["id"].to_pylist() == [1, 2, 3, 0, 7, 6, 5, 4]


@every_shape
def test_one_query_on_long_panes(shape):
    """Panes against the baseline, which the conformance suite compares with the oracle."""
    draw = np.random.default_rng(list(TIED_SHAPES).index(shape))
    for timed in (False, True) * 3:
        n = int(draw.integers(2_000, 12_000))
        scores = TIED_SHAPES[shape](draw, n)
        positions = np.sort(draw.integers(0, n, n)) if timed else None
        query = ranked(drawn(draw, "q", timed), order=str(draw.choice(["desc", "asc"])))
        wanted = sb.replay(query, positions, scores, algorithm="naive")
        for step in (n, 1_000, 37):
            assert pushed(query, "panes", positions, scores, step).equals(wanted), (query, n, step)


@every_shape
@pytest.mark.parametrize("common", [True, False], ids=["one slide", "any slides"])
def test_many_queries_in_blocks(shape, common):
    draw = np.random.default_rng(list(TIED_SHAPES).index(shape) + 100)
    for timed in (False, True):
        n = int(draw.integers(5_000, 12_000))
        scores = TIED_SHAPES[shape](draw, n)
        positions = np.sort(draw.integers(0, n, n)) if timed else None
        slide = int(draw.integers(50, 2_000)) if common else None
        queries = [drawn(draw, f"q{i}", timed, slide=slide) for i in range(int(draw.integers(2, 9)))]
        queries = [ranked(query) if draw.random() < 0.8 else query for query in queries]
        wanted = sb.replay(queries, positions, scores, algorithm="naive")
        for step in (n, 1_500):
            assert pushed(queries, "panes", positions, scores, step).equals(wanted), (queries, n, step)


@pytest.mark.parametrize("shape", ["ties", "equal", "phases"])
def test_more_lattices_than_panes_are_cut_by(shape):
    scores = TIED_SHAPES[shape](np.random.default_rng(3), 6_000)
    queries = [
        sb.TopK(name=f"q{i}", k=1 + i % 5, size=1_500 + 7 * i, slide=700 + 3 * i, ties="rank")
        for i in range(MOST_LATTICES + 6)
    ]
    wanted = sb.replay(queries, None, scores, algorithm="naive")
    for step in (6_000, 411):
        assert pushed(queries, "panes", None, scores, step).equals(wanted)


def brute_force_held(query, scores):
    """How many of the objects so far have fewer than k strictly better ones in some live view of a count query."""
    n, window = scores.size, query.window
    needed = np.zeros(n, bool)
    start = window.first_end_after(n) - window.size
    while start < n:
        view = scores[max(0, start) :]
        kth = np.sort(view)[-query.k] if view.size >= query.k else -np.inf
        needed[max(0, start) :] |= view >= kth
        start += window.slide
    return np.flatnonzero(needed)


@every_shape
@pytest.mark.parametrize(("size", "slide"), [(9_000, 3_000), (6_000, 7), (8_000, 8_000), (5_000, 333)])
def test_exactly_the_minimal_set_is_held_on_long_streams(shape, size, slide):
    draw = np.random.default_rng(7)
    scores = TIED_SHAPES[shape](draw, 12_000)
    for k in (1, 40):
        query = sb.TopK(k=k, size=size, slide=slide, ties="rank")
        monitor, upto = sb.Monitor(query), 0
        for step in (5_000, 900, 1, 4_000):
            monitor.push(None, scores[upto : upto + step])
            upto += step
            assert sorted(held(monitor)) == brute_force_held(query, scores[:upto]).tolist()


@every_shape
@pytest.mark.parametrize("algorithm", WITH_TIES)
def test_the_answer_begins_with_that_of_the_other_policy(shape, algorithm):
    draw = np.random.default_rng(11)
    scores = TIED_SHAPES[shape](draw, 6_000)
    for k in (1, 25, 400):
        plain = sb.TopK(k=k, size=1_500, slide=400)
        rows = windows(sb.replay(plain, None, scores, algorithm=algorithm))
        tied = windows(sb.replay(ranked(plain), None, scores, algorithm=algorithm))
        assert {window: [row[1:] for row in found[:k]] for window, found in tied.items()} == {
            window: [row[1:] for row in found] for window, found in rows.items()
        }
        for found in tied.values():
            assert {score for _, _, score in found[k:]} <= {found[min(k, len(found)) - 1][2]}


class TestOneScore:
    """All is held and all is answered, and that is all that it costs."""

    @pytest.mark.parametrize("k", [1, 10, 700, 5_000])
    @pytest.mark.parametrize(("size", "slide"), [(20_000, 5_000), (4_000, 100), (30_000, 30_000)])
    def test_the_whole_window_is_the_answer(self, k, size, slide):
        n = 60_000
        query = sb.TopK(k=k, size=size, slide=slide, ties="rank")
        for step in (n, 7_001):
            monitor = sb.Monitor(query)
            for low in range(0, n, step):
                monitor.push(None, np.full(min(step, n - low), 2.5))
            answers = monitor.answers()
            ends = np.arange(slide, n + 1, slide)
            assert answers.num_rows == np.minimum(ends, size).sum()
            assert answers["rank"].unique().to_pylist() == [1]
            wanted = np.concatenate([np.arange(end - 1, max(-1, end - size - 1), -1) for end in ends])
            assert np.array_equal(answers["id"].to_numpy(), wanted)
            assert monitor.candidates == min(n, size - slide)

    def test_arrays_double_and_do_not_creep(self, monkeypatch):
        """Room is asked for as often as the arrays have doubled, however often the scores tie."""
        grown, cut = [], []
        grow, room = Panes._grow, AnswerLog.make_room
        monkeypatch.setattr(Panes, "_grow", lambda engine: grown.append(1) or grow(engine))
        monkeypatch.setattr(AnswerLog, "make_room", lambda log, rows: cut.append(rows) or room(log, rows))
        n = 1 << 20
        monitor = sb.Monitor(sb.TopK(k=3, size=n, ties="rank"))
        monitor.push(None, np.zeros(n))
        assert monitor.answers().num_rows == n
        assert len(grown) <= 3 * 20
        assert len(cut) <= 2

    def test_short_answers_from_much_that_is_held_share_their_buffers(self, monkeypatch):
        """Stairs down: all 30 000 objects of the window are held, and an answer has a hundred of them."""
        made = []
        room = AnswerLog.make_room
        monkeypatch.setattr(AnswerLog, "make_room", lambda log, rows: made.append(rows) or room(log, rows))
        scores = -(np.arange(90_000) // 100).astype(float)
        monitor = sb.Monitor(sb.TopK(k=5, size=30_000, slide=100, ties="rank"))
        monitor.push(None, scores)
        assert monitor.candidates == 29_900
        assert monitor.answers().num_rows == 90_000
        assert len(made) <= 4

    def test_after_it_a_pane_is_cut_to_its_best_again(self):
        """A pane that one score has made long does not fill up before the next one is cut."""
        query = sb.TopK(k=5, size=40_000, ties="rank")
        monitor = sb.Monitor(query)
        monitor.push(None, np.zeros(40_000))
        (engine,) = monitor._executors.engines
        draw = np.random.default_rng(0)
        for low in range(0, 39_000, 100):
            monitor.push(None, draw.random(100))
            assert engine._pane.registers[0] <= 2 * 5, low
        assert engine._pane.keys.size >= 40_000, "else this test tests nothing"


def test_a_look_ahead_that_misses_ties_is_gone_back_on():
    """The rows the sample steps on are few and the best; below them is one score, and more of it than there is room."""
    k, size = 1_000, 60_000
    query = sb.TopK(k=k, size=size, ties="rank")
    warm = np.random.default_rng(0).random(size)
    poor = np.zeros(size)
    lines = max(8, min(2_048, 16 * size // k) // 8)
    for line in range(lines):
        poor[line * (size // lines) : line * (size // lines) + 8] = 1.0 + np.arange(8)
    assert 0 < np.count_nonzero(poor) < k, "else this test tests nothing"
    for warm_up in ([], [warm]):
        scores = np.concatenate([*warm_up, poor, warm])
        found = sb.replay(query, None, scores)
        assert found.equals(sb.replay(query, None, scores, algorithm="naive"))


@pytest.mark.parametrize("queries", [1, 2])
def test_an_answer_longer_than_any_text_column_comes_in_several_batches(queries, monkeypatch):
    asked_for = [sb.TopK(name="a query"[i:], k=2, size=30, ties="rank") for i in range(queries)]
    scores = [float(i % 2) for i in range(90)]
    wanted = sb.replay(asked_for, None, scores)
    monkeypatch.setattr(window_table, "_MOST_LETTERS", 50)
    found = sb.replay(asked_for, None, scores)
    assert found["query"].num_chunks > wanted["query"].num_chunks
    assert found.combine_chunks().equals(wanted.combine_chunks())


class TestRefused:
    @pytest.mark.parametrize("algorithm", WITHOUT_TIES)
    def test_by_engines_that_rest_on_a_total_order(self, algorithm):
        queries = [sb.TopK(name="plain", k=2, size=4), sb.TopK(name="shared", k=2, size=4, ties="rank")]
        for asked_for in (queries, queries[1]):
            with pytest.raises(sb.UnsupportedError) as caught:
                sb.Monitor(asked_for, algorithm)
            said = str(caught.value)
            assert said.startswith(f"'shared' has ties='rank', which {algorithm} does not support")
            assert "it drops objects that tie with the k-th" in said
            assert said.endswith("Use algorithm='panes'.")

    @pytest.mark.parametrize("algorithm", WITHOUT_TIES)
    def test_when_such_a_query_joins_and_nothing_has_moved(self, algorithm):
        monitor = sb.Monitor(sb.TopK(name="plain", k=2, size=4), algorithm)
        monitor.push(None, [1.0, 1.0])
        before = monitor.snapshot()
        with pytest.raises(sb.UnsupportedError, match=f"ties='rank', which {algorithm} does not support"):
            monitor.add(sb.TopK(name="shared", k=2, size=4, ties="rank"))
        assert monitor.snapshot() == before

    @pytest.mark.parametrize("algorithm", WITHOUT_TIES)
    def test_for_each_group_before_the_first_one_comes(self, algorithm):
        with pytest.raises(sb.UnsupportedError, match="ties='rank'"):
            sb.Monitor(sb.TopK(k=2, size=4, partition_by=["g"], ties="rank"), algorithm)


class TestJoining:
    """What is held for one policy does not serve the other, except where it has the ties to spare."""

    def test_a_plain_query_finds_its_rows_among_those_of_a_tied_one(self):
        monitor = sb.Monitor(sb.TopK(name="tied", k=5, size=10, slide=5, ties="rank"))
        monitor.push(None, [1.0] * 12)
        assert monitor.add(sb.TopK(name="plain", k=5, size=5)) == 15
        monitor.push(None, [1.0] * 3)
        found = windows(monitor.answers())
        assert [row[1] for row in found["plain", 15]] == [14, 13, 12, 11, 10]
        assert len(found["tied", 15]) == 10

    def test_a_tied_query_does_not_among_those_of_a_plain_one_however_large_its_k(self):
        monitor = sb.Monitor(sb.TopK(name="plain", k=6, size=10, slide=5))
        monitor.push(None, [1.0] * 12)
        assert monitor.add(sb.TopK(name="tied", k=1, size=5, ties="rank")) == 20
        monitor.push(None, [1.0] * 8)
        found = windows(monitor.answers())
        assert [row[1] for row in found["tied", 20]] == [19, 18, 17, 16, 15]
        assert ("tied", 15) not in found

    def test_a_tied_query_finds_them_among_those_of_another(self):
        monitor = sb.Monitor([sb.TopK(name="plain", k=9, size=10), sb.TopK(name="tied", k=2, size=10, ties="rank")])
        monitor.push(None, [3.0, 1.0, 3.0, 3.0])
        assert monitor.add(sb.TopK(name="one", k=1, size=10, ties="rank")) == 10
        assert monitor.add(sb.TopK(name="nine", k=9, size=10, ties="rank")) == 20
        monitor.push(None, [0.0] * 6)
        assert windows(monitor.answers())["one", 10] == [(1, 3, 3.0), (1, 2, 3.0), (1, 0, 3.0)]

    def test_when_the_tied_query_leaves_its_ties_go(self):
        queries = [sb.TopK(name="tied", k=2, size=50, ties="rank"), sb.TopK(name="plain", k=2, size=50)]
        monitor = sb.Monitor(queries)
        monitor.push(None, [4.0] * 40)
        assert monitor.candidates == 40 + 2
        monitor.remove("tied")
        assert held(monitor) == [39, 38]


def test_policies_share_no_engine_and_directions_neither():
    queries = [
        sb.TopK(name=f"{order} {ties} {k}", k=k, size=4, order=order, ties=ties)
        for k in (1, 2)
        for order in ("asc", "desc")
        for ties in ("rank", "row_number")
    ]
    engines = sb.Monitor(queries)._executors.engines
    assert len(engines) == 4
    for engine in engines:
        assert len({(query.order, query.ties) for query in engine._queries}) == 1


@pytest.mark.parametrize("algorithm", WITH_TIES)
@given(data=st.data(), query=asked(), rows=time_rows(), restart=st.booleans())
def test_groups(algorithm, data, query, rows, restart):
    """A group's windows are those of its own rows; both policies side by side, and one query over all groups."""
    groups = {row[2]: data.draw(st.sampled_from("ab")) for row in rows}
    each = [replace(query, tied=tied, full_only=False) for tied in (True, False)]
    queries = [time_query(one, name=f"q{i}", partition_by=["g"]) for i, one in enumerate(each)]
    queries.append(time_query(replace(each[0], k=1), name="all"))
    monitor = sb.Monitor(queries, algorithm)
    for batch in data.draw(cut(rows)):
        columns = [[row[field] for row in batch] for field in range(3)]
        monitor.push(
            np.array(columns[0], np.int64),
            columns[1],
            np.array(columns[2], np.int64),
            groups=[groups[id_] for id_ in columns[2]],
        )
        if restart:
            monitor = sb.Monitor.resume(monitor.snapshot())
    monitor.finish()
    found = read(monitor.answers(), "query", "group")
    for group in "ab":
        inside = [row for row in rows if groups[row[2]] == group]
        for i, one in enumerate(each):
            mine = [row[2:] for row in found if row[:2] == (f"q{i}", group)]
            assert mine == oracle.answers(one, inside)
    assert [row[2:] for row in found if row[0] == "all"] == oracle.answers(replace(each[0], k=1), rows)


@pytest.mark.parametrize("algorithm", WITH_TIES)
@given(data=st.data(), query=asked(), rows=time_rows(), restart=st.booleans())
def test_text_ids_that_wait_for_their_turn(algorithm, data, query, rows, restart):
    """While time stands still rows with text ids wait, cut to the k best: with their ties."""
    query = replace(query, tied=True, k=min(query.k, 2))
    rows = [(position, score, f"{id_ + 5000:05d}") for position, score, id_ in rows]
    monitor = sb.Monitor(time_query(query), algorithm)
    for batch in data.draw(cut(rows)):
        ids = pa.array([row[2] for row in batch], pa.string())
        monitor.push(np.array([row[0] for row in batch], np.int64), [row[1] for row in batch], ids)
        if restart:
            monitor = sb.Monitor.resume(monitor.snapshot())
    monitor.finish()
    assert read(monitor.answers()) == oracle.answers(query, rows)


def test_waiting_text_ids_are_still_cut():
    monitor = sb.Monitor(sb.TopK(k=2, size="4 microseconds", ties="rank"))
    for score in range(50):
        monitor.push([1, 1], [float(score), float(score)], [f"a{score}", f"b{score}"])
    # The two best and the two poorest, as both directions may ask.
    assert monitor.candidates == 4


def test_a_text_id_that_ties_waits_for_a_query_that_joins_with_ties():
    monitor = sb.Monitor(sb.TopK(name="plain", k=1, size="4 microseconds"))
    monitor.push([1], [5.0], ["a"])
    monitor.add(sb.TopK(name="tied", k=1, size="4 microseconds", ties="rank"))
    for id_ in ("d", "c", "b"):
        monitor.push([9], [1.0], [id_])
    monitor.finish()
    found = windows(monitor.answers())
    assert found["tied", 12] == [(1, "d", 1.0), (1, "c", 1.0), (1, "b", 1.0)]
    assert found["plain", 12] == [(1, "d", 1.0)]


def test_a_snapshot_of_one_policy_is_not_resumed_under_the_other():
    query = sb.TopK(k=2, size=6)
    monitor = sb.Monitor(query)
    monitor.push(None, [1.0] * 4)
    with pytest.raises(sb.SnapshotError):
        sb.Monitor.resume(monitor.snapshot(), ranked(query))


def test_the_page_promises_no_bound_where_scores_may_tie():
    plain = sb.TopK(name="plain", k=10, size="10 minutes", slide="1 minute")
    page = sb.Workload([plain, ranked(plain, name="tied")]).explain()
    assert "Memory: about 59 candidate rows (more if scores tie)." in page
    assert "2 sharing classes" in page
    assert "about 29 expected, never more than 100" in page
    assert "about 29 expected, plus all rows that tie with them" in page
    assert "class 2: by the given score, desc, with ties" in page
    assert "panes: keeps the minimal candidate set including ties" in page
