"""Rows that delete their key, in calendar, cumulative and landmark windows beside sliding ones."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.aggregate import Monitor, open_panes, state_store
from tests.aggregate import oracle
from tests.aggregate.test_deletes import EXPRESSIONS, columns, frame, told
from tests.aggregate.test_shard import Shards, plan_of
from tests.calendar_queries import DAY, HOUR, draw_fields, draw_place, draw_plain, draw_rows

VALUES = [1.0, 2.0, -1.0, 0.0, -0.0, np.inf, -np.inf, np.nan, None]


def rng(*seeds):
    return random.Random(repr(("deletes", *seeds)))


def drawn(random_, *, grouped, **more):
    """Rows over hours and days, half of them deletes, queries, and the windows of those that do not slide."""
    zone, near = draw_place(random_)
    times = [at for at, _, _ in draw_rows(random_, near, random_.randint(1, 90))]
    names = random_.sample(range(200), len(times))
    rows = [
        oracle.Row(
            at,
            random_.choice([*"abcde", None]),
            random_.choice(VALUES),
            random_.choice(["x", "y", None]) if grouped else None,
            name,
            random_.random() < 0.4,
        )
        for at, name in zip(times, names, strict=True)
    ]
    queries, listed = [], {}
    for number in range(random_.randint(1, 4)):
        name = f"q{number}"
        if random_.random() < 0.2:
            fields = {"size": f"{random_.randint(5, 40)} hours", "slide": "5 hours"}
        else:
            plain = random_.random() < 0.5
            fields, windows = draw_plain(random_, near) if plain else draw_fields(random_, zone, near)
            listed[name] = windows(times[0], times[-1])
        queries.append(
            sb.AggregateTopK(
                name=name,
                k=random_.choice([1, 2, 100]),
                aggregate="latest",
                row=random_.random() < 0.5,
                order=random_.choice(["desc", "asc"]),
                having=random_.choice([None, None, "score > 0", "latest(value) <> 1"]),
                full_only=random_.random() < 0.2,
                partition_by=["g"] if grouped else (),
                **fields,
                **more,
            )
        )
    return rows, queries, listed


def asked(queries, **more):
    """The queries with other fields."""
    return [sb.AggregateTopK(**{**query.to_dict(), **more}) for query in queries]


@pytest.mark.parametrize("seed", range(60))
def test_arrays_in_any_batches_agree_with_the_definition(seed):
    random_ = rng("arrays", seed)
    grouped = random_.random() < 0.4
    rows, queries, listed = drawn(random_, grouped=grouped)
    given = {"count": False, "grouped": grouped, "ids": True}
    expected = oracle.answers(queries, rows, grouped=grouped, listed_windows=listed)
    monitor, low, found = Monitor(queries), 0, []
    while low < len(rows):
        high = min(len(rows), low + random_.randint(1, 25))
        monitor.push(**columns(rows[low:high], **given))
        low = high
        if random_.random() < 0.4:
            monitor = Monitor.resume(monitor.snapshot())
        if random_.random() < 0.4:
            found += oracle.listed(monitor.answers())
    monitor.finish()
    assert found + oracle.listed(monitor.answers()) == expected


@pytest.mark.parametrize("seed", range(60))
def test_frames_in_any_order_agree_with_the_definition(seed):
    random_ = rng("frames", seed)
    grouped = random_.random() < 0.5
    rows, queries, listed = drawn(random_, grouped=grouped, **EXPRESSIONS)
    queries = asked(queries, row=False)
    expected = oracle.answers(queries, rows, grouped=grouped, listed_windows=listed)
    table = frame(random_.sample(rows, len(rows)), ids=True)
    found = sb.replay(queries, table, time="ts", id="game")
    names = ["query", "g", "window_start", "window_end", "rank", "key", "score"]
    if not grouped:
        found = found.append_column("g", pa.nulls(found.num_rows, pa.string()))
    assert told(found.select(names)) == expected


@pytest.mark.parametrize("seed", range(60))
def test_shards_answer_the_same(seed, monkeypatch):
    """Rows come out of order, and shards are resumed from bytes at every step."""
    random_ = rng("shards", seed)
    monkeypatch.setattr(state_store, "_SEGMENT", 1 if seed % 3 else 1 << 15)
    monkeypatch.setattr(open_panes, "_SEGMENT", 1 if seed % 3 else 1 << 15)
    grouped = random_.random() < 0.4
    rows, queries, listed = drawn(random_, grouped=grouped)
    # Shards read evaluated expressions, in which NaN is the value of a delete.
    marked = [row._replace(value=np.nan) if row.delete else row for row in rows]
    shards = Shards(plan_of(queries, grouped=grouped), pa.string())
    delay, newest, watermark, found = random_.choice([3, 30]) * HOUR, None, None, []
    waiting = sorted(marked, key=lambda row: row.position + random_.randint(0, delay))
    while waiting:
        cut = random_.randint(1, 25)
        batch, waiting = waiting[:cut], waiting[cut:]
        half, before = random_.randint(0, len(batch)), watermark
        newest = max([row.position for row in batch] + ([] if newest is None else [newest]))
        watermark = newest - delay
        found += shards.step([batch[:half], batch[half:]], before, next_watermark=watermark if seed % 2 else None)
    found += shards.step([], None, end=True)
    assert found == oracle.answers(queries, rows, grouped=grouped, listed_windows=listed)
    assert shards.late == 0


@pytest.mark.parametrize("fields", [{"size": None}, {"size": "365 days", "cumulative": True}], ids=["all", "year"])
def test_deleted_keys_leave_growing_windows(fields):
    """Each key has a value for a day and is then deleted; what is stored does not grow with the keys."""
    query = sb.AggregateTopK(k=3, slide="1 hour", aggregate="latest", row=True, **fields)
    monitor, shards, sizes, found = Monitor(query), Shards(plan_of([query]), pa.string()), [], []
    for day in range(40):
        begin = 400 * DAY * 365 + day * DAY
        rows = [oracle.Row(begin + place, f"{day} {place}", float(place), id=100 * day + place) for place in range(9)]
        rows += [
            oracle.Row(begin + HOUR + place, f"{day - 1} {place}", np.nan, id=100 * day + 10 + place, delete=True)
            for place in range(9)
        ]
        monitor.push(**columns(rows, count=False, grouped=False, ids=True))
        found += shards.step([rows], begin)
        last = monitor.answers()
        sizes.append((monitor.candidates, shards.held, len(monitor.snapshot()), sum(map(len, shards.blobs))))
        assert monitor.candidates <= 27
        assert shards.held <= 36
    assert last["key"].to_pylist()[:6] == ["38 8", "38 7", "38 6"] * 2  # the keys of older days are deleted
    assert [row[5] for row in found[-3:]] == ["38 8", "38 7", "38 6"]
    assert sizes[-1][2] <= 1.2 * sizes[5][2]
    assert sizes[-1][3] <= 1.2 * sizes[5][3]


def test_a_key_that_was_deleted_begins_again():
    query = sb.AggregateTopK(k=3, size=None, slide="1 hour", aggregate="latest", origin=0)
    times, keys = [0, HOUR, 3 * HOUR, 4 * HOUR], ["a", "a", "a", "b"]
    monitor = Monitor(query)
    for at, key, value in zip(times, keys, [5.0, None, 7.0, 1.0], strict=True):
        monitor.push([at], [key], [value], deletes=[value is None])
        monitor = Monitor.resume(monitor.snapshot())
    monitor.finish()
    found = [(row[3] // HOUR, row[5], row[6]) for row in oracle.listed(monitor.answers())]
    assert found == [(1, "a", 5.0), (4, "a", 7.0), (5, "a", 7.0), (5, "b", 1.0)]
