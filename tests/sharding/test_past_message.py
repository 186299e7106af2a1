"""The past of queries that join, as a message to shards that are stepped as Spark does: only if something is due."""

from __future__ import annotations

import json
from random import Random

import pyarrow as pa
import pytest

import skyband as sb
from skyband.jobs.history import RepeatedBatches
from skyband.local.pipeline import Counts, plan_for
from skyband.sharding.envelope import expected_watermark
from skyband.sharding.past_message import newest_past, past_message, with_past
from skyband.sharding.projection import ProjectionRequest
from skyband.sharding.shard import MemorySegments, shard_type
from tests.sharding.test_reported_answers import SCHEMA, SECOND, draw_rows, table_of

DELAY = 3 * SECOND
QUERIES = {
    "topk": (
        sb.TopK(name="base", k=2, size="8 seconds", slide="4 seconds", by="v", partition_by=["g"]),
        sb.TopK(name="new", k=3, size="20 seconds", slide="5 seconds", by="v", partition_by=["who"]),
        sb.TopK(name="more", k=1, size="12 seconds", by="-v", full_only=True),
    ),
    "aggregate": (
        sb.AggregateTopK(name="base", k=2, size="8 seconds", slide="4 seconds", key="who", value="v"),
        sb.AggregateTopK(name="new", k=2, size="20 seconds", slide="4 seconds", key="who", value="v"),
        sb.AggregateTopK(name="more", k=3, size=None, slide="8 seconds", key="who", value="v"),
    ),
}


def planned(queries, shards):
    request = ProjectionRequest(sb.Workload(queries), "ts", "id", shards=shards, may_be_late=True, delay=DELAY)
    return plan_for(SCHEMA, request)


