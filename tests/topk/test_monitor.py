"""The life of a monitor: what leaves when, what is refused, and that a refused push leaves everything as it was."""

from __future__ import annotations

import dataclasses
import math
import time

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from tests import oracle
from tests.drive import ALGORITHMS, count_query, read, time_query

every_engine = pytest.mark.parametrize("algorithm", [*ALGORITHMS, "auto"])

TIME = sb.TopK(name="big", k=2, size="10 microseconds", slide="5 microseconds")
COUNT = sb.TopK(k=2, size=4, slide=2)


class TestLife:
    def test_answers_only_once(self):
        monitor = sb.Monitor(TIME)
        assert monitor.answers().num_rows == 0
        monitor.push([1, 3], [7.0, 8.0])
        assert monitor.answers().num_rows == 0
        #  position   0    1    3    5         10
        #                  o    o    o
        #        ──────────────────)  ends at 5, reached by the object at 5
        monitor.push([5], [9.0])
        assert read(monitor.answers()) == [(-5, 5, 1, 1, 8.0), (-5, 5, 2, 0, 7.0)]
        assert monitor.answers().num_rows == 0
        monitor.push([20], [1.0])
        assert [row[1] for row in read(monitor.answers())] == [10, 10, 15]

    def test_an_object_at_an_end_is_not_in_that_window(self):
        monitor = sb.Monitor(TIME)
        monitor.push([4, 5], [1.0, 99.0])
        assert read(monitor.answers()) == [(-5, 5, 1, 0, 1.0)]

    def test_finish_answers_the_trailing_windows(self):
        monitor = sb.Monitor(TIME)
        monitor.push([1], [7.0])
        monitor.finish()
        assert read(monitor.answers()) == [(-5, 5, 1, 0, 7.0), (0, 10, 1, 0, 7.0)]
        assert monitor.candidates == 0

    def test_finish_leaves_unreached_count_windows_unanswered(self):
        monitor = sb.Monitor(COUNT)
        monitor.push(None, [1.0, 2.0, 3.0])
        monitor.finish()
        assert [row[1] for row in read(monitor.answers())] == [2, 2]

    def test_finish_twice_changes_nothing(self):
        monitor = sb.Monitor(TIME)
        monitor.push([1], [7.0])
        monitor.finish()
        blob = monitor.snapshot()
        monitor.finish()
        assert monitor.snapshot() == blob
        assert monitor.answers().num_rows == 2
        monitor.finish()
        assert monitor.answers().num_rows == 0

    @pytest.mark.parametrize("resume", [False, True])
    def test_nothing_comes_after_the_end(self, resume):
        monitor = sb.Monitor(TIME)
        monitor.push([1], [7.0])
        monitor.finish()
        if resume:
            monitor = sb.Monitor.resume(monitor.snapshot())
        for late in (lambda: monitor.push([2], [1.0]), lambda: monitor.advance_to(5), lambda: monitor.push([], [])):
            with pytest.raises(sb.InvalidInputError, match=r"the stream was ended by finish\(\)"):
                late()
        assert monitor.answers().num_rows == 2

    def test_finish_of_nothing(self):
        for query in (TIME, COUNT):
            monitor = sb.Monitor(query)
            monitor.finish()
            assert monitor.answers().num_rows == 0

    def test_empty_pushes_do_nothing(self):
        monitor = sb.Monitor(TIME)
        blob = monitor.snapshot()
        monitor.push([], [])
        monitor.push(np.array([], "M8[us]"), [], pa.array([], pa.string()))
        assert monitor.snapshot() == blob
        monitor.push([1], [7.0])
        blob = monitor.snapshot()
        monitor.push(np.array([], np.int64), np.array([]), np.array([], np.int64))
        assert monitor.snapshot() == blob


