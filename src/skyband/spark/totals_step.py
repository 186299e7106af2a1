"""What runs inside Spark's tasks for aggregate queries: rows into partials, these into answers, answers merged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa

from skyband.aggregate.reducer import Plan
from skyband.aggregate.shard import Memory, TotalsShard, Worked, merged
from skyband.aggregate.state_store import Parcels
from skyband.data.arrow import to_bytes
from skyband.sharding.bounded_input import Step, Stepped, complete_windows
from skyband.sharding.envelope import MILLISECOND, Note, foreseen
from skyband.spark import tasks

__all__ = ["Done", "merge", "step", "stepping"]

Batches = Iterable[pa.RecordBatch]
Task = Callable[[Batches], Iterator[pa.RecordBatch]]


class Done(NamedTuple):
    """What a step leaves behind."""

    blob: bytes  # the shard
    next_timer: int | None  # in milliseconds
    answers: list[bytes]
    worked: Worked  # all in all


def step(
    plan: Plan,
    unit: int,
    saved: bytes | None,
    rows: Iterable[Any],
    watermark: int,
    delay: int | None,
    parcels: Parcels,
    *,
    held: bool = False,
) -> Done:
    """Wake the shard up, show it the envelopes and the watermark (in milliseconds), and put it to sleep again.

    `delay` is how far the watermark stands behind the newest row, in microseconds; None where others have a say in it.
    `held`: the watermark makes nothing final, and no row late.
    """
    tables, notes, controls = tasks.opened(rows)
    shard = TotalsShard(plan, unit, parcels) if saved is None else TotalsShard.resume(plan, unit, saved, parcels)
    # Spark's watermark stands at 0 until it has seen a row.
    at = None if held else watermark * MILLISECOND or None
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


def stepping(plan: Plan, unit: int) -> Step:
    """What steps a shard through a bounded input."""
    shard = TotalsShard(plan, unit, Memory())

    def step(tables: list[pa.Table], notes: list[Note], at: int | None, end: bool) -> Stepped:
        worked = shard.step(tables, notes, None, soon=at, end=end)
        answers = [] if worked.answers is None else [worked.answers]
        return Stepped(answers, worked.partials, unrankable=worked.unrankable)

    return step


def merge(plan: Plan, kinds: pa.Schema, *, in_order: bool) -> Task:
    """The task that puts the answers of all shards together. It must be given all answers of a micro-batch.

    `in_order`: whether they come by feed, as those of a bounded input do.
    """

    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        found = ((unit // plan.shards, first, table) for unit, first, table in tasks.local_answers(batches))
        for feed, tables in groupby(found if in_order else sorted(found, key=itemgetter(0)), key=itemgetter(0)):
            for table in complete_windows(((first, table) for _, first, table in tables), "end"):
                yield from merged(plan, feed, [table]).cast(kinds).to_batches()

    return task
