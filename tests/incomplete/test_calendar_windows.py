"""Calendar and cumulative windows of objects, against clocks read minute by minute and the definitions."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.errors import InvalidQueryError, UnsupportedError
from skyband.incomplete import Monitor
from skyband.incomplete.brute_force import answers_of
from skyband.incomplete.window_axis import axis_of
from tests.calendar_queries import DAY, draw_fields, draw_place, draw_plain, draw_rows
from tests.incomplete import oracle
from tests.incomplete.drive import listed, some_question
from tests.incomplete.test_corrections import Stream
from tests.sharding.test_reported_answers import SCHEMA, SECOND


def draw(seed, *, most=60, method=None):
    """A query with calendar or cumulative windows, its tuples, and its windows by brute force."""
    random_ = random.Random(f"calendars of objects {seed}")
    rng = np.random.default_rng(seed)
    zone, near = draw_place(random_)
    while True:
        plain = random_.random() < 0.3
        fields, windows = draw_plain(random_, near) if plain else draw_fields(random_, zone, near)
        if fields["size"] is not None and (fields.get("cumulative") or "month" not in fields["size"]):
            break
    query, asked = some_question(rng, count_axis=False)
    slide = fields.pop("slide")
    fields = {**query.to_dict(), "origin": None, "every": slide, **fields}
    fields |= {"size": fields["size"], "method": method or random_.choice(["exact", "sorted-lists"])}
    fields["occurrences"] = "once" if random_.random() < 0.2 and method is None else fields["occurrences"]
    if fields["occurrences"] == "once":
        fields["method"] = "exact"
    times = [at for at, _, _ in draw_rows(random_, near, random_.randint(1, most))]
    grain = random_.choice([1, 2, 8])
    tuples, seen = [], set()
    for at in times:
        obj, stream = random_.randint(0, 12), random_.choice(asked.streams)
        if fields["occurrences"] == "once" and (obj, stream) in seen:
            continue
        seen.add((obj, stream))
        low, high = oracle.limits(asked, stream)
        tuples.append((at, obj, stream, low + (high - low) * random_.randint(0, grain) / grain))
    tuples.sort(key=lambda row: row[:2])
    bounds = windows(tuples[0][0], tuples[-1][0])
    if fields["occurrences"] == "once":
        asked = asked._replace(occurrences=1)
    return random_, sb.IncompleteTopK(**fields), asked, tuples, bounds


def wanted(asked, tuples, bounds):
    """The answers by the definitions, of windows in a list."""
    kept, found = [], []
    for at, obj, stream, value in tuples:
        start = next((start for start, end in bounds if end > at), at)
        same = [one for one in kept if one.object == obj and one.stream == stream and one.position >= start]
        if len(same) < asked.occurrences:
            kept.append(oracle.Tuple(at, obj, stream, value))
    for start, end in bounds:
        window = [one for one in kept if start <= one.position < end]
        if window:
            found.append((end, oracle.best(asked, window)))
    return found


def pushed(monitor, tuples):
    columns = list(zip(*tuples, strict=True)) if tuples else [[], [], [], []]
    at, objects, streams, values = columns
    monitor.push(np.array(at, np.int64), pa.array(objects, pa.int64()), pa.array(streams), np.array(values, float))


@pytest.mark.parametrize("seed", range(150))
def test_answers_are_those_of_the_definitions(seed):
    """Piece by piece, with monitors that are stored and resumed."""
    random_, query, asked, tuples, bounds = draw(seed)
    monitor, found, low = Monitor(query), [], 0
    while low < len(tuples):
        high = low + random_.randint(1, 25)
        pushed(monitor, tuples[low:high])
        low = high
        if random_.random() < 0.4:
            monitor = Monitor.resume(monitor.snapshot())
        found += listed(monitor.answers())
    monitor.finish()
    found += listed(monitor.answers())
    assert found == wanted(asked, tuples, bounds)


@pytest.mark.parametrize("seed", range(20))
def test_brute_force_agrees(seed):
    _, query, asked, tuples, bounds = draw(1000 + seed)
    at, objects, streams, values = (list(column) for column in zip(*tuples, strict=True))
    table = pa.table(
        {
            "at": pa.array(at, pa.int64()),
            "tie": pa.array(range(len(at)), pa.int64()),
            "object": pa.array(objects, pa.int64()),
            "stream": pa.array(streams),
            "value": pa.array(values, pa.float64()),
        }
    )
    if query.occurrences == "once":
        query = sb.IncompleteTopK(**{**query.to_dict(), "occurrences": 1})
    assert listed(answers_of(table, query, pa.int64(), {})) == wanted(asked, tuples, bounds)


@pytest.mark.parametrize("seed", range(30))
def test_shards_and_groups(seed):
    """Micro-batches of a stream with groups, in several shards that are stored in between; late rows correct."""
    random_, query, _, tuples, _ = draw(2000 + seed, method="exact")
    fields = {"object": "who", "stream": "g", "value": "v", "streams": ["a", "b"], "bounds": (0, 9), "weights": None}
    grouped = random_.random() < 0.5
    more = {"occurrences": random_.choice([1, 2]), "where": "v < 9", "partition_by": ["p"] if grouped else ()}
    query = sb.IncompleteTopK(**{**query.to_dict(), **fields, **more})
    rows = [
        (at, number, random_.choice("abcd"), random_.choice("ab"), float(random_.randint(0, 4)), random_.choice([1, 2]))
        for number, (at, *_) in enumerate(tuples)
    ]
    late = random_.random() < 0.5
    order = sorted(rows, key=lambda row: row[0] + (random_.randint(0, 30 * 3600) * SECOND if late else 0))
    stream, newest = Stream([query], 0, 10_000 * DAY if late else 0, random_.choice([1, 3])), {}
    while order:
        cut = random_.randint(1, 20)
        take(newest, stream.step(order[:cut]))
        order = order[cut:]
        if random_.random() < 0.4:
            stream.restart()
    take(newest, stream.step([], [{"kind": "end"}]))
    whole = {}
    columns = list(zip(*rows, strict=True))
    table = pa.Table.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )
    take(whole, sb.incomplete.replay(query, table, time="ts", id="id"))
    assert newest == whole


def take(newest, table):
    found = {}
    for row in table.to_pylist():
        row.pop("revision", None)
        found.setdefault((row["time"], row.get("p")), []).append(tuple(row.items()))
    newest.update(found)


@pytest.mark.parametrize("seed", range(60))
def test_positions_stay_in_order_and_windows_contain_the_same(seed):
    """On their axis windows contain the positions that they contain in time."""
    _, query, _, tuples, bounds = draw(3000 + seed)
    axis = axis_of(query.window)
    inside = [at for start, end in bounds for at in (start, start + 1, (start + end) // 2, end - 1)]
    at = np.unique(np.array([at for at, *_ in tuples] + inside, np.int64))
    moved = axis.moved(at)
    assert (np.diff(moved) > 0).all()
    size, slide = axis.window.size, axis.window.slide
    by_end = {end: start for start, end in bounds}
    places = np.arange((moved[0] // slide) * slide, moved[-1] + size, slide)[-4000:]
    ends, exist = axis.ends(places)
    assert (np.diff(ends[exist]) > 0).all()
    for place, end in zip(places[exist].tolist(), ends[exist].tolist(), strict=True):
        if end in by_end:
            there = at[(moved >= place - size) & (moved < place)]
            assert there.tolist() == at[(at >= by_end[end]) & (at < end)].tolist()


def test_text_forms_and_sharing():
    query = sb.IncompleteTopK(
        name="today", k=3, size="1 day", every="1 hour", cumulative=True, zone="Europe/Paris", object="flow",
        stream="router", value="bytes", streams=["a", "b"],
    )  # fmt: skip
    assert sb.sql(str(query)) == query
    assert query.headline == "the 3 best values of flow of 1 day so far, every 1 hour, in Europe/Paris"
    week = sb.IncompleteTopK(k=1, size="1 week", zone="UTC", week_start="sunday")
    assert sb.IncompleteTopK(**week.to_dict()) == week
    assert "weeks from Sunday" in week.window_text
    plain = sb.IncompleteTopK(k=1, size="1 week", occurrences="once")
    zoned = sb.IncompleteTopK(k=1, size="1 week", zone="UTC", occurrences="once")
    assert plain.sharing_key() != zoned.sharing_key()
    assert "zone" not in plain.to_dict()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"size": "1 month", "every": "1 day", "zone": "UTC"}, "whole lengths of every"),
        ({"size": None, "every": "1 day"}, "every object would be held forever"),
        ({"size": "1 year", "every": "1 second", "zone": "UTC", "cumulative": True}, "at most 100,000"),
        ({"size": "1 day", "cumulative": True}, "every is missing"),
        ({"size": "1 day", "every": "7 hours", "cumulative": True}, "every='7 hours' must divide"),
        ({"size": 10, "zone": "UTC"}, "must be durations"),
    ],
)
def test_other_windows_are_rejected(fields, said):
    with pytest.raises((InvalidQueryError, UnsupportedError), match=said):
        sb.IncompleteTopK(k=1, **fields)