class TestTime:
    @every_engine
    def test_advance_to_makes_windows_final(self, algorithm):
        monitor = sb.Monitor(TIME, algorithm)
        monitor.push([1], [7.0])
        monitor.advance_to(4)
        assert monitor.answers().num_rows == 0
        monitor.advance_to(5)
        assert [row[1] for row in read(monitor.answers())] == [5]
        monitor.advance_to(1_000)
        assert [row[1] for row in read(monitor.answers())] == [10]
        assert monitor.candidates == 0
        monitor.push([1_000], [1.0])
        monitor.finish()
        assert [row[1] for row in read(monitor.answers())] == [1_005, 1_010]

    def test_advance_to_does_not_go_back(self):
        monitor = sb.Monitor(TIME)
        monitor.advance_to(20)
        for late in (lambda: monitor.advance_to(19), lambda: monitor.push([19], [1.0])):
            with pytest.raises(sb.InvalidInputError, match=r"(=19 after 20|newest position 20, got 19)"):
                late()
        monitor.advance_to(20)
        monitor.push([20], [1.0])

    @pytest.mark.parametrize("bad", [None, "noon", 1.5, [5], 2**62])
    def test_advance_to_what_is_no_time(self, bad):
        monitor = sb.Monitor(TIME)
        blob = monitor.snapshot()
        with pytest.raises(sb.InvalidInputError):
            monitor.advance_to(bad)
        assert monitor.snapshot() == blob

    def test_advance_to_on_another_clock(self):
        monitor = sb.Monitor(TIME)
        monitor.push([1], [1.0])
        with pytest.raises(sb.InvalidInputError, match="positions changed type from"):
            monitor.advance_to(pa.scalar(5, pa.timestamp("us")).as_py())

    @pytest.mark.parametrize("unit", ["D", "h", "s", "ms", "us", "ns"])
    def test_advance_to_a_datetime64(self, unit):
        monitor = sb.Monitor(sb.TopK(k=1, size="1 day"))
        monitor.push(np.array(["2024-01-01T12:00"], "M8[us]"), [1.0])
        monitor.advance_to(np.datetime64("2024-01-02", unit))
        assert monitor.answers().num_rows == 1

    def test_count_windows_have_no_clock(self):
        with pytest.raises(
            sb.InvalidInputError, match=r"position=5 was given, but count windows advance only with pushed objects"
        ):
            sb.Monitor(COUNT).advance_to(5)

    @every_engine
    def test_left_out_rows_move_time(self, algorithm):
        monitor = sb.Monitor(TIME, algorithm)
        monitor.push([1], [7.0])
        monitor.push([12], [math.nan])
        assert [row[1] for row in read(monitor.answers())] == [5, 10]
        with pytest.raises(sb.InvalidInputError, match="positions must not decrease"):
            monitor.push([11], [1.0])

    def test_rows_without_a_position_move_nothing(self):
        monitor = sb.Monitor(TIME)
        monitor.push([1, None], [7.0, 9.0])
        assert monitor.answers().num_rows == 0
        monitor.push([2], [8.0])

    def test_left_out_rows_take_no_sequence_number(self):
        monitor = sb.Monitor(COUNT)
        monitor.push(None, [1.0, None, math.nan, None])
        assert monitor.answers().num_rows == 0
        monitor.push(None, [2.0])
        assert read(monitor.answers()) == [(-2, 2, 1, 4, 2.0), (-2, 2, 2, 0, 1.0)]


class TestMetrics:
    @every_engine
    def test_counts(self, algorithm):
        monitor = sb.Monitor(TIME, algorithm)
        monitor.push([1, 2, None, 6], [7.0, math.nan, 1.0, 9.0], groups=["a", "b", "a", "b"])
        found = monitor.metrics()
        assert (found["rows"], found["dropped_null"], found["objects"], found["late"]) == (4, 2, 2, 0)
        assert (found["groups"], found["windows"]) == (2, 1)
        assert found["candidates"] == monitor.candidates == 2
        assert found["algorithm"] == monitor.algorithm
        monitor.finish()
        assert monitor.metrics()["windows"] == 4
        assert monitor.metrics()["candidates"] == 0
        assert sb.Monitor.resume(monitor.snapshot()).metrics() == monitor.metrics()