class Stream:
    """The shards of a stream between micro-batches. A shard is stepped for envelopes, or when its timer is due."""

    def __init__(self, plan):
        self.plan, self.watermark, self.answers = plan, None, []
        self.shards = [plan.shard(number) for number in range(plan.plan.units)]

    def step(self, rows, messages=()):
        arrived = list(self.plan.envelopes([self.plan.project(table_of(rows))], Counts(), drop_unmatched=False))
        found = []
        for place, shard in enumerate(self.shards):
            mine = [envelope for envelope in arrived if envelope.shard == shard.number]
            is_due = shard.next_due is not None and self.watermark is not None and shard.next_due <= self.watermark
            if not (mine or is_due or messages):
                continue
            notes, parts = [envelope.note for envelope in mine], []
            past = newest_past([json.loads(one[place]) for one in messages], self.plan.plan)
            if past is not None:
                self.shards[place], parts = with_past(shard, past)
            after = expected_watermark(notes, DELAY)
            tables = [envelope.rows for envelope in mine]
            parts.append(self.shards[place].step(tables, notes, self.watermark, next_watermark=after))
            found += [(shard.number, table) for tables, _ in parts for table in tables if table.num_rows]
        self._take(found)
        if rows:
            after = max(row[0] for row in rows) // 1000 * 1000 - DELAY
            self.watermark = max(after, self.watermark or 0) if after > 0 else self.watermark

    def end(self):
        found = []
        for shard in self.shards:
            found += [
                (shard.number, table) for table in shard.step([], [], self.watermark, end=True)[0] if table.num_rows
            ]
        self._take(found)

    def change(self, plan, past=frozenset()):
        """Resume under another plan, as after a restart."""
        kind = shard_type(plan.plan)
        self.shards = [
            kind.resume(plan.plan, shard.number, shard.state(), shard.segments, past) for shard in self.shards
        ]
        self.plan = plan

    def _take(self, found):
        merged = self.plan.merged(iter([(number, self.plan.first_end(table), table) for number, table in found]))
        self.answers += [row for table in merged for row in table.to_pylist()]

    def of(self, name):
        """The answers of a query, without columns that only other queries have."""
        kept = [{k: v for k, v in row.items() if v is not None} for row in self.answers if row["query"] == name]
        return sorted(map(repr, (sorted(row.items()) for row in kept)))


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("family", QUERIES)
@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 25))])
def test_joining_queries_are_answered_as_if_they_had_been_there(seed, family, shards):
    random = Random(repr((seed, family, shards)))
    base, *new = QUERIES[family]
    rows = draw_rows(random, 90)
    # Rows of totals are not late, because the windows of a new query can divide time at other moments.
    late = 9 if family == "topk" else 2
    rows = [(max(0, at - random.choice([0, 0, 1, late]) * SECOND) + 100 * SECOND, *rest) for at, *rest in rows]
    cuts = [rows[at : at + 9] for at in range(0, 90, 9)]
    joins, since = random.randint(2, 8), random.choice([10, 40, 1000]) * SECOND
    names = {query.name: since for query in new}
    start, joined, alone = (Stream(planned(queries, shards)) for queries in ([base, *new], [base], [base]))
    clock = None
    for number, batch in enumerate(cuts):
        if number == joins:
            plan = planned([base, *new], shards)
            repeated = RepeatedBatches(plan, "ts", DELAY, names)
            for earlier in cuts[:number]:
                repeated.step([table_of(earlier)])
            clock = max(shard.clock for shard in repeated.engine.shards)
            reported_from = repeated.reported_from(clock)
            message = [json.dumps(past_message(shard, reported_from, 7)) for shard in repeated.engine.shards]
            older = [json.dumps(past_message(shard, dict.fromkeys(names, 0), 6)) for shard in Stream(plan).shards]
            other = [text.replace('"base"', '"x"').replace("'base'", "'x'").replace("7", "9") for text in message]
            joined.change(plan, frozenset(names))
            joined.step(batch, [older, message, other])
        else:
            joined.step(batch)
        start.step(batch)
        alone.step(batch)
    for stream in (start, joined, alone):
        stream.end()
    assert joined.of("base") == alone.of("base") == start.of("base")
    for query in new:
        ends = {row["window_end"] for row in joined.answers if row["query"] == query.name}
        wanted = [
            row
            for row in start.answers
            if row["query"] == query.name
            and micros(row["window_end"]) > clock
            and (query.size is None or micros(row["window_start"]) >= clock - since)
        ]
        assert wanted or not ends
        start.answers = [row for row in start.answers if row["query"] != query.name] + wanted
        assert joined.of(query.name) == start.of(query.name), query.name


def micros(moment):
    return pa.scalar(moment, pa.timestamp("us", "UTC")).value


def test_a_message_for_other_queries_is_ignored():
    plan, wider = planned([QUERIES["topk"][0]], 1), planned(QUERIES["topk"][:2], 1)
    messages = [past_message(Stream(wider).shards[0], {"new": 0}, attempt) for attempt in (1, 3, 2)]
    assert newest_past(messages, wider.plan)["attempt"] == 3
    assert newest_past(messages, plan.plan) is None  # the query was dropped
    assert newest_past(messages, planned(QUERIES["topk"], 1).plan) is None  # written without another new query
    assert newest_past(messages, planned(QUERIES["topk"][:2], 2).plan) is None
    assert newest_past([], plan.plan) is None


def test_segments_are_replaced():
    plan = planned(QUERIES["aggregate"], 1)
    repeated = RepeatedBatches(plan, "ts", DELAY, {"new": SECOND})
    repeated.step([table_of(draw_rows(Random(1), 60))])
    message = past_message(repeated.engine.shards[0], {"new": 0}, 1)
    assert message["segments"]
    shard = shard_type(plan.plan)(plan.plan, 0, MemorySegments({99: b"old"}))
    found, parts = with_past(shard, json.loads(json.dumps(message)))
    assert set(found.segments) == set(map(int, message["segments"]))
    assert found.segments is shard.segments
    assert len(parts) == 1
