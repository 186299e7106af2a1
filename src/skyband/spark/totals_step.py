"""What runs inside Spark's tasks for aggregate queries: rows into partials, these into answers, answers merged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from skyband.aggregate.keeping import Parcels
from skyband.arrow import from_bytes, to_bytes
from skyband.sharding.envelope import MILLISECOND, foreseen
from skyband.sharding.summing import Plan, sum_rows
from skyband.sharding.totals import Memory, TotalsShard, Worked, merged
from skyband.spark import tasks

__all__ = ["LOCAL", "Done", "answer_all", "make_partials", "merge", "step"]

LOCAL = "answers binary, unit long"

Batches = Iterable[pa.RecordBatch]
Task = Callable[[Batches], Iterator[pa.RecordBatch]]


class Done(NamedTuple):
    """What a step leaves behind."""

    blob: bytes  # the shard
    next_timer: int | None  # in milliseconds
    answers: list[bytes]
    worked: Worked  # all in all


def make_partials(plan: Plan, keys: Mapping[int, int]) -> Task:
    """The task that makes partials of rows, and addresses them to shards by their keys."""
    return tasks.to_shards(partial(sum_rows, plan), keys)


def step(
    plan: Plan,
    unit: int,
    saved: bytes | None,
    rows: Iterable[Any],
    watermark: int,
    delay: int | None,
    parcels: Parcels,
) -> Done:
    """Wake the shard up, show it the envelopes and the watermark (in milliseconds), and put it to sleep again.

    `delay` is how far the watermark stands behind the newest row, in microseconds; None where others have a say in it.
    """
    tables, notes, controls = tasks.opened(rows)
    shard = TotalsShard(plan, unit, parcels) if saved is None else TotalsShard.resume(plan, unit, saved, parcels)
    # Spark's watermark stands at 0 until it has seen a row.
    at = watermark * MILLISECOND or None
    parts = [shard.step(tables, notes, at, soon=foreseen(notes, delay))]
    parts += [shard.step([], [], told.get("at", at), end=told["kind"] == "end") for told in controls]
    blob, end = shard.state(), shard.next_end
    worked = parts[-1]._replace(
        late=sum(part.late for part in parts), unrankable=sum(part.unrankable for part in parts)
    )
    # A timer fires when the watermark is beyond it. This one must fire as soon as the watermark reaches the end: then
    # other shards, which have got rows, answer the same window, and the answers of one micro-batch are put together.
    timer = None if end is None else max(1, -(-end // MILLISECOND) - 1)
    return Done(blob, timer, [to_bytes(part.answers) for part in parts if part.answers is not None], worked)


def answer_all(plan: Plan, keys: Mapping[int, int]) -> Task:
    """The task that answers every window of a bounded input, given all envelopes of its shards."""

    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        for unit, tables, notes in tasks.by_shard(batches, keys):
            answers = TotalsShard(plan, unit, Memory()).step(tables, notes, None, end=True).answers
            if answers is not None:
                data = pa.array([to_bytes(answers)], pa.binary())
                yield pa.RecordBatch.from_arrays([data, pa.array([unit], pa.int64())], names=["answers", "unit"])

    return task


def merge(plan: Plan, kinds: pa.Schema) -> Task:
    """The task that puts the answers of all shards together. It must be given all answers of a micro-batch."""

    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        by_feed: dict[int, list[pa.Table]] = {}
        for batch in batches:
            for data, unit in zip(batch["answers"], batch["unit"].to_pylist(), strict=True):
                if data.is_valid:
                    by_feed.setdefault(unit // plan.shards, []).append(from_bytes(data.as_py()))
        for feed, tables in sorted(by_feed.items()):
            yield from merged(plan, feed, tables).cast(kinds).to_batches()

    return task