EXTREMES = {
    "empty": ([], []),
    "one object": ([3], [1.0]),
    "all equal": ([0, 1, 2, 3, 4, 5, 6, 7], [4.0] * 8),
    "all NaN": ([0, 1, 2, 3], [math.nan] * 4),
    "all infinite": ([0, 1, 2, 3], [math.inf, -math.inf, math.inf, -math.inf]),
    "one position": ([5] * 6, [1.0, 2.0, 3.0, 3.0, 2.0, 1.0]),
    "zeros of both signs": ([0, 1, 2, 3], [0.0, -0.0, 0.0, -0.0]),
}


class TestExtremes:
    @every_engine
    @pytest.mark.parametrize("name", EXTREMES)
    @pytest.mark.parametrize("k", [1, 3, 1000])
    def test_against_the_definition(self, algorithm, name, k):
        positions, scores = EXTREMES[name]
        for ascending in (False, True):
            query = oracle.Asked(k=k, size=4, slide=2, ascending=ascending)
            want = oracle.answers(query, list(zip(positions, scores, range(len(scores)), strict=True)))
            assert read(sb.replay(time_query(query), positions, scores, algorithm=algorithm)) == want
            want = oracle.count_answers(query, list(zip(scores, range(len(scores)), strict=True)))
            assert read(sb.replay(count_query(query), None, scores, algorithm=algorithm)) == want

    @every_engine
    def test_k_larger_than_the_window_gives_fewer_rows(self, algorithm):
        table = sb.replay(sb.TopK(k=2**31 - 1, size=3), None, [1.0, 3.0, 2.0], algorithm=algorithm)
        assert table["rank"].to_pylist() == [1, 2, 3]
        assert table["score"].to_pylist() == [3.0, 2.0, 1.0]

    @every_engine
    def test_gaps_of_years_take_no_time(self, algorithm):
        year = 365 * 86_400 * 1_000_000
        positions = [i // 5 * year + i % 5 for i in range(100)]
        query = sb.TopK(k=2, size="10 seconds", slide="1 second")
        sb.replay(query, positions[:5], [1.0] * 5, algorithm=algorithm)  # compiled before the clock starts
        began = time.process_time()
        table = sb.replay(query, positions, [1.0] * 100, algorithm=algorithm)
        assert table.num_rows == 20 * 10 * 2
        # Walking window by window through the gaps would be 600 million windows.
        assert time.process_time() - began < 2

    @every_engine
    def test_far_from_the_origin(self, algorithm):
        for at in (2**61, -(2**61)):
            query = sb.TopK(k=1, size="10 microseconds", slide="5 microseconds", origin=at)
            table = sb.replay(query, [at, at + 7], [1.0, 2.0], algorithm=algorithm)
            assert [end - at for end in table["window_end"].to_pylist()] == [5, 10, 15]


class TestOneByOne:
    """A workload answers by window end, then in workload order."""

    def test_order_of_the_table(self):
        queries = [
            sb.TopK(name="z", k=1, size="10 microseconds", slide="5 microseconds"),
            sb.TopK(name="a", k=2, size="10 microseconds"),
        ]
        table = sb.replay(queries, [1, 2], [1.0, 2.0])
        rows = [(row["window_end"], row["query"], row["rank"]) for row in table.to_pylist()]
        assert rows == [(5, "z", 1), (10, "z", 1), (10, "a", 1), (10, "a", 2)]

    def test_queries_and_algorithm_are_shown(self):
        monitor = sb.Monitor([TIME], "mintopk")
        assert monitor.queries == (TIME,)
        assert monitor.algorithm == "mintopk"
        assert sb.Monitor(TIME).algorithm in ALGORITHMS

    def test_many_windows_become_one_ordered_table(self):
        monitor = sb.Monitor(sb.TopK(k=3, size=50, slide=1))
        for start in range(0, 3000, 500):
            monitor.push(None, [float(i * 37 % 101) for i in range(start, start + 500)])
        ends = monitor.answers()["window_end"].to_pylist()
        assert ends == sorted(ends)
        assert len(set(ends)) == 3000


class TestRefusedAtBirth:
    def test_unknown_algorithm_with_near_matches(self):
        with pytest.raises(sb.UnknownNameError, match=r"algorithm 'mintop' does not exist; did you mean 'mintopk'"):
            sb.Monitor(TIME, "mintop")
        with pytest.raises(sb.UnknownNameError, match=r"known: auto, .*mintopk"):
            sb.replay(TIME, [1], [1.0], algorithm="zzzzz")
        with pytest.raises(ValueError, match="did you mean 'naive'"):
            sb.Monitor(TIME, "niave")

    @pytest.mark.parametrize("name", [[], None, 5, np.array(["auto", "auto"]), b"auto"])
    def test_an_algorithm_that_is_no_name(self, name):
        with pytest.raises(sb.UnknownNameError, match=r"algorithm .* does not exist; "):
            sb.Monitor(TIME, name)

    def test_where_has_no_columns_to_filter(self):
        query = sb.TopK(name="q", k=1, size=5, where="a > 1")
        with pytest.raises(
            sb.InvalidQueryError, match="'q' has where='a > 1', but rows given as arrays cannot be filtered"
        ):
            sb.Monitor(query)

    def test_more_windows_than_pointers(self):
        query = sb.TopK(name="dense", k=1, size="365 days", slide="1 microsecond")
        with pytest.raises(sb.UnsupportedError, match=r"'dense' has \d+ windows open at once.*Use algorithm='panes'"):
            sb.Monitor(query, "mintopk")
        sb.Monitor(query, "panes").push([1], [1.0])
        # Not only when the first group comes: then the push would have changed the monitor.
        with pytest.raises(sb.UnsupportedError, match="'dense' has"):
            sb.Monitor(dataclasses.replace(query, partition_by="symbol"), "mintopk")

    def test_no_query(self):
        with pytest.raises(sb.InvalidQueryError, match="at least one query"):
            sb.Monitor([])


def some_monitor(ids="numbers", axis="time", groups=True):
    """A monitor in the middle of its work, with candidates held and answers not yet fetched."""
    made = sb.Monitor(TIME if axis == "time" else COUNT)
    names = {"numbers": [4, 5, 6], "text": ["x", "y", "z"], "none": None}[ids]
    positions = [1, 7, 11] if axis == "time" else None
    made.push(positions, [3.0, 1.0, 2.0], names, groups=["a", "b", None] if groups else None)
    return made


BAD_PUSHES = {
    "positions and scores of different length": (
        ([12, 13], [1.0], [7]),
        "must have the same length, got 2 positions and 1 scores",
    ),
    "ids of another length": (([12], [1.0], [7, 8]), "must have the same length, got 2 ids and 1 scores"),
    "positions go backwards": (
        ([12, 15, 14], [1.0] * 3, [7, 8, 9]),
        r"must not decrease, got positions\[2\]=14 after 15",
    ),
    "positions before the watermark": (([10], [1.0], [7]), r"must not decrease, got positions\[0\]=10 after 11"),
    "backwards behind a null": (([12, None, 11], [1.0] * 3, [7, 8, 9]), r"must not decrease, got positions\[2\]=11"),
    "no positions": ((None, [1.0], [7]), "positions must not be None for time windows"),
    "positions of another clock": ((np.array([12], "M8[us]"), [1.0], [7]), "positions changed type from int64"),
    "positions that are floats": (
        ([12.5], [1.0], [7]),
        "positions must be int64 microseconds or timestamps, got type double",
    ),
    "positions too far": (([2**62], [1.0], [7]), r"must be below 2\*\*62"),
    "scores that are text": (([12], ["1"], [7]), "scores must be numbers, got type string"),
    "scores beyond exactness": (([12, 13], [1, 2**53 + 1], [7, 8]), r"must not exceed 2\*\*53, got scores\[1\]="),
    "scores that are no column": (([12], 1.0, [7]), "is not a column"),
    "ids of another kind": (([12], [1.0], ["x"]), "ids changed type from"),
    "positions that come round": ((np.array([10**15], "M8[s]"), [1.0], [7]), r"must be below 2\*\*62"),
    "scores of any size": (([12], [2**70], [7]), "scores cannot be converted"),
    "ids of any size": (([12], [1.0], [2**63]), "ids cannot be converted"),
    "ids without an order": (([12], [1.0], [[7]]), "ids must be sortable"),
    "ids that are a table": (([12], [1.0], np.ones((1, 1), int)), "ids cannot be converted"),
    "a null id": (([12, 13], [1.0, 2.0], [7, None]), r"got null at ids\[1\]"),
}


class TestFailedPush:
    """Compared byte for byte: nothing of a refused push may stick."""

    @pytest.mark.parametrize("name", BAD_PUSHES)
    def test_leaves_the_monitor_as_it_was(self, name):
        columns, message = BAD_PUSHES[name]
        monitor = some_monitor()
        before = monitor.snapshot()
        rows = 1 if isinstance(columns[1], float) else len(columns[1])
        with pytest.raises(sb.InvalidInputError, match=message):
            monitor.push(*columns, groups=["a"] * rows)
        assert monitor.snapshot() == before
        # And it goes on as if nothing had happened.
        twin = some_monitor()
        for each in (monitor, twin):
            each.push([12, 13], [5.0, 6.0], [7, 8], groups=["c", "a"])
            each.finish()
        assert monitor.answers().equals(twin.answers())

    @pytest.mark.parametrize(
        ("groups", "message"),
        [
            (None, "earlier pushes had groups"),
            (["a"], "must have the same length, got 1 groups and 2 scores"),
            ([1, 2], "groups changed type from string to int64"),
            ([["a"], ["b"]], "groups changed type from string to list"),
            (5, "is not a column"),
        ],
    )
    def test_bad_groups(self, groups, message):
        monitor = some_monitor()
        before = monitor.snapshot()
        with pytest.raises(sb.InvalidInputError, match=message):
            monitor.push([12, 13], [5.0, 6.0], [7, 8], groups=groups)
        assert monitor.snapshot() == before

    def test_groups_not_seen_before_are_not_remembered(self):
        monitor = some_monitor()
        with pytest.raises(sb.InvalidInputError, match="positions must not decrease"):
            monitor.push([3], [5.0], [7], groups=["new"])
        assert monitor.metrics()["groups"] == 3

    def test_a_refused_first_push_decides_nothing(self):
        monitor = sb.Monitor(TIME)
        before = monitor.snapshot()
        with pytest.raises(sb.InvalidInputError):
            monitor.push(np.array([5, 4], "M8[us]"), [1.0, 2.0], ["a", "b"], groups=["g", "h"])
        assert monitor.snapshot() == before
        monitor.push([1], [1.0], [7])
        monitor.finish()
        assert read(monitor.answers()) == [(-5, 5, 1, 7, 1.0), (0, 10, 1, 7, 1.0)]

    def test_text_ids_waiting_for_time_stay(self):
        monitor = some_monitor(ids="text")
        before = monitor.snapshot()
        for ids in ([7], None, [b"x"]):
            with pytest.raises(sb.InvalidInputError, match="ids changed type from"):
                monitor.push([12], [1.0], ids, groups=["a"])
        assert monitor.snapshot() == before

    def test_count_windows_take_no_positions(self):
        monitor = some_monitor(axis="count", groups=False)
        before = monitor.snapshot()
        with pytest.raises(sb.InvalidInputError, match=r"positions must be None for count windows"):
            monitor.push([12], [1.0], [7])
        assert monitor.snapshot() == before

    def test_partition_by_without_groups(self):
        monitor = sb.Monitor(sb.TopK(k=1, size=5, partition_by=["s"]))
        before = monitor.snapshot()
        with pytest.raises(sb.InvalidInputError, match=r"Pass the group of every row as groups="):
            monitor.push(None, [1.0])
        assert monitor.snapshot() == before

    @pytest.mark.parametrize("query", [None, 5, "big", TIME, COUNT])
    def test_a_query_that_cannot_be_added(self, query):
        monitor = some_monitor()
        before = monitor.snapshot()
        with pytest.raises(sb.InvalidQueryError):
            monitor.add(query)
        assert monitor.snapshot() == before

    def test_a_refused_resume_touches_nothing(self):
        monitor = some_monitor()
        blob = monitor.snapshot()
        with pytest.raises(sb.SnapshotError):
            sb.Monitor.resume(blob[:-1])
        assert monitor.snapshot() == blob


class TestResume:
    @pytest.mark.parametrize(
        "other",
        [
            sb.TopK(name="big", k=3, size="10 microseconds", slide="5 microseconds"),
            sb.TopK(name="big", k=2, size="10 microseconds"),
            sb.TopK(name="other", k=2, size="10 microseconds", slide="5 microseconds"),
            sb.TopK(name="big", k=2, size="10 microseconds", slide="5 microseconds", order="asc"),
            [TIME, sb.TopK(name="second", k=1, size="1 second")],
            COUNT,
        ],
    )
    def test_under_another_query_is_refused(self, other):
        with pytest.raises(
            sb.SnapshotError, match=r"the snapshot contains .*, but queries=.* was given; .*wrong answers"
        ):
            sb.Monitor.resume(some_monitor().snapshot(), other)

    @pytest.mark.parametrize("same", [None, TIME, [TIME], sb.Workload(TIME)])
    def test_under_its_own_query(self, same):
        monitor = some_monitor()
        again = sb.Monitor.resume(monitor.snapshot(), same)
        assert again.queries == monitor.queries
        assert again.algorithm == monitor.algorithm
        assert again.snapshot() == monitor.snapshot()

    @pytest.mark.parametrize("ids", ["numbers", "text", "none"])
    @pytest.mark.parametrize("groups", [True, False])
    def test_answers_not_fetched_are_kept(self, ids, groups):
        monitor = some_monitor(ids=ids, groups=groups)
        again = sb.Monitor.resume(monitor.snapshot())
        assert again.answers().num_rows > 0
        again = sb.Monitor.resume(monitor.snapshot())
        assert again.answers().equals(monitor.answers())
        assert again.answers().num_rows == 0

    def test_answers_fetched_do_not_come_back(self):
        monitor = some_monitor()
        monitor.answers()
        assert sb.Monitor.resume(monitor.snapshot()).answers().num_rows == 0

    def test_two_resumed_from_one_snapshot_are_apart(self):
        blob = some_monitor(groups=False).snapshot()
        one, two = sb.Monitor.resume(blob), sb.Monitor.resume(blob)
        one.push([12, 30], [100.0, 1.0], [70, 71])
        assert two.snapshot() == blob

    def test_before_anything_was_pushed(self):
        again = sb.Monitor.resume(sb.Monitor(TIME).snapshot())
        again.push(np.array([1], "M8[us]"), [1.0], ["a"], groups=["g"])
        again.finish()
        assert again.answers()["group"].to_pylist() == ["g", "g"]


class TestReplay:
    @every_engine
    def test_is_push_finish_answers(self, algorithm):
        monitor = sb.Monitor(TIME, algorithm)
        monitor.push([1, 4, 9], [1.0, 3.0, 2.0], ["a", "b", "c"])
        monitor.finish()
        assert sb.replay(TIME, [1, 4, 9], [1.0, 3.0, 2.0], ["a", "b", "c"], algorithm).equals(monitor.answers())

    def test_scores_come_back_as_they_went_in(self):
        scores = [0.1, -0.0, 1e300, 5e-324, -math.inf]
        for order in ("asc", "desc"):
            table = sb.replay(sb.TopK(k=5, size=5, order=order), None, scores)
            assert sorted(table["score"].to_pylist()) == sorted(scores)
