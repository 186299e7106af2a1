"""Shards of keys: any cut of a stream into steps, asleep between all of them, gives what one process gives."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random
from zlib import crc32

import pyarrow as pa
import pytest

import skyband as sb
from skyband.aggregate import keeping
from skyband.kernels.limbs import ONES
from skyband.sharding.totals import FIRST_COLUMN, LIMB_COLUMNS, Memory, Plan, TotalsShard, merged
from tests.aggregate import cases, oracle


def split(value):
    """The limbs of a value as Spark's columns have them, or None for a stray: here by fractions."""
    if math.isinf(value):
        return None
    left, limbs = Fraction(value), []
    for place in range(LIMB_COLUMNS):
        unit = Fraction(2) ** (32 * (FIRST_COLUMN + place - ONES))
        below = Fraction(2) ** (32 * (FIRST_COLUMN + place + 1 - ONES))
        limb = left if place + 1 == LIMB_COLUMNS else left - below * round(left / below)
        if (limb / unit).denominator != 1 or abs(limb / unit) > 2**32:
            return None
        limbs.append(int(limb / unit))
        left -= limb
    return limbs


def partial_table(plan, rows, kind):
    """The partials of rows: one for each group, key, pane and stray value."""
    length, offset = plan.pane
    found = {}
    for row in rows:
        value = row.value if row.value is not None and not math.isnan(row.value) else 1.0
        limbs = split(value)
        pane = row.position - (row.position - offset) % length
        name = (row.group, row.key, pane, None if limbs else value)
        mine = found.setdefault(name, {"count": 0, "limbs": [0] * LIMB_COLUMNS, "values": [], "last": row.position})
        mine["count"] += 1
        mine["limbs"] = [a + b for a, b in zip(mine["limbs"], limbs or [0] * LIMB_COLUMNS, strict=True)]
        mine["values"].append(value)
        mine["last"] = max(mine["last"], row.position)
    columns = {
        "g": pa.array([name[0] for name in found], pa.string()),
        "key": pa.array([name[1] for name in found], kind),
        "pane": pa.array([name[2] for name in found], pa.int64()),
        "last": pa.array([mine["last"] for mine in found.values()], pa.int64()),
        "count": pa.array([mine["count"] for mine in found.values()], pa.int64()),
        "max": pa.array([max(mine["values"]) for mine in found.values()], pa.float64()),
        "min": pa.array([min(mine["values"]) for mine in found.values()], pa.float64()),
        "stray": pa.array([name[3] for name in found], pa.float64()),
    }
    for place in range(LIMB_COLUMNS):
        columns[f"limb_{place}"] = pa.array([mine["limbs"][place] for mine in found.values()], pa.int64())
    return pa.table(columns)


class Shards:
    """Two shards, asleep between steps; keys go to them by their hash."""

    def __init__(self, plan, kind):
        self.plan, self.kind = plan, kind
        self.parcels = [Memory() for _ in range(plan.shards)]
        self.blobs = [None] * plan.shards
        self.held = [0] * plan.shards

    def step(self, rows, first, clock):
        tables = []
        for unit in range(self.plan.shards):
            mine = [row for row in rows if home(row.key) % self.plan.shards == unit]
            shard = TotalsShard(self.plan, unit, self.parcels[unit])
            if self.blobs[unit] is not None:
                shard = TotalsShard.resume(self.plan, unit, self.blobs[unit], self.parcels[unit])
            worked = shard.step([partial_table(self.plan, mine, self.kind)] if mine else [], first, clock)
            self.blobs[unit], self.held[unit] = shard.state(), worked.partials
            tables += [] if worked.answers is None else [worked.answers]
        return told(self.plan, merged(self.plan, 0, tables)) if tables else []


def home(key):
    return crc32(repr(key + 0.0 if isinstance(key, float) else key).encode())


def told(plan, table):
    """Answers as the tuples of the oracle."""
    rows = zip(
        table["query"].to_pylist(),
        table["g"].to_pylist() if plan.groups[0] else [None] * table.num_rows,
        *(table[name].cast(pa.int64()).to_pylist() for name in ("window_start", "window_end", "rank")),
        *(table[name].to_pylist() for name in ("key", "score")),
        strict=True,
    )
    places = {query.name: place for place, query in enumerate(plan.queries)}
    return sorted(rows, key=lambda row: (row[3], places[row[0]], row[1] is None, row[1] or "", row[4]))


@pytest.mark.parametrize("seed", range(80))
@pytest.mark.parametrize("parcel", [1, 1 << 15])
def test_any_steps_give_the_same(seed, parcel, monkeypatch):
    monkeypatch.setattr(keeping, "_PARCEL", parcel)
    random = Random(seed)
    case = cases.draw(random, axis="time", grouped=random.random() < 0.4, most=80)
    grouped = case.grouped
    # One feed: all queries have groups, or none has.
    queries = tuple(
        sb.AggregateTopK(**{**query.to_dict(), "partition_by": ["g"] if grouped else ()}) for query in case.queries
    )
    plan = Plan(queries=queries, shards=2, groups=(("g",) if grouped else (),), keys=("key",), utc=True)
    rows = [row for row in case.rows if oracle.is_object(row, False, case.valued)]
    expected = oracle.answers(queries, rows, valued=case.valued, grouped=grouped)
    shards, found, clock = Shards(plan, case.key_kind), [], -(10**6)
    length, offset = plan.pane
    waiting = list(rows)
    while waiting:
        clock = max(clock, waiting[0].position) + random.choice([1, 3, 10, 40])
        # Spark lets go of panes that have ended, and of no others.
        closed = [row for row in waiting if row.position - (row.position - offset) % length + length <= clock]
        waiting = waiting[len(closed) :]
        first = min((row.position for row in closed), default=None)
        found += shards.step(closed, first, clock)
        assert sum(shards.held) <= len(rows)
    found += shards.step([], None, clock + 1000)
    assert found == expected
    assert shards.held == [0, 0]
    assert [len(parcels) for parcels in shards.parcels] == [0, 0]


def test_a_parcel_is_written_once():
    written = []

    class Watched(Memory):
        def put(self, number, data):
            written.append(number)
            super().put(number, data)

    query = sb.AggregateTopK(k=2, size="60 microseconds", slide="10 microseconds", key="k", value="v")
    plan = Plan(queries=(query,), shards=1, groups=((),), keys=("key",), utc=True)
    parcels, blob = Watched(), None
    for pane in range(30):
        rows = [oracle.Row(10 * pane + place, place % 5, 1.0) for place in range(10)]
        shard = TotalsShard(plan, 0, parcels) if blob is None else TotalsShard.resume(plan, 0, blob, parcels)
        shard.step([partial_table(plan, rows, pa.int64())], None, 10 * pane + 10)
        blob = shard.state()
        assert len(parcels) <= 6
    assert written == list(range(30))


def test_another_workload_is_refused():
    query = sb.AggregateTopK(k=2, size="60 microseconds", key="k", value="v")
    plan = Plan(queries=(query,), shards=1, groups=((),), keys=("key",), utc=True)
    other = Plan(
        queries=(sb.AggregateTopK(k=3, size="60 microseconds", key="k", value="v"),),
        shards=1,
        groups=((),),
        keys=("key",),
        utc=True,
    )
    shard = TotalsShard(plan, 0, Memory())
    shard.step([partial_table(plan, [oracle.Row(1, 1, 1.0)], pa.int64())], None, 60)
    with pytest.raises(sb.SnapshotError, match="another workload"):
        TotalsShard.resume(other, 0, shard.state(), Memory())
