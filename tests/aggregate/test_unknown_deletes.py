"""Deletes of keys without a value are counted alike, however rows are divided, ordered, stored and sharded."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.aggregate.key_panes import KeyPanes
from skyband.local.pipeline import plan_for
from skyband.sharding.projection import ProjectionRequest
from skyband.windows import ALWAYS
from tests.aggregate.test_deletes import EXPRESSIONS, SECOND, drawn, frame, queries


def counted(asked, rows):
    """The number by its definition: for each key and pane one row, a delete, and no value before in a next window."""
    spans = [(query.sliding.size, query.sliding.slide) for query in asked]
    pane = math.gcd(*(length for span in spans for length in span))
    panes = {}
    for row in rows:
        if row.position is not None and row.key is not None and (row.delete or valued(row)):
            panes.setdefault((row.key, row.position // pane * pane), []).append(row)
    found = 0
    for (key, low), mine in panes.items():
        if len(mine) > 1 or not mine[0].delete:
            continue
        before = [other for name, other in panes if name == key and other < low]
        start = min((low // slide + 1) * slide - size for size, slide in spans)
        if not before or max(before) < start:
            found += 1
        else:
            found += max(panes[key, max(before)], key=lambda row: (row.position, row.id)).delete
    return found


def arrays(rows):
    """The arguments of a push of these rows."""
    return {
        "positions": pa.array([row.position for row in rows], pa.int64()),
        "keys": pa.array([row.key for row in rows], pa.string()),
        "values": pa.array([row.value for row in rows], pa.float64()),
        "ids": pa.array([row.id for row in rows], pa.int64()),
        "deletes": [row.delete for row in rows],
    }


def valued(row):
    return row.value is not None and not math.isnan(row.value)


def case(seed):
    random = Random(seed)
    rows = drawn(random)
    asked = [sb.AggregateTopK(**{**query.to_dict(), "full_only": False}) for query in queries(random, **EXPRESSIONS)]
    return random, rows, asked


@pytest.mark.parametrize("seed", range(40))
def test_frames_in_any_batches_with_restarts(seed):
    random, rows, asked = case(seed)
    monitor, low = sb.aggregate.Monitor(asked, time="ts", id="game"), 0
    while low < len(rows):
        high = min(len(rows), low + random.randint(1, 25))
        monitor.push(frame(rows[low:high], ids=True))
        low = high
        if random.random() < 0.4:
            monitor = sb.aggregate.Monitor.resume(monitor.snapshot())
    monitor.finish()
    assert monitor.metrics().get("unknown_deletes", 0) == counted(asked, rows)


@pytest.mark.parametrize("seed", range(30))
def test_shards_in_any_order_with_restarts(seed):
    random, rows, asked = case(("shards", seed).__repr__())
    table = frame(rows, ids=True)
    plan = plan_for(table.schema, ProjectionRequest(sb.Workload(asked), "ts", "game"))
    counts, clock, newest = plan.counts(), None, ALWAYS
    shards, low = {number: plan.shard(number) for number in range(plan.plan.units)}, 0
    while low < table.num_rows:
        high = min(table.num_rows, low + random.randint(1, 20))
        arrived = []
        order = random.sample(range(low, high), high - low)
        for place in range(0, len(order), 7):  # several tasks
            arrived += plan.envelopes([plan.project(table.take(pa.array(order[place : place + 7])))], counts)
        newest = max([newest, *(row.position for row in rows[low:high] if row.position is not None)])
        clock = newest - random.choice([0, 0, 3 * SECOND]) if random.random() < 0.7 else clock
        for number, shard in shards.items():
            mine = [one for one in arrived if one.shard == number]
            _, tally = shard.step([one.rows for one in mine], [one.note for one in mine], None, next_watermark=clock)
            counts.add_step(tally)
            if random.random() < 0.4:
                shards[number] = type(shard).resume(plan.plan, number, shard.state(), shard.segments)
        low = high
    for shard in shards.values():
        counts.add_step(shard.step([], [], clock, end=True)[1])
    assert counts.late == 0
    assert counts.unknown_deletes == counted(asked, rows)


@pytest.mark.parametrize("seed", range(40))
def test_arrays_in_any_pieces_with_restarts(seed):
    random, rows, asked = case(("arrays", seed).__repr__())
    monitor, low = sb.aggregate.Monitor(asked, computed=True), 0
    while low < len(rows):
        high = min(len(rows), low + random.randint(1, 25))
        monitor.push(**arrays(rows[low:high]))
        low = high
        if random.random() < 0.4:
            monitor = sb.aggregate.Monitor.resume(monitor.snapshot())
    monitor.finish()
    assert monitor.metrics().get("unknown_deletes", 0) == counted(asked, rows)


def test_arrays_count_from_the_first_push_with_deletes():
    monitor = sb.aggregate.Monitor(sb.AggregateTopK(k=9, size="10 seconds", slide="5 seconds", aggregate="latest"))
    monitor.push([0, 1 * SECOND], ["ann", "bob"], [1.0, 2.0])
    assert "unknown_deletes" not in monitor.metrics()
    monitor.push([6 * SECOND, 7 * SECOND], ["ann", "cid"], [None, None], deletes=[True, True])
    monitor.finish()
    assert monitor.metrics()["unknown_deletes"] == 1


def test_count_and_session_windows_of_frames_count_deletes():
    fields = {"k": 9, "aggregate": "latest", **EXPRESSIONS}
    rows = {"ts": pa.array([0, 1, 2, 30, 31], pa.timestamp("s")), "player": ["ann", "bob", "ann", "cid", "ann"],
            "points": [1.0] * 5, "op": ["u", "d", "d", "d", "u"]}  # fmt: skip
    for windows, expected in (({"gap": "5 seconds"}, 2), ({"size": 2}, 3)):
        monitor = sb.aggregate.Monitor(sb.AggregateTopK(**fields, **windows), time="ts")
        monitor.push(rows)
        monitor.finish()
        assert monitor.metrics()["unknown_deletes"] == expected


def test_what_counts():
    query = sb.AggregateTopK(k=9, size="10 seconds", slide="5 seconds", aggregate="latest", **EXPRESSIONS)
    monitor = sb.aggregate.Monitor(query, time="ts")

    def push(*rows):
        at, names, ops = zip(*rows, strict=True)
        monitor.push({"ts": pa.array([second * SECOND for second in at], pa.timestamp("us")), "player": list(names),
                      "points": [1.0] * len(rows), "op": list(ops)})  # fmt: skip
        return monitor.metrics()["unknown_deletes"]

    assert push((0, "ann", "u"), (1, "bob", "d"), (5, "ann", "d")) == 1  # bob
    assert push((6, "cid", "u"), (7, "cid", "d"), (8, "bob", "d"), (8, "bob", "d"), (10, "ann", "d")) == 1
    assert push((20, "dan", "u")) == 2  # ann, who was deleted before
    assert push((31, "dan", "d"), (40, "eve", "u")) == 3  # the value of dan is in no window any more
    plain = sb.AggregateTopK(k=1, size="1 second", key="player", aggregate="count")
    assert "unknown_deletes" not in sb.aggregate.Monitor(plain, time="ts").metrics()


def test_a_state_without_the_keys_counts_from_their_next_row():
    deletes, slots = KeyPanes(lambda mark: mark - 10), np.array([0, 1])
    deletes.load(None, slots, np.array([-3, -20]))
    nan, found = np.array([np.nan, np.nan]), []
    for mark in (0, 5):
        marks = np.array([mark, mark])
        found.append(deletes.unknown_deletes(slots, marks, nan, np.ones(2)))
        deletes.take(slots, marks, nan)
    assert found == [1, 2]
