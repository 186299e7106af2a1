"""What runs inside Spark's tasks for aggregate queries: partials into envelopes, these into answers, answers merged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.aggregate.keeping import Parcels
from skyband.arrow import from_bytes, to_bytes
from skyband.sharding.totals import Memory, Plan, TotalsShard, Worked, merged

__all__ = ["ENVELOPES", "LOCAL", "Done", "answer_all", "merge", "pack", "step"]

ENVELOPES = "shard long, rows binary, first long"
LOCAL = "answers binary, unit long"
_MILLISECOND = 1000

Batches = Iterable[pa.RecordBatch]
Task = Callable[[Batches], Iterator[pa.RecordBatch]]


class Done(NamedTuple):
    """What a step leaves behind."""

    blob: bytes  # the shard
    next_timer: int | None  # in milliseconds
    answers: bytes | None
    worked: Worked


def step(plan: Plan, unit: int, saved: bytes | None, rows: Iterable[Any], watermark: int, parcels: Parcels) -> Done:
    """Wake the shard up, show it the partials and the watermark (in milliseconds), and put it to sleep again."""
    tables, firsts = [], []
    for row in rows:
        if row.rows is not None:
            tables.append(from_bytes(bytes(row.rows)))
        if row.first is not None:
            firsts.append(row.first)
    shard = TotalsShard(plan, unit, parcels) if saved is None else TotalsShard.resume(plan, unit, saved, parcels)
    worked = shard.step(tables, min(firsts, default=None), watermark * _MILLISECOND)
    blob, end = shard.state(), shard.next_end
    answers = None if worked.answers is None else to_bytes(worked.answers)
    # A timer fires when the watermark is beyond it. This one must fire as soon as the watermark reaches the end: then
    # other shards, which have got rows, answer the same window, and the answers of one micro-batch are put together.
    return Done(blob, None if end is None else max(1, -(-end // _MILLISECOND)) - 1, answers, worked)


def pack(plan: Plan, keys: Mapping[int, int]) -> Task:
    """The task that addresses partials to shards, all that it has for one of them in one envelope."""

    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        found = list(batches)
        if not found:
            return
        table = pa.Table.from_batches(found)
        if not table.num_rows:
            return
        units = table["shard"].to_numpy()
        order = np.argsort(units, kind="stable")
        table = table.take(pa.array(order))
        present, begins = np.unique(units[order], return_index=True)
        first = None
        if plan.full_only:
            first = pc.min(table["first"]).as_py()
            for unit in set(range(plan.units)) - set(present.tolist()):
                yield _envelope(keys[unit], None, first)
        stops = [*begins[1:].tolist(), table.num_rows]
        for unit, low, high in zip(present.tolist(), begins.tolist(), stops, strict=True):
            feed = unit // plan.shards
            columns = {*plan.groups[feed], plan.keys[feed]}
            others = {*plan.group_columns, *plan.keys, "shard", "first"} - columns
            mine = table.select([name for name in table.column_names if name not in others])
            yield _envelope(keys[unit], to_bytes(mine.slice(low, high - low).combine_chunks()), first)

    return task


def answer_all(plan: Plan, keys: Mapping[int, int]) -> Task:
    """The task that answers every window of a bounded input, given all envelopes of its shards."""
    units = {key: unit for unit, key in keys.items()}

    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        arrived: dict[int, list[pa.Table]] = {}
        first: dict[int, int] = {}
        for batch in batches:
            for key, rows, oldest in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                unit = units[key]
                if rows is not None:
                    arrived.setdefault(unit, []).append(from_bytes(rows))
                if oldest is not None:
                    first[unit] = min(oldest, first.get(unit, oldest))
        for unit, tables in sorted(arrived.items()):
            worked = TotalsShard(plan, unit, Memory()).step(tables, first.get(unit), None)
            if worked.answers is not None:
                data = pa.array([to_bytes(worked.answers)], pa.binary())
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


def _envelope(key: int, rows: bytes | None, first: int | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([key], pa.int64()), pa.array([rows], pa.binary()), pa.array([first], pa.int64())],
        names=["shard", "rows", "first"],
    )
