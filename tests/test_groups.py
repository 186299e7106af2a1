"""Each group has its own windows and its own top k; a null group is a group."""

from __future__ import annotations

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
    with pytest.raises(sb.InvalidInputError, match=r"groups=None, but 'each' has partition_by=\['symbol'\]"):
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
        sb.InvalidInputError, match="groups are of type int64 and those of earlier pushes of type string"
    ):
        monitor.push(None, [1.0], groups=[1])


@pytest.mark.parametrize("groups", [[[1], [2]], [{"a": 1}, {"a": 2}]])
def test_groups_that_cannot_be_compared_are_refused(groups):
    with pytest.raises(sb.InvalidInputError, match="groups are of type"):
        sb.replay(sb.TopK(k=1, size=5), None, [1.0, 2.0], groups=groups)


def test_a_push_of_null_groups_after_others():
    monitor = sb.Monitor(sb.TopK(k=1, size=1))
    monitor.push(None, [1.0], groups=["a"])
    monitor.push(None, [2.0], groups=[None])
    assert monitor.answers()["group"].to_pylist() == ["a", None]


@pytest.mark.xfail(
    strict=True, raises=sb.InvalidInputError, reason="a first push of null groups fixes their type to null"
)
def test_a_push_of_null_groups_before_others():
    monitor = sb.Monitor(sb.TopK(k=1, size=1))
    monitor.push(None, [1.0], groups=[None])
    monitor.push(None, [2.0], groups=["a"])
    assert sorted(monitor.answers()["group"].to_pylist(), key=str) == [None, "a"]


@pytest.mark.xfail(strict=True, reason="an Arrow NaN is a new group in every push")
def test_nan_is_one_group():
    monitor = sb.Monitor(sb.TopK(k=1, size=2))
    for score in (1.0, 2.0):
        monitor.push(None, [score], groups=pa.array([float("nan")]))
    assert monitor.metrics()["groups"] == 1
    assert monitor.answers()["score"].to_pylist() == [2.0]


def test_thousands_of_groups():
    n = 6000
    query = sb.TopK(k=1, size="1 second")
    table = sb.replay(query, np.arange(n), np.arange(n) % 7.0, groups=np.arange(n) % 2000)
    assert table.num_rows == 2000
    assert table["group"].to_pylist() == list(range(2000))
    want = [max((i % 7.0, i) for i in range(group, n, 2000)) for group in range(2000)]
    assert table["id"].to_pylist() == [i for _, i in want]
