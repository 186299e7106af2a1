"""Every method against the oracle: answers, batching, restarts, bad input."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from tests.incomplete import oracle
from tests.incomplete.drive import as_tuples, listed, some_question, some_tuples

EXACT = ("exact", "sorted-lists")


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize("axis", ["count", "time"])
@pytest.mark.parametrize("seed", range(40))
def test_answers_are_those_of_the_oracle(method, axis, seed):
    rng = np.random.default_rng(seed)
    on_count = axis == "count"
    query, asked = some_question(rng, method=method, count_axis=on_count)
    columns = some_tuples(rng, asked, 150, count_axis=on_count, text=seed % 2 == 1)
    expected = oracle.answers(asked, as_tuples(*columns), count_axis=on_count)
    assert listed(sb.incomplete.replay(query, *columns)) == expected


@pytest.mark.parametrize("method", [*EXACT, "approximate"])
@pytest.mark.parametrize("axis", ["count", "time"])
@pytest.mark.parametrize("seed", range(12))
def test_neither_pushes_nor_restarts_change_an_answer(method, axis, seed):
    rng = np.random.default_rng(1000 + seed)
    on_count = axis == "count"
    query, asked = some_question(rng, method=method, count_axis=on_count)
    positions, objects, streams, values = some_tuples(rng, asked, 300, count_axis=on_count, text=seed % 2 == 1)
    whole = sb.incomplete.replay(query, positions, objects, streams, values)
    monitor = sb.incomplete.Monitor(query)
    parts = []
    at = 0
    while at < len(objects):
        to = at + int(rng.integers(0, 40))
        moments = None if positions is None else positions[at:to]
        monitor.push(moments, objects[at:to], streams[at:to], values[at:to])
        at = to
        if rng.random() < 0.5:
            monitor = sb.incomplete.Monitor.resume(monitor.snapshot())
        if rng.random() < 0.5:
            parts.append(monitor.answers())
    monitor.finish()
    parts.append(sb.incomplete.Monitor.resume(monitor.snapshot()).answers())
    assert pa.concat_tables(parts).to_pylist() == whole.to_pylist()


def test_the_example_of_flows_over_routers():
    """A flow's size rises as routers report it and falls as reports grow old."""
    query = sb.IncompleteTopK(k=2, size=100, every=1, streams=["r1", "r2", "r3"], bounds=(0, 50))
    moments = np.array([1, 10, 40, 60, 90])
    table = sb.incomplete.replay(
        sb.IncompleteTopK(**{**query.to_dict(), "size": "100 microseconds", "every": "10 microseconds"}),
        moments,
        ["p", "q", "p", "q", "p"],
        ["r2", "r1", "r3", "r3", "r1"],
        [10.0, 30.0, 25.0, 1.0, 2.0],
    )
    scores = {(row["time"], row["object"]): row["score"] for row in table.to_pylist()}
    assert [scores.get((time, "p")) for time in (10, 50, 100, 110, 150, 190)] == [10.0, 35.0, 37.0, 27.0, 2.0, 2.0]
    assert [scores.get((time, "q")) for time in (20, 70, 110, 120, 160)] == [30.0, 31.0, 31.0, 1.0, 1.0]


def test_several_queries_answer_as_each_alone():
    rng = np.random.default_rng(5)
    queries = [
        sb.IncompleteTopK(name=name, k=k, size=size, every=every, streams=["a", "b"], method=method, intervals=inside)
        for name, k, size, every, method, inside in [
            ("first", 3, 30, 7, "exact", True),
            ("second", 2, 20, 5, "sorted-lists", False),
            ("third", 4, 10, 10, "exact", False),
        ]
    ]
    columns = (None, rng.integers(0, 9, 200), rng.choice(["a", "b"], 200), rng.random(200))
    together = sb.incomplete.replay(queries, *columns)
    assert together["time"].to_pylist() == sorted(together["time"].to_pylist())
    names = ("query", "time", "rank", "object", "score")
    for query in queries:
        alone = sb.incomplete.replay(query, *columns).select(names)
        mine = together.filter(pa.compute.equal(together["query"], query.name)).select(names)
        assert mine.to_pylist() == alone.to_pylist()
    told = together.filter(pa.compute.equal(together["query"], "second"))
    assert told["sure"].null_count == told.num_rows


class TestTooOften:
    def test_is_left_out_and_counted(self):
        query = sb.IncompleteTopK(k=2, size=4, every=1, streams=["s", "t"], occurrences=2)
        monitor = sb.incomplete.Monitor(query)
        monitor.push(None, [1, 1, 1, 1, 2], ["s", "s", "s", "t", "s"], [0.5, 0.25, 0.125, 1.0, 0.5])
        assert monitor.metrics()["over_limit"] == 1
        assert monitor.metrics()["tuples"] == 5
        answers = listed(monitor.answers())
        assert answers[-1] == (4, [(1, 1.75), (2, 0.5)])  # the third 's' of 1 took no number

    @pytest.mark.parametrize("seed", range(8))
    def test_is_counted_as_the_oracle_does(self, seed):
        rng = np.random.default_rng(seed)
        query, asked = some_question(rng, count_axis=False)
        columns = some_tuples(rng, asked, 200, count_axis=False)
        monitor = sb.incomplete.Monitor(query)
        monitor.push(*columns)
        monitor.finish()
        _, expected = oracle.admitted(asked, as_tuples(*columns), count_axis=False)
        assert monitor.metrics()["over_limit"] == expected

    def test_counts_for_windows_that_are_answered_only(self):
        # Windows do not overlap: no answer ever sees the two together.
        query = sb.IncompleteTopK(k=1, size="10 microseconds", streams=["s"])
        table = sb.incomplete.replay(query, [5, 12], ["a", "a"], ["s", "s"], [0.5, 0.75])
        assert table["score"].to_pylist() == [0.5, 0.75]


