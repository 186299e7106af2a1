"""Ids that are no whole numbers: ties break by them across pushes and restarts, and only those needed are kept."""

from __future__ import annotations

import uuid
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skyband as sb
from tests import oracle
from tests.drive import ALGORITHMS, count_query, read, time_query
from tests.streams import asked, cut, time_rows

# Zero-padded, so that text has the order of the numbers behind it.
KINDS = {
    "text": lambda n: f"id {n + 5000:05d}",
    "bytes": lambda n: f"{n + 5000:05d}".encode(),
    "dates": lambda n: date.fromordinal(730_000 + n),
    "decimals": lambda n: Decimal(n) / 4,
    "floats": lambda n: n / 8,
}


def push(monitor, rows):
    kind = pa.infer_type([row[2] for row in rows]) if rows else None
    ids = pa.array([row[2] for row in rows], kind) if rows else None
    monitor.push([row[0] for row in rows], [row[1] for row in rows], ids)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), query=asked(), rows=time_rows(most=30))
def test_any_ids_in_any_batching_with_restarts(kind, data, query, rows):
    rows = [(position, score, KINDS[kind](number)) for position, score, number in rows]
    if kind == "decimals":  # one precision for all pushes
        rows = [(position, score, id_.quantize(Decimal("0.01"))) for position, score, id_ in rows]
    monitor, seen = sb.Monitor(time_query(query)), []
    for batch in data.draw(cut(rows)):
        if kind == "decimals" and batch:
            ids = pa.array([row[2] for row in batch], pa.decimal128(12, 2))
            monitor.push([row[0] for row in batch], [row[1] for row in batch], ids)
        else:
            push(monitor, batch)
        if data.draw(st.booleans(), label="restart"):
            monitor = sb.Monitor.resume(monitor.snapshot())
        if data.draw(st.booleans(), label="fetch"):
            seen += read(monitor.answers())
    monitor.finish()
    assert seen + read(monitor.answers()) == oracle.answers(query, rows)
    assert monitor.candidates == 0


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(query=asked(), rows=time_rows(most=20))
def test_every_engine_breaks_ties_by_text(algorithm, query, rows):
    rows = [(position, score, KINDS["text"](number)) for position, score, number in rows]
    monitor = sb.Monitor(time_query(query), algorithm)
    for row in rows:
        push(monitor, [row])
    monitor.finish()
    assert read(monitor.answers()) == oracle.answers(query, rows)


@given(query=asked(), rows=time_rows(most=25))
def test_count_windows(query, rows):
    rows = [(score, KINDS["text"](number)) for _, score, number in rows]
    monitor = sb.Monitor(count_query(query))
    for score, id_ in rows:
        monitor.push(None, [score], [id_])
    monitor.finish()
    assert read(monitor.answers()) == oracle.count_answers(query, rows)


@pytest.mark.parametrize("order", [["a", "c", "b"], ["c", "b", "a"], ["b", "a", "c"]])
@pytest.mark.parametrize("restart", [False, True])
def test_a_later_push_may_bring_a_smaller_id_at_the_same_position(order, restart):
    monitor = sb.Monitor(sb.TopK(k=2, size="10 microseconds"))
    for id_ in order:
        monitor.push([4], [1.0], [id_])
        if restart:
            monitor = sb.Monitor.resume(monitor.snapshot())
    assert monitor.answers().num_rows == 0
    monitor.advance_to(10)
    assert monitor.answers()["id"].to_pylist() == ["c", "b"]


def test_rows_at_the_newest_position_enter_windows_that_end_there_and_later():
    #  position       0         5        10
    #                 a         b         c
    #  windows        [-------------------)
    #                           [-------------------)
    monitor = sb.Monitor(sb.TopK(k=3, size="10 microseconds", slide="5 microseconds"))
    monitor.push([0, 5, 10], [1.0, 1.0, 1.0], ["a", "b", "c"])
    assert read(monitor.answers())[1:] == [(0, 10, 1, "b", 1.0), (0, 10, 2, "a", 1.0)]
    monitor.finish()
    assert [row[3] for row in read(monitor.answers())] == ["c", "b", "c"]


