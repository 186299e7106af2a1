"""Every answer equals the brute-force one, however the stream is cut, and wherever it sleeps in between."""

from __future__ import annotations

import datetime as dt
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skyband as sb
from skyband.aggregate import Monitor, replay
from tests.aggregate import cases, oracle


def asked_for(case):
    return oracle.answers(case.queries, case.rows, valued=case.valued, grouped=case.grouped)


@pytest.mark.parametrize("seed", range(150))
def test_replay_is_brute_force(seed):
    case = cases.draw(Random(seed))
    found = replay(case.queries, **case.columns(0, len(case.rows)))
    assert oracle.listed(found) == asked_for(case)


@pytest.mark.parametrize("seed", range(60))
def test_every_cut_and_every_sleep_gives_the_same(seed):
    random = Random(1000 + seed)
    case = cases.draw(random)
    found = [row for table in cases.in_pieces(case, random) for row in oracle.listed(table)]
    # On a count axis each group goes its own way, so that only the answers of one call come in order.
    order = repr if case.count and case.grouped else lambda row: 0
    assert sorted(found, key=order) == sorted(asked_for(case), key=order)


@pytest.mark.parametrize("axis", ["time", "count"])
def test_row_by_row_with_a_sleep_after_each(axis):
    case = cases.draw(Random(7), axis=axis, most=40, grouped=False)
    monitor = Monitor(case.queries)
    for place in range(len(case.rows)):
        monitor.push(**case.columns(place, place + 1))
        monitor = Monitor.resume(monitor.snapshot(), case.queries)
    monitor.finish()
    assert oracle.listed(monitor.answers()) == asked_for(case)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 8), st.integers(0, 3), st.floats(allow_nan=True, allow_infinity=True)), max_size=30
    ),
    st.integers(1, 40),
    st.integers(1, 40),
    st.sampled_from(cases.AGGREGATES),
)
def test_any_values(steps, size, slide, aggregate):
    size, slide = max(size, slide), min(size, slide)
    query = sb.AggregateTopK(k=2, size=f"{size} microseconds", slide=f"{slide} microseconds", aggregate=aggregate)
    rows, position = [], 0
    for step, key, value in steps:
        position += step
        rows.append(oracle.Row(position, key, value))
    found = replay(
        query,
        np.array([row.position for row in rows], np.int64),
        np.array([row.key for row in rows], np.int64),
        np.array([row.value for row in rows], np.float64),
    )
    try:
        expected = oracle.answers([query], rows)
    except OverflowError:
        return  # fsum gives up where a sum is beyond the largest double on the way; ours goes on
    assert oracle.listed(found) == expected


def test_ties_the_key_seen_last_then_the_larger_key():
    query = sb.AggregateTopK(k=5, size=6)
    table = replay(query, None, ["a", "b", "c", "a", "b", "d"], [1, 1, 2, 1, 1, 2])
    assert table["key"].to_pylist() == ["d", "b", "a", "c"]
    timed = sb.AggregateTopK(k=5, size="10 microseconds", aggregate="count")
    table = replay(timed, [1, 1, 1], ["abcdefgh1", "abcdefgh2", "abcdefgh"])
    assert table["key"].to_pylist() == ["abcdefgh2", "abcdefgh1", "abcdefgh"]


@pytest.mark.parametrize(
    "keys",
    [
        [dt.date(2024, 1, 2), dt.date(1950, 3, 4), dt.date(2024, 1, 2)],
        [dt.datetime(2024, 1, 2), dt.datetime(1950, 3, 4), dt.datetime(2024, 1, 2)],
        [True, False, True],
        [b"x", b"\xff", b"x"],
        pa.array([2**64 - 1, 1, 2**64 - 1], pa.uint64()),
        pa.array([1.5, -3.25, 1.5], pa.float32()),
    ],
    ids=str,
)
def test_keys_come_back_as_they_came(keys):
    query = sb.AggregateTopK(k=3, size=3, aggregate="count")
    table = replay(query, None, keys)
    given = keys.to_pylist() if isinstance(keys, pa.Array) else keys
    assert table["key"].to_pylist() == [given[0], given[1]]
    # Of equal scores at one time the larger key is first, whatever its kind.
    timed = sb.AggregateTopK(k=3, size="1 second", aggregate="count")
    assert replay(timed, [5, 5], keys[:2])["key"].to_pylist() == sorted(given[:2], reverse=True)


def test_bounds_come_back_in_the_kind_of_the_positions():
    query = sb.AggregateTopK(k=1, size="1 hour", aggregate="count")
    times = np.array(["2024-01-01T10:30"], "datetime64[s]")
    table = replay(query, times, ["a"])
    assert table["window_end"].to_pylist() == [dt.datetime(2024, 1, 1, 11)]
    assert table.column_names == ["query", "window_start", "window_end", "rank", "key", "score"]


def test_panes_of_a_microsecond():
    queries = [
        sb.AggregateTopK(name="hour", k=2, size="1 hour", slide="30 minutes"),
        sb.AggregateTopK(name="odd", k=2, size="40 minutes", slide="20 minutes", origin=1),
    ]
    rows = [oracle.Row(position * 300_000_000 + position, position % 3, float(position)) for position in range(40)]
    found = replay(queries, *([getattr(row, name) for row in rows] for name in ("position", "key", "value")))
    assert oracle.listed(found) == oracle.answers(queries, rows)
