"""Queries over incomplete streams that are added and removed while the stream runs."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import skyband as sb

S = 1_000_000
STREAMS = ("north", "south", "west")


def query(name, draw, **fixed):
    size = draw.choice([4, 6, 10])
    given = {
        "k": draw.randint(1, 4),
        "size": f"{size} seconds",
        "every": f"{draw.randint(1, size)} seconds",
        "method": draw.choice(["exact", "sorted-lists"]),
        "aggregate": draw.choice(["sum", "min", "max", "avg"]),
    }
    return sb.IncompleteTopK(name=name, streams=STREAMS, **{**given, **fixed})


def tuples(draw, rows):
    positions = sorted(draw.randint(0, 40) * S for _ in range(rows))
    return [(at, draw.choice("abcdef"), draw.choice(STREAMS), draw.random()) for at in positions]


def push(monitor, rows):
    if rows:
        monitor.push(*map(list, zip(*rows, strict=True)))


def of(table, name):
    return table.filter(pc.equal(table["query"], name)).select(["query", "time", "rank", "object", "score"])


@pytest.mark.parametrize("occurrences", [1, 60])
@pytest.mark.parametrize("seed", range(12))
def test_what_is_added_answers_from_its_first_window_on(seed, occurrences):
    draw = Random(seed)
    early, gone, late = query("early", draw), query("gone", draw), query("late", draw, occurrences=occurrences)
    rows = tuples(draw, 60)
    first, second = sorted(draw.sample(range(1, 60), 2))
    monitor = sb.incomplete.Monitor([gone, early])
    push(monitor, rows[:first])
    begin = monitor.add(late)
    parts = [monitor.answers()] if draw.random() < 0.5 else []
    assert begin == monitor.valid_from["late"] >= rows[first - 1][0] + late.window.size
    monitor = sb.incomplete.Monitor.resume(monitor.snapshot())
    push(monitor, rows[first:second])
    monitor.remove("gone")
    monitor = sb.incomplete.Monitor.resume(monitor.snapshot())
    push(monitor, rows[second:])
    monitor.finish()
    found = pa.concat_tables([*parts, monitor.answers()])
    whole = sb.incomplete.replay([early, gone, late], *map(list, zip(*rows, strict=True)))
    assert of(found, "early") == of(whole, "early")
    # It sees tuples from the newest position on. Where none comes too often, earlier ones make no difference.
    seen = rows if occurrences == 60 else [row for row in rows if row[0] >= rows[first - 1][0]]
    expected = of(sb.incomplete.replay(late, *map(list, zip(*seen, strict=True))), "late")
    assert of(found, "late") == expected.filter(pc.greater_equal(expected["time"], begin))
    until = rows[second - 1][0]
    expected = of(whole, "gone")
    assert of(found, "gone") == expected.filter(pc.less_equal(expected["time"], until))
    assert monitor.metrics()["windows"] == sum(
        len(set(of(found, name)["time"].to_pylist())) for name in ("early", "late", "gone")
    )


def test_streams_keep_their_numbers_when_the_first_query_goes():
    shared = {"k": 2, "size": "10 seconds", "streams": ["s", "t"]}
    first = sb.IncompleteTopK(name="first", **shared)
    other = sb.IncompleteTopK(name="other", **{**shared, "streams": ["t", "s"]}, weights={"s": 5.0})
    monitor = sb.incomplete.Monitor([first, other])
    monitor.push([1 * S, 2 * S], ["x", "y"], ["s", "t"], [0.5, 0.5])
    monitor.remove("first")
    again = sb.incomplete.Monitor.resume(monitor.snapshot())
    for one in (monitor, again):
        one.push([3 * S], ["y"], ["s"], [0.25])
        one.finish()
    assert again.answers() == (found := monitor.answers())
    assert found.select(["object", "score"]).to_pylist() == [
        {"object": "x", "score": 2.5},
        {"object": "y", "score": 1.75},
    ]


def test_a_query_whose_bounds_exclude_tuples_that_wait():
    monitor = sb.incomplete.Monitor(sb.IncompleteTopK(name="a", k=1, size="9 seconds", streams=["s"], bounds=(0, 9)))
    monitor.push([1 * S], ["x"], ["s"], [7.0])
    narrow = sb.IncompleteTopK(name="b", k=1, size="9 seconds", streams=["s"])
    with pytest.raises(sb.InvalidInputError, match=r"7\.0 is outside bounds=\(0\.0, 1\.0\) of query 'b'"):
        monitor.add(narrow)
    monitor.advance_to(2 * S)
    assert monitor.add(narrow) == 18 * S


def test_other_streams_are_refused():
    monitor = sb.incomplete.Monitor(sb.IncompleteTopK(name="a", k=1, size=2, streams=["s"]))
    with pytest.raises(sb.InvalidQueryError, match="different streams"):
        monitor.add(sb.IncompleteTopK(name="b", k=1, size=2, streams=["t"]))