class TestWhatIsLeftOut:
    def test_rows_without_object_stream_value_or_time(self):
        query = sb.IncompleteTopK(k=3, size="10 microseconds", streams=["s", "t"])
        monitor = sb.incomplete.Monitor(query)
        monitor.push(
            [1, 2, 3, None, 5, 11],
            ["a", None, "b", "c", "d", "e"],
            ["s", "s", None, "t", "t", "s"],
            [0.5, 0.6, 0.7, 0.8, None, float("nan")],
        )
        assert monitor.metrics()["dropped_null"] == 5
        assert listed(monitor.answers()) == [(10, [("a", 0.5)])]  # the last row moved time

    def test_rows_of_which_none_has_a_stream(self):
        monitor = sb.incomplete.Monitor(sb.IncompleteTopK(k=1, size=2, streams=["s"]))
        monitor.push(None, ["a"], [None], [0.5])
        assert monitor.metrics()["dropped_null"] == 1
        assert sb.incomplete.replay(sb.IncompleteTopK(k=1, size=2), None, ["a"], [None], [0.5]).num_rows == 0

    def test_a_stream_that_never_reports_counts_its_lower_bound(self):
        query = sb.IncompleteTopK(k=1, size=2, streams=["s", "silent"], bounds=(3, 10))
        monitor = sb.incomplete.Monitor(query)
        monitor.push(None, ["a", "b"], ["s", "s"], [4, 9])
        assert monitor.answers()["score"].to_pylist() == [12.0]
        assert monitor.metrics()["streams"]["silent"] == {"tuples": 0, "newest": None}

    def test_nothing_at_all(self):
        query = sb.IncompleteTopK(k=1, size="1 second")
        assert sb.incomplete.replay(query, [], [], [], []).num_rows == 0


class TestRefused:
    QUERY = sb.IncompleteTopK(k=1, size=5, streams=["s", "t"])

    @pytest.mark.parametrize(
        ("columns", "said"),
        [
            ((None, ["a"], ["s"], [1.5]), r"values\[0\]=1.5 is outside bounds=\(0.0, 1.0\) of query 'topk'"),
            ((None, ["a"], ["s"], [float("inf")]), r"values\[0\]=inf is outside"),
            ((None, ["a"], ["S"], [0.5]), "stream 'S' does not exist; known: s, t"),
            ((None, ["a", "b"], ["s"], [0.5, 0.5]), "must have the same length, got 1 streams and 2 objects"),
            ((None, [["a"]], ["s"], [0.5]), "objects must be numbers, text, bytes, dates or times, got type list"),
            ((None, ["a"], [0.5], [0.5]), "streams are of type double"),
            ((None, ["a"], ["s"], ["x"]), "values must be numbers, got type string"),
            (([1], ["a"], ["s"], [0.5]), "positions must be None for count windows"),
        ],
    )
    def test_columns_that_cannot_be_taken(self, columns, said):
        monitor = sb.incomplete.Monitor(self.QUERY)
        monitor.push(None, ["z"], ["t"], [0.25])
        before = monitor.snapshot()
        with pytest.raises(sb.SkybandError, match=said):
            monitor.push(*columns)
        assert monitor.snapshot() == before

    def test_objects_of_another_type(self):
        monitor = sb.incomplete.Monitor(self.QUERY)
        monitor.push(None, ["z"], ["t"], [0.25])
        with pytest.raises(sb.InvalidInputError, match="objects changed type from string to int64"):
            monitor.push(None, [1], ["t"], [0.25])

    def test_streams_not_named(self):
        with pytest.raises(sb.InvalidQueryError, match="has no streams="):
            sb.incomplete.Monitor(sb.IncompleteTopK(k=1, size=5))

    def test_a_query_of_another_family(self):
        with pytest.raises(sb.UnsupportedError, match="of type TopK"):
            sb.incomplete.Monitor(sb.TopK(k=1, size=5))

    def test_snapshots_of_these_elsewhere(self):
        blob = sb.incomplete.Monitor(self.QUERY).snapshot()
        with pytest.raises(sb.SnapshotError, match=r"written by skyband\.incomplete\.Monitor"):
            sb.Monitor.resume(blob)

    def test_a_snapshot_of_another_family(self):
        other = sb.Monitor(sb.TopK(k=1, size=5)).snapshot()
        with pytest.raises(sb.SnapshotError):
            sb.incomplete.Monitor.resume(other)

    def test_after_the_end(self):
        monitor = sb.incomplete.Monitor(self.QUERY)
        monitor.finish()
        with pytest.raises(sb.InvalidInputError, match=r"was ended by finish\(\)"):
            monitor.push(None, ["z"], ["t"], [0.25])


def test_texts_that_nobody_needs_are_forgotten():
    query = sb.IncompleteTopK(k=2, size=500, every=100, streams=["s"])
    monitor = sb.incomplete.Monitor(query)
    for turn in range(30):
        names = [f"object {turn} {number}" for number in range(500)]
        monitor.push(None, names, ["s"] * 500, np.full(500, 0.5))
        monitor.answers()
    assert len(monitor.snapshot()) < 500_000
    assert len(monitor._book) < 5_000
