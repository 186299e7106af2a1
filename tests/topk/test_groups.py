"""Each group has its own windows and its own top k; a null group is a group."""

from __future__ import annotations

import uuid
from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skyband as sb
from tests import oracle
from tests.drive import ALGORITHMS, count_query, read, time_columns, time_query
from tests.streams import asked, cut, time_rows

GROUPS = ["a", "b", None]


@st.composite
def grouped_rows(draw, most=30):
    rows = draw(time_rows(most=most))
    return [(*row, draw(st.sampled_from(GROUPS))) for row in rows]


def push(monitor, rows, axis="time"):
    positions, scores, ids = time_columns([row[:3] for row in rows])
    groups = pa.array([row[3] for row in rows], pa.string())
    monitor.push(positions if axis == "time" else None, scores, ids, groups=groups)


def expected(query, rows, axis="time"):
    """The oracle's answers per group, by window end, group (null last) and rank."""
    first = min((row[0] for row in rows if oracle.is_object(row[:3])), default=None)
    found = []
    for place, group in enumerate(GROUPS):
        mine = [row[:3] for row in rows if row[3] == group]
        if axis == "time":
            answers = oracle.answers(query, mine, first=first)
        else:
            answers = oracle.count_answers(query, [row[1:] for row in mine])
        found += [(answer[1], place, answer[2], (group, *answer)) for answer in answers]
    return [row for *_, row in sorted(found, key=lambda entry: entry[:3])]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("asks", [{}, {"partition_by": ["symbol"]}])
@given(data=st.data(), query=asked(), rows=grouped_rows())
def test_time_windows_per_group(algorithm, asks, data, query, rows):
    monitor = sb.Monitor(time_query(query, **asks), algorithm)
    for batch in data.draw(cut(rows)):
        push(monitor, batch)
        if data.draw(st.booleans(), label="restart"):
            monitor = sb.Monitor.resume(monitor.snapshot())
    monitor.finish()
    assert read(monitor.answers(), "group") == expected(query, rows)
    assert monitor.candidates == 0


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(data=st.data(), query=asked(), rows=grouped_rows())
def test_count_windows_number_each_groups_own_objects(algorithm, data, query, rows):
    monitor = sb.Monitor(count_query(query), algorithm)
    for batch in data.draw(cut(rows)):
        push(monitor, batch, "count")
        if data.draw(st.booleans(), label="restart"):
            monitor = sb.Monitor.resume(monitor.snapshot())
    monitor.finish()
    assert read(monitor.answers(), "group") == expected(query, rows, "count")


@given(query=asked(), rows=grouped_rows(most=20))
def test_windows_of_a_silent_group_leave_when_time_moves(query, rows):
    monitor, seen = sb.Monitor(time_query(query)), []
    for upto, row in enumerate(rows, 1):
        push(monitor, [row])
        seen += read(monitor.answers(), "group")
        until = [answer for answer in expected(query, rows[:upto]) if answer[2] <= row[0]]
        assert sorted(seen, key=str) == sorted(until, key=str)


def test_full_only_counts_from_the_first_object_of_all_groups():
    #  position      0    5    10   15   20   25
    #  a             o
    #  b                       o         o
    #  windows      [---------)  begin at 0, the stream's first object: reported for a
    #                    [---------)  full for b too, although its own first object is at 10
    query = sb.TopK(k=1, size="10 microseconds", slide="5 microseconds", full_only=True)
    table = sb.replay(query, [0, 10, 20], [1.0, 2.0, 3.0], groups=["a", "b", "b"])
    assert [(row["group"], row["window_start"]) for row in table.to_pylist()] == [
        ("a", 0),
        ("b", 5),
        ("b", 10),
        ("b", 15),
        ("b", 20),
    ]


def test_a_left_out_row_is_not_the_first_object():
    query = sb.TopK(k=1, size="10 microseconds", slide="5 microseconds", full_only=True)
    table = sb.replay(query, [0, 7], [None, 2.0], groups=["a", "b"])
    assert table.num_rows == 0  # windows that hold 7 begin at 0 and 5, before the first object


def test_a_null_group_is_a_group_and_comes_last():
    query = sb.TopK(k=1, size="10 microseconds")
    table = sb.replay(query, [1, 2, 3], [1.0, 2.0, 3.0], groups=[None, "z", None])
    assert table["group"].to_pylist() == ["z", None]
    assert table["score"].to_pylist() == [2.0, 3.0]


def test_a_query_with_partition_by_beside_one_without():
    alone = sb.TopK(name="all", k=1, size="10 microseconds")
    each = sb.TopK(name="each", k=1, size="10 microseconds", partition_by=["symbol"])
    table = sb.replay([alone, each], [1, 2, 3], [1.0, 3.0, 2.0], groups=["a", "a", "b"])
    assert [(row["query"], row["group"], row["id"]) for row in table.to_pylist()] == [
        ("all", None, 1),
        ("each", "a", 1),
        ("each", "b", 2),
    ]


def test_partition_by_needs_groups():
    monitor = sb.Monitor(sb.TopK(name="each", k=1, size=5, partition_by=["symbol"]))
    with pytest.raises(sb.InvalidInputError, match=r"groups= is missing: query 'each' has partition_by=\['symbol'\]"):
        monitor.push(None, [1.0])


def test_groups_come_from_the_first_push_on_or_never():
    query = sb.TopK(k=1, size=5)
    with_groups, without = sb.Monitor(query), sb.Monitor(query)
    with_groups.push(None, [1.0], groups=["a"])
    with pytest.raises(sb.InvalidInputError, match="earlier pushes had groups"):
        with_groups.push(None, [1.0])
    without.push(None, [1.0])
    with pytest.raises(sb.InvalidInputError, match="earlier pushes had none"):
        without.push(None, [1.0], groups=["a"])