@pytest.mark.parametrize("asc", [False, True])
def test_candidates_stay_bounded_at_one_position(asc):
    monitor = sb.Monitor(sb.TopK(k=4, size="10 microseconds", order="asc" if asc else "desc"))
    for push_number in range(30):
        ids = [f"{push_number:03d}-{i:03d}" for i in range(100)]
        monitor.push([3] * 100, [float(i) for i in range(100)], ids)
        assert monitor.candidates <= 2 * 4  # the k highest and the k lowest wait
    monitor.finish()
    best = 0 if asc else 99
    assert monitor.answers()["id"].to_pylist() == [f"{number:03d}-{best:03d}" for number in (29, 28, 27, 26)]


def test_ids_that_nothing_refers_to_are_forgotten():
    monitor = sb.Monitor(sb.TopK(k=2, size="50 microseconds", slide="10 microseconds"))
    lengths = []
    for start in range(0, 5000, 100):
        positions = list(range(start, start + 100))
        monitor.push(positions, [float(p * 7919 % 101) for p in positions], [f"object {p:06d}" for p in positions])
        monitor.answers()
        lengths.append(len(monitor.snapshot()))
        assert monitor.candidates <= 2 * 5 + 2 + 1
    assert max(lengths[10:]) <= max(lengths[:10]) + 512


def test_answers_not_fetched_keep_their_ids():
    monitor = sb.Monitor(sb.TopK(k=1, size="10 microseconds"))
    monitor.push([1], [1.0], ["first"])
    monitor.push([1_000], [1.0], ["second"])
    monitor = sb.Monitor.resume(monitor.snapshot())
    monitor.push([2_000], [1.0], ["third"])
    assert monitor.answers()["id"].to_pylist() == ["first", "second"]


def test_ids_keep_their_type():
    table = sb.replay(sb.TopK(k=1, size=1), None, [1.0], pa.array(["x"], pa.large_string()))
    assert table.schema.field("id").type == pa.large_string()
    table = sb.replay(sb.TopK(k=1, size=1), None, [1.0], pa.array([date(2024, 1, 1)]))
    assert table["id"].to_pylist() == [date(2024, 1, 1)]


def test_unsigned_ids_beyond_int64_rank_by_value():
    ids = pa.array([2**64 - 1, 1, 2**63], pa.uint64())
    table = sb.replay(sb.TopK(k=3, size="1 microsecond"), [0, 0, 0], [1.0, 1.0, 1.0], ids)
    assert table["id"].to_pylist() == [2**64 - 1, 2**63, 1]


@pytest.mark.parametrize(("first", "second"), [([1], ["a"]), (["a"], [1]), (["a"], None), (None, ["a"])])
def test_ids_of_two_kinds_have_no_common_order(first, second):
    monitor = sb.Monitor(sb.TopK(k=1, size="10 microseconds"))
    monitor.push([1], [1.0], first)
    with pytest.raises(sb.InvalidInputError, match=r"ids changed type from .*, so ties could not be ordered by id"):
        monitor.push([2], [1.0], second)


@pytest.mark.parametrize(
    "ids",
    [
        [uuid.uuid4(), uuid.uuid4()],
        pa.array([1.5, 2.5], pa.float16()),
        pa.array([(1, 2, 3), (1, 2, 4)], pa.month_day_nano_interval()),
        [[1], [2]],
    ],
)
@pytest.mark.parametrize("after", [False, True])
def test_ids_without_an_order_change_nothing(ids, after):
    monitor = sb.Monitor(sb.TopK(k=1, size="10 microseconds"))
    if after:
        monitor.push([1], [1.0], ["a"])
    before = monitor.snapshot()
    with pytest.raises(
        sb.InvalidInputError, match=r"ids must be sortable, because ties are broken by id, but type .* is not"
    ):
        monitor.push([2, 2], [1.0, 1.0], ids)
    assert monitor.snapshot() == before


def test_views_of_text_are_text():
    table = sb.replay(sb.TopK(k=1, size=2), None, [1.0, 1.0], pa.array(["b", "a"], pa.string_view()))
    assert table["id"].to_pylist() == ["a"]


@pytest.mark.parametrize(
    "empty", [[], pa.array([], pa.large_string()), pa.array([], pa.binary()), pa.array([], pa.int8())]
)
def test_an_empty_push_of_any_kind_of_ids(empty):
    monitor = sb.Monitor(sb.TopK(k=1, size="10 microseconds"))
    monitor.push([], [], empty)
    monitor.push([1], [1.0], ["a"])
    monitor.push([], [], empty)
    monitor.finish()
    assert monitor.answers()["id"].to_pylist() == ["a"]
