"""The processor alone, driven the way Spark drives it: envelopes and timers in, answers out."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

import skyband as sb
from skyband.aggregate.reducer import sum_rows
from skyband.data.packed_table import unpack_table
from skyband.snapshot import decode, encode
from skyband.spark import tasks
from skyband.spark.processor import OUTPUT, ShardProcessor
from skyband.topk.reducer import reduce_rows
from skyband.windows import NEVER
from tests.aggregate import oracle as aggregate_oracle
from tests.aggregate import test_shard as aggregate_shards
from tests.sharding.pipeline import plan_of, scored

KEY = 7  # the key that Spark knows shard 0 by
NAMES = [part.split()[0] for part in OUTPUT.split(", ")]
SECOND = 1_000_000


class Driven:
    """A processor of one shard under test."""

    def __init__(self, *queries):
        self.plan = plan_of(queries, shards=1)
        self.tester = TwsTester(
            ShardProcessor(self.plan, {0: KEY}), timeMode="EventTime", eventTimeExtractor=lambda _: NEVER
        )

    def push(self, rows):
        packed = [
            tasks.pack(envelope, {0: KEY}) for envelope in reduce_rows(self.plan, scored(self.plan, rows).to_batches())
        ]
        return self.tester.test(KEY, [Row(**row) for batch in packed for row in batch.to_pylist()])

    def send(self, *messages):
        return self.tester.test(
            KEY, [Row(control=json.dumps(message), rows=None, note=None, newest=None) for message in messages]
        )

    @property
    def timers(self):
        self.tester.handle.setGroupingKey(KEY)
        return list(self.tester.handle.listTimers())


def ids(out):
    assert all(sorted(row.asDict()) == sorted(NAMES) for row in out), "every row has every column"
    return [row["id"] for packed in out if packed.answers for row in unpack_table(packed.answers).to_pylist()]


def told(out, name):
    return sum(row[name] for row in out)


@pytest.fixture
def driven():
    return Driven(sb.TopK(name="q", k=1, size="10 seconds", slide="5 seconds", by="s"))


def test_one_timer_at_the_next_window_end_answers_it(driven):
    out = driven.push([(1 * SECOND, 3.0, 1, "a"), (2 * SECOND, 2.0, 2, "a"), (12 * SECOND, 1.0, 3, "a")])
    assert ids(out) == []
    assert (told(out, "windows"), out[0].candidates, out[0].newest) == (0, 2, 12 * SECOND)
    assert driven.timers == [5000]
    out = driven.tester.setWatermark(5000)
    assert ids(out) == [1]
    assert (told(out, "windows"), told(out, "answered"), out[0].last_end) == (1, 1, 5 * SECOND)
    assert driven.tester.setWatermark(5001) == [], "a timer fires once"
    assert ids(driven.tester.setWatermark(16_000)) == [1, 3]
    assert driven.timers == [20_000]
    assert ids(driven.tester.setWatermark(30_000)) == [3]
    assert driven.timers == []


def test_rows_and_the_watermark_in_one_batch(driven):
    driven.push([(1 * SECOND, 3.0, 1, "a")])
    driven.tester.setWatermark(4000)
    out = driven.push([(3 * SECOND, 9.0, 2, "a"), (4 * SECOND, 4.0, 3, "a"), (8 * SECOND, 1.0, 4, "a")])
    assert (told(out, "late"), out[0].unit, len(driven.timers)) == (1, 0, 1)
    assert ids(driven.tester.setWatermark(5000)) == [3]


def test_the_state_is_one_value_that_tells_its_size(driven):
    out = driven.push([(1 * SECOND, 3.0, 1, "a")])
    handle = driven.tester.handle
    assert (list(handle.value_states), handle.list_states, handle.map_states) == (["shard"], {}, {})
    (blob,) = driven.tester.peekValueState("shard", KEY)
    assert {row.bytes for row in out} == {len(blob)}
    driven.tester.updateValueState("shard", KEY, (blob[:-1],))
    with pytest.raises(sb.SnapshotError):
        driven.push([(2 * SECOND, 3.0, 2, "a")])


def test_a_state_of_a_later_version_is_rejected_and_left_as_it_is(driven):
    driven.push([(1 * SECOND, 3.0, 1, "a")])
    (blob,) = driven.tester.peekValueState("shard", KEY)
    later = encode({**decode(blob), "version": 99})
    driven.tester.updateValueState("shard", KEY, (later,))
    with pytest.raises(sb.SnapshotError, match="the topk shard has version 99"):
        driven.push([(2 * SECOND, 3.0, 2, "a")])
    assert driven.tester.peekValueState("shard", KEY) == (later,)


def test_shards_of_keys_have_segments_beside_their_value():
    query = sb.AggregateTopK(k=1, size="10 seconds", slide="5 seconds", key="key", value="value")
    plan = aggregate_shards.plan_of([query])
    processor = ShardProcessor(plan, {0: KEY, 1: KEY + 1})
    tester = TwsTester(processor, timeMode="EventTime", eventTimeExtractor=lambda _: NEVER)
    rows = [aggregate_oracle.Row(second * SECOND, "a", 1.0) for second in (1, 2, 6, 13)]
    for home in (0, 1):
        packed = [
            tasks.pack(envelope, {0: KEY, 1: KEY + 1})
            for envelope in sum_rows(plan, [aggregate_shards.task(rows, pa.string(), True)])
            if envelope.shard == home
        ]
        tester.test(KEY + home, [Row(**row) for batch in packed for row in batch.to_pylist()])
    handle = tester.handle
    assert (list(handle.value_states), list(handle.map_states)) == (["totals"], ["parcels"])
    out = tester.setWatermark(11_000)
    assert {tuple(row.asDict()) for row in out} == {tuple(NAMES)}
    found = [row for packed in out if packed.answers for row in unpack_table(packed.answers).to_pylist()]
    assert [(row["end"], row["score"]) for row in found] == [(5 * SECOND, 2.0), (10 * SECOND, 3.0)]
    home = aggregate_shards.home(rows[0])
    handle.setGroupingKey(KEY + home)
    assert list(handle.listTimers()) == [14_999], "as soon as the watermark reaches the end"


def test_messages(driven):
    driven.push([(1 * SECOND, 3.0, 1, "a")])
    assert ids(driven.send({"kind": "open"})) == []
    out = driven.send({"kind": "advance", "at": 7 * SECOND})
    assert ids(out) == [1]
    assert told(driven.push([(6 * SECOND, 3.0, 2, "a"), (8 * SECOND, 1.0, 3, "a")]), "late") == 1
    out = driven.send({"kind": "end"})
    assert ids(out) == [1, 3]
    assert {row.candidates for row in out} == {0}, "what is held when all is done"
    assert driven.timers == []


def test_nothing_is_known_before_the_first_row(driven):
    for row in driven.send({"kind": "open"}):
        assert (row.newest, row.last_end, row.candidates, row.late) == (None, None, 0, 0)
    assert driven.timers == []


def test_a_window_end_between_two_milliseconds_waits_for_the_second():
    driven = Driven(sb.TopK(name="q", k=1, size="1500 microseconds", slide="1500 microseconds", by="s"))
    driven.push([(5000, 1.0, 1, "a")])
    assert driven.timers == [6]
    driven.push([(6100, 1.0, 1, "a")])
    assert ids(driven.tester.setWatermark(6)) == [1]
    assert driven.timers == [8]
