"""Functions that run in Spark tasks: rows to envelopes, envelopes to answers. Data crosses to Python only as Arrow."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa

from skyband.data.arrow import least, to_bytes
from skyband.data.packed_table import pack_table, packed_parts, unpack_parts, unpack_table
from skyband.kernels.stream import Ints
from skyband.sharding.bounded_input import cut_by_time, step_in_order
from skyband.sharding.combiner import Reduce, combine_envelopes
from skyband.sharding.envelope import Envelope, Note, rows_of
from skyband.sharding.pipeline import LocalAnswers
from skyband.sharding.plan import ShardPlan
from skyband.sharding.shard import Tally, shard_type
from skyband.spark.envelope_columns import ENVELOPE_NAMES, ENVELOPES
from skyband.windows import ALWAYS

__all__ = [
    "ENVELOPES",
    "LOCAL",
    "Batches",
    "Task",
    "answer_in_order",
    "collect_answers",
    "combine",
    "local_answers",
    "merge_answers",
    "opened",
    "pack",
    "to_shards",
    "unpack",
]

# The output of a shard of a bounded input. The processors of a stream have other columns in addition to `answers`.
LOCAL = "answers binary, unit long, first_end long, windows long, over_limit long, unrankable long, "
LOCAL += "unknown_deletes long"

PART = 1 << 16  # rows of answers that are unpacked at a time, while Spark takes those before

Batches = Iterable[pa.RecordBatch]
Task = Callable[[Batches], Iterator[pa.RecordBatch]]


def to_shards(
    envelopes_of: Callable[[Batches], Iterable[Envelope]],
    keys: Mapping[int, int],
    cut_by: Callable[[pa.Table], Ints] | None = None,
) -> Task:
    """Return the task that packs rows into envelopes, addressed to shards by their keys.

    For a bounded input, envelopes are split by time: `cut_by` returns the positions of their rows.
    """

    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        for envelope in envelopes_of(batches):
            for part in [envelope] if cut_by is None else cut_by_time(envelope, cut_by):
                yield pack(part, keys)

    return task


def combine(
    plan: ShardPlan, reduce_again: Reduce | None, keys: Mapping[int, int], cut_by: Callable[[pa.Table], Ints] | None
) -> Task:
    """Return the task that combines envelopes of many tasks; `cut_by` as for `to_shards`."""
    numbers = {key: number for number, key in keys.items()}
    names = ("shard", "rows", "note", "taken", "dropped_null", "pruned")

    def opened_envelopes(batches: Batches) -> Iterator[Envelope]:
        note_type = shard_type(plan).note_type
        for batch in batches:
            for key, rows, note, *counts in zip(*(batch[name].to_pylist() for name in names), strict=True):
                yield Envelope(numbers[key], rows_of(rows), note_type.from_bytes(note), *counts)

    return to_shards(lambda batches: combine_envelopes(plan, reduce_again, opened_envelopes(batches)), keys, cut_by)


def answer_in_order(plan: ShardPlan, keys: Mapping[int, int], end: str) -> Task:
    """Return the task that answers every window of a bounded input, from envelopes sorted by shard and oldest row.

    `end` is the column with the window end in the shards' tables.
    """
    numbers = {key: number for number, key in keys.items()}

    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        envelopes = (
            row
            for batch in batches
            for row in zip(*(batch[name].to_pylist() for name in ("shard", "rows", "note")), strict=True)
        )
        for key, arrived in groupby(envelopes, key=itemgetter(0)):
            kind = shard_type(plan, numbers[key])
            parts = ((rows_of(rows), kind.note_type.from_bytes(note)) for _, rows, note in arrived)
            for answers, tally in step_in_order(parts, kind(plan, numbers[key])):
                yield _local(answers, tally, numbers[key], end)

    return task


def _local(answers: list[pa.Table], tally: Tally, unit: int, end: str) -> pa.RecordBatch:
    """Return the output of a step: one row with the counts, and one for each table of answers."""
    tables = [table for table in answers if table.num_rows]
    firsts = [least(table[end]) for table in tables]
    counts = (tally.windows, tally.over_limit, tally.unrankable, tally.unknown_deletes)
    columns = [
        pa.array([None, *map(pack_table, tables)], pa.binary()),
        pa.array([unit] * (1 + len(tables)), pa.int64()),
        pa.array([None, *firsts], pa.int64()),
        *(pa.array([count] + [0] * len(tables), pa.int64()) for count in counts),
    ]
    return pa.RecordBatch.from_arrays(columns, names=[part.split()[0] for part in LOCAL.split(", ")])


def local_answers(batches: Batches) -> Iterator[tuple[int, int, pa.Table]]:
    """Yield shard, end of the first window (ALWAYS for streams) and table, for each table of answers."""
    for batch in batches:
        names = batch.schema.names
        units = batch["unit"].to_pylist() if "unit" in names else [0] * batch.num_rows
        firsts = batch["first_end"].to_pylist() if "first_end" in names else [ALWAYS] * batch.num_rows
        for data, unit, first in zip(batch["answers"], units, firsts, strict=True):
            if data.is_valid:
                yield unit, first, unpack_table(data.as_py())


def opened(rows: Iterable[Any], note_type: type[Note]) -> tuple[list[pa.Table], list[Note], list[dict[str, Any]]]:
    """Return the tables and notes of a shard's envelopes, and the control messages among them."""
    tables, notes, controls = [], [], []
    for row in rows:
        if row.control is not None:
            controls.append(json.loads(row.control))
            continue
        tables.append(rows_of(bytes(row.rows)))
        notes.append(note_type.from_bytes(bytes(row.note)))
    return tables, notes, controls