@pytest.mark.parametrize(
    "groups",
    [
        ["a", "b", "a"],
        np.array(["a", "b", "a"]),
        pa.array(["a", "b", "a"]).dictionary_encode(),
        pa.chunked_array([["a"], ["b", "a"]]),
        pd.Series(["a", "b", "a"], dtype="category"),
        pl.Series(["a", "b", "a"]),
        [1, 2, 1],
        [date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 1)],
        [True, False, True],
        [b"a", b"b", b"a"],
    ],
)
def test_groups_of_many_kinds(groups):
    table = sb.replay(sb.TopK(k=2, size="10 microseconds"), [1, 2, 3], [1.0, 2.0, 3.0], groups=groups)
    found = {}
    for row in table.to_pylist():
        found.setdefault(row["group"], []).append(row["id"])
    assert sorted(found.values()) == [[1], [2, 0]]


def test_groups_of_another_kind_are_refused():
    monitor = sb.Monitor(sb.TopK(k=1, size=5))
    monitor.push(None, [1.0], groups=["a"])
    with pytest.raises(
        sb.InvalidInputError, match="groups changed type from string to int64, so one group would be counted as two"
    ):
        monitor.push(None, [1.0], groups=[1])


@pytest.mark.parametrize("groups", [[[1], [2]], [{"a": 1}, {"a": 2}]])
def test_groups_that_cannot_be_compared_are_refused(groups):
    with pytest.raises(sb.InvalidInputError, match=r"groups (must be sortable|of type .* are not supported)"):
        sb.replay(sb.TopK(k=1, size=5), None, [1.0, 2.0], groups=groups)


def test_a_push_of_null_groups_after_others():
    monitor = sb.Monitor(sb.TopK(k=1, size=1))
    monitor.push(None, [1.0], groups=["a"])
    monitor.push(None, [2.0], groups=[None])
    assert monitor.answers()["group"].to_pylist() == ["a", None]


@pytest.mark.parametrize("restart", [False, True])
def test_a_push_of_null_groups_before_others(restart):
    monitor = sb.Monitor(sb.TopK(k=1, size=1))
    monitor.push(None, [1.0], groups=[None])
    if restart:
        monitor = sb.Monitor.resume(monitor.snapshot())
    monitor.push(None, [2.0], groups=["a"])
    assert sorted(monitor.answers()["group"].to_pylist(), key=str) == [None, "a"]


NAN = float("nan")


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("build", [pa.array, pl.Series, pd.Series, np.array, list])
def test_nan_is_the_null_group(build, restart):
    monitor = sb.Monitor(sb.TopK(k=1, size=3))
    for score, group in ((1.0, NAN), (3.0, NAN), (2.0, None)):
        monitor.push(None, [score], groups=build([group] if group is None else np.array([group])))
        if restart:
            monitor = sb.Monitor.resume(monitor.snapshot())
    assert monitor.metrics()["groups"] == 1
    assert monitor.answers().select(["group", "score"]).to_pylist() == [{"group": None, "score": 3.0}]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
@pytest.mark.parametrize("zeros", [[0.0, -0.0, 0.0], [-0.0, 0.0, -0.0]])
@pytest.mark.parametrize("pushes", [1, 3])
def test_zeros_of_both_signs_are_one_group(kind, zeros, pushes):
    monitor = sb.Monitor(sb.TopK(k=1, size=3))
    for each in [zeros] if pushes == 1 else [[zero] for zero in zeros]:
        monitor.push(None, [1.0] * len(each), groups=pa.array(each, kind))
    assert monitor.metrics()["groups"] == 1
    assert str(monitor.answers()["group"].to_pylist()) == "[0.0]"


@pytest.mark.parametrize(
    "groups",
    [
        [uuid.uuid4()],
        pa.array([1], pa.time64("ns")),
        pa.array([2**60], pa.timestamp("s")),
        pa.array([1.5], pa.float16()),
        pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
    ],
)
def test_groups_that_could_not_be_answered_are_refused_at_once(groups):
    monitor = sb.Monitor(sb.TopK(k=1, size=3))
    before = monitor.snapshot()
    with pytest.raises(sb.InvalidInputError, match=r"groups (must be sortable|of type .* are not supported)"):
        monitor.push(None, [1.0], groups=groups)
    assert monitor.snapshot() == before


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.timestamp("s", "UTC"), pa.duration("ns"), pa.time32("s")])
def test_groups_that_are_times_come_back(kind):
    groups = pa.array([1, 2, 1], pa.int32() if kind == pa.time32("s") else pa.int64()).view(kind)
    monitor = sb.Monitor(sb.TopK(k=1, size=1))
    for row in range(3):
        monitor.push(None, [1.0], groups=groups.slice(row, 1))
        monitor = sb.Monitor.resume(monitor.snapshot())
    assert monitor.metrics()["groups"] == 2
    assert monitor.answers()["group"].combine_chunks().unique().equals(groups.unique())


def test_views_of_text_are_text():
    table = sb.replay(sb.TopK(k=1, size=1), None, [1.0, 1.0], groups=pa.array(["b", "a"], pa.string_view()))
    assert table["group"].to_pylist() == ["a", "b"]


def test_thousands_of_groups():
    n = 6000
    query = sb.TopK(k=1, size="1 second")
    table = sb.replay(query, np.arange(n), np.arange(n) % 7.0, groups=np.arange(n) % 2000)
    assert table.num_rows == 2000
    assert table["group"].to_pylist() == list(range(2000))
    want = [max((i % 7.0, i) for i in range(group, n, 2000)) for group in range(2000)]
    assert table["id"].to_pylist() == [i for _, i in want]
