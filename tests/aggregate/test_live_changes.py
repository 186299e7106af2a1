"""Aggregate queries that are added and removed while the stream runs."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import skyband as sb
from skyband.aggregate import Monitor, replay

S = 1_000_000


def query(name, draw, grouped):
    size = draw.choice([4, 6, 10])
    average = "stddev" if name in ("early", "last") else "avg"
    return sb.AggregateTopK(
        name=name,
        k=draw.randint(1, 4),
        size=f"{size} seconds",
        slide=f"{draw.randint(1, size)} seconds",
        aggregate=draw.choice(["sum", "count", "min", "max", average]),
        partition_by=["group"] if grouped and draw.random() < 0.6 else [],
        full_only=draw.random() < 0.3,
    )


def rows_of(draw, count):
    positions = sorted(draw.randint(0, 40) * S for _ in range(count))
    return [(at, draw.choice("abcdef"), draw.uniform(-5, 5), draw.choice("xyz")) for at in positions]


def columns(rows, grouped):
    positions, keys, values, groups = map(list, zip(*rows, strict=True))
    return (positions, keys, values), {"groups": groups} if grouped else {}


def push(monitor, rows, grouped):
    if rows:
        given, named = columns(rows, grouped)
        monitor.push(*given, **named)


def of(table, name):
    return table.filter(pc.equal(table["query"], name)).to_pylist()


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_what_is_added_answers_from_its_first_window_on(seed, grouped):
    draw = Random(seed)
    early, gone, late, last = (query(name, draw, grouped) for name in ("early", "gone", "late", "last"))
    rows = rows_of(draw, 80)
    first, second, third = sorted(draw.sample(range(1, 80), 3))
    monitor, parts = Monitor([gone, early]), []
    begins = {}
    push(monitor, rows[:first], grouped)
    begins["late"] = monitor.add(late)
    push(monitor, rows[first:second], grouped)
    if draw.random() < 0.5:
        parts.append(monitor.answers())
    monitor = Monitor.resume(monitor.snapshot())
    monitor.remove("gone")
    begins["last"] = monitor.add(last)
    push(monitor, rows[second:third], grouped)
    monitor = Monitor.resume(monitor.snapshot())
    monitor.remove("early")
    push(monitor, rows[third:], grouped)
    monitor.finish()
    found = pa.concat_tables([*parts, monitor.answers()], promote_options="permissive")
    given, named = columns(rows, grouped)
    whole = replay([early, gone, late, last], *given, **named)
    for name, until in (("gone", rows[second - 1][0]), ("early", rows[third - 1][0])):
        assert of(found, name) == [row for row in of(whole, name) if row["window_end"] <= until]
    for name, begin in begins.items():
        assert of(found, name) == [row for row in of(whole, name) if row["window_end"] >= begin]
    ends = found["window_end"].to_pylist()
    assert ends == sorted(ends)


def test_what_only_a_removed_query_needed_is_released():
    monitor = Monitor(sb.AggregateTopK(name="a", k=1, size="10 seconds"))
    monitor.push([1 * S, 2 * S], ["x", "y"], [1.0, 2.0])
    monitor.add(sb.AggregateTopK(name="b", k=1, size="10 seconds"))
    monitor.push([3 * S], ["z"], [1.0])
    assert monitor.candidates == 4
    monitor.remove("a")
    assert monitor.candidates == 1
    monitor.add(sb.AggregateTopK(name="a", k=1, size="5 seconds"))
    monitor.push([11 * S], ["x"], [1.0])
    monitor.finish()
    assert monitor.answers().select(["query", "window_end", "key"]).to_pylist() == [
        {"query": "a", "window_end": 15 * S, "key": "x"},
        {"query": "b", "window_end": 20 * S, "key": "x"},
    ]


def test_count_windows_go_on_when_a_query_is_removed():
    monitor = Monitor([sb.AggregateTopK(name="a", k=1, size=2), sb.AggregateTopK(name="b", k=1, size=3)])
    monitor.push(None, ["x", "y", "y"], [1.0, 2.0, 2.0], groups=["g", "g", "h"])
    monitor.remove("a")
    monitor = Monitor.resume(monitor.snapshot())
    monitor.push(None, ["x", "y", "y"], [1.0, 2.0, 2.0], groups=["g", "g", "h"])
    assert monitor.answers().select(["query", "group", "window_end"]).to_pylist() == [
        {"query": "a", "group": "g", "window_end": 2},
        {"query": "b", "group": "g", "window_end": 3},
    ]