def merge_answers(
    merge: Callable[[LocalAnswers, pa.Schema], Iterator[pa.Table]], kinds: pa.Schema, *, in_order: bool
) -> Task:
    """Return the task that merges the answers of all shards. It needs all answers of a micro-batch.

    `in_order` is True if answers arrive in the order of the merge, as for a bounded input.
    """

    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        found = local_answers(batches)
        for table in merge(found if in_order else sorted(found, key=itemgetter(0)), kinds):
            yield from table.to_batches()

    return task


def unpack(kinds: pa.Schema | None = None) -> Task:
    """Return the task that unpacks rows, with these types if given.

    A group column of a query that was just added has no values and no type yet, so its type comes from `kinds`.
    """

    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for table in _unpacked(batch["answers"], kinds):
                yield from table.to_batches()

    return task


def collect_answers(rows: pa.Table, kinds: pa.Schema, answers: pa.Schema) -> pa.Table:
    """Unpack collected rows into one table with the columns `answers`; `kinds` as for `unpack`."""
    packed = [data.as_buffer() for data in rows["answers"] if data.is_valid]
    parts = [part for data in packed for part in packed_parts(data, PART)]

    def unpacked(part: Callable[[], pa.Table]) -> pa.Table:
        return _typed(part(), kinds).rename_columns(answers.names).cast(answers)

    if len(parts) <= 1:  # no thread needed
        return unpacked(parts[0]) if parts else answers.empty_table()
    # The driver process waits for these answers. Arrow releases Python's lock while it writes values out.
    with ThreadPoolExecutor(min(len(parts), os.cpu_count() or 1)) as pool:
        return pa.concat_tables(pool.map(unpacked, parts))


def _unpacked(packed: Iterable[pa.Scalar], kinds: pa.Schema | None) -> Iterator[pa.Table]:
    for data in packed:
        if data.is_valid:
            for table in unpack_parts(data.as_py(), PART):
                yield table if kinds is None else _typed(table, kinds)


def _typed(table: pa.Table, kinds: pa.Schema) -> pa.Table:
    for place, field in enumerate(table.schema):
        if pa.types.is_null(field.type):
            table = table.set_column(place, field.name, pa.nulls(len(table), kinds.field(field.name).type))
    return table


def pack(envelope: Envelope, keys: Mapping[int, int]) -> pa.RecordBatch:
    """Return an envelope as one row for Spark."""
    newest = envelope.note.newest
    return pa.RecordBatch.from_arrays(
        [
            pa.array([keys[envelope.shard]], pa.int64()),
            pa.array([to_bytes(envelope.rows)], pa.binary()),
            pa.array([envelope.note.to_bytes()], pa.binary()),
            pa.array([None], pa.string()),
            pa.array([None if newest == ALWAYS else newest], pa.int64()).cast(pa.timestamp("us", "UTC")),
            pa.array([envelope.note.oldest], pa.int64()),
            pa.array([envelope.taken], pa.int64()),
            pa.array([envelope.dropped_null], pa.int64()),
            pa.array([envelope.pruned], pa.int64()),
        ],
        names=ENVELOPE_NAMES,
    )
