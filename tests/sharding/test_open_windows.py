"""Provisional answers at moments: those of a stream that ends after the rows so far, if they have changed."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

import skyband as sb
from skyband.local.micro_batches import MicroBatches
from skyband.local.pipeline import plan_for
from skyband.sharding.emission import ONCE, Emission
from skyband.sharding.projection import ProjectionRequest
from tests.uncertain.test_shard import drawn as uncertain_columns

MS = 1000
STREAMS = ["a", "b", "c"]


class Stream:
    """Micro-batches of a stream, with or without provisional answers."""

    def __init__(self, queries, schema, delay, *, shards=2, emission=ONCE, output="answers"):
        request = ProjectionRequest(
            sb.Workload(queries),
            "ts",
            "id",
            algorithm="greedy" if queries[0].family == "uncertain" else "auto",
            shards=shards,
            may_be_late=True,
            delay=delay,
            emission=emission,
            output=output,
        )
        self.plan, self.delay = plan_for(schema, request), delay
        self.engine = MicroBatches(self.plan, "ts", delay)

    def step(self, table, messages=()):
        return self.engine.step([table], messages).answers

    def end(self, table):
        return self.step(table.slice(0, 0), [{"kind": "end"}])

    def restart(self):
        names, old = self.plan.unit_names, self.engine
        stored = {name: (one.state(), one.segments) for name, one in zip(names, old.shards, strict=True)}
        self.engine = MicroBatches(
            self.plan, "ts", self.delay, watermark=old.watermark, newest=old.newest, stored=stored
        )

    @property
    def clock(self):
        return self.engine.shards[0].clock


def by_moment(table, queries):
    groups = {query.name: bool(query.groups) for query in queries}
    times, found = table["time"].cast(pa.int64()).to_pylist(), {}
    for time, row in zip(times, table.to_pylist(), strict=True):
        final = row.pop("final", True)
        moment = row["query"], row["g"] if groups[row["query"]] else None, time
        found.setdefault(final, {}).setdefault(moment, []).append(repr(row))
    return found.get(True, {}), found.get(False, {})


def cut(random, table):
    low, found = 0, []
    while low < table.num_rows:
        size = random.randint(1, 40)
        found.append(table.slice(low, size))
        low += size
    return found


def check(random, queries, table, delay, next_moments, **more):
    """Compare provisional answers with those of streams that end after the rows so far; return their number."""
    stream = Stream(queries, table.schema, delay, emission=Emission(provisional=True), **more)
    shown, batches, answered = {}, [], 0
    for batch in cut(random, table):
        batches.append(batch)
        final, open_now = by_moment(stream.step(batch), queries)
        plain = Stream(queries, table.schema, delay, **more)
        before = [plain.step(one) for one in batches]
        assert final == by_moment(before[-1], queries)[0]
        clock, newest = stream.clock, stream.engine.newest
        ended = by_moment(plain.end(batch), queries)[0]
        until = next_moments(ended, newest)
        now = {moment: rows for moment, rows in ended.items() if clock < moment[2] <= until(moment)}
        assert open_now == {moment: rows for moment, rows in now.items() if rows != shown.get(moment)}
        shown, answered = now, answered + len(open_now)
        if random.random() < 0.4:
            stream.restart()
    final, open_now = by_moment(stream.end(table), queries)
    assert (final, open_now) == (ended, {})
    return answered


def incomplete_frame(random, size):
    at, rows = 50 * MS, []
    for number in range(size):
        at += random.choice([0, 0, 1, 2, 5]) * MS
        arrived = at + random.choice([0, 0, 3]) * MS
        value = random.choice([0.0, 0.25, 0.5, 0.5, 1.0, None])
        label = random.choice(["x", "y", None])
        rows.append((arrived, at, number, random.choice("ABCD"), random.choice(STREAMS), value, label))
    columns = list(zip(*(row[1:] for row in sorted(rows)), strict=True))
    names = {"ts": pa.timestamp("us"), "id": pa.int64(), "o": pa.string(), "s": pa.string(), "v": pa.float64()}
    kinds = [*names.values(), pa.string()]
    return pa.table(
        {name: pa.array(column, kind) for name, column, kind in zip([*names, "g"], columns, kinds, strict=True)}
    )


@pytest.mark.parametrize("seed", range(16))
def test_incomplete_streams(seed):
    random = Random(f"open incomplete {seed}")
    order = random.choice(["asc", "desc"])
    queries = [
        sb.IncompleteTopK(
            name=f"q{number}",
            k=random.randint(1, 3),
            size=f"{size} milliseconds",
            every=f"{random.randint(1, size)} milliseconds",
            object="o",
            stream="s",
            value="v",
            streams=STREAMS,
            aggregate=random.choice(["sum", "min", "max", "avg"]),
            occurrences=1 if order == "asc" else random.choice([1, 3]),
            order=order,
            partition_by=random.choice([(), ("g",)]),
            **({"ties": "rank"} if random.random() < 0.3 else {}),
        )
        for number, size in enumerate(random.choices([4, 9, 15], k=random.randint(1, 3)))
    ]
    windows = {query.name: query.window for query in queries}

    def until(_, newest):
        return lambda moment: windows[moment[0]].first_end_after(newest)

    table, shards = incomplete_frame(random, 120), random.choice([1, 3])
    assert check(random, queries, table, random.choice([3, 8]) * MS, until, shards=shards)


def uncertain_frame(seed, random):
    positions, scores, chances, rules, ids = uncertain_columns(seed, 110)
    groups = [random.choice(["x", "y", None]) for _ in ids]
    return pa.table(
        {
            "ts": pa.array(positions).cast(pa.timestamp("us")),
            "id": pa.array(ids),
            "s": pa.array(scores),
            "p": pa.array(chances),
            "r": pa.array(rules, pa.string()),
            "g": groups,
        }
    )


@pytest.mark.parametrize("seed", range(12))
def test_uncertain_streams(seed):
    random = Random(f"open uncertain {seed}")
    groups = random.choice([(), ("g",)])
    shared = {"by": "s", "probability": "p", "size": "24 milliseconds", "partition_by": groups}
    shared |= {"rule": random.choice([None, "r"])}
    meanings = [{}, {"semantics": "pt-k", "threshold": 0.02}, {"semantics": "u-kranks"}, {"semantics": "expected-rank"}]
    queries = [
        sb.UncertainTopK(
            name=f"q{number}",
            k=random.randint(1, 3),
            every=f"{every} milliseconds",
            **random.choice(meanings),
            **shared,
        )
        for number, every in enumerate(random.sample([2, 4, 8, 12], random.randint(1, 3)))
    ]

    def until(ended, newest):
        nexts = {}
        for name, _, time in ended:
            if time > newest:
                nexts[name] = min(time, nexts.get(name, time))
        return lambda moment: nexts.get(moment[0], newest)

    shards = random.choice([1, 2]) if groups else 1
    assert check(random, queries, uncertain_frame(seed, random), random.choice([0, 6]) * MS, until, shards=shards)
