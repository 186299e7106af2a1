"""What runs inside Spark's tasks: rows into envelopes, envelopes into answers. Only Arrow crosses the border."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import pyarrow as pa

from skyband.algorithms.base import ALWAYS
from skyband.arrow import from_bytes, to_bytes
from skyband.sharding.envelope import Envelope, Note
from skyband.sharding.plan import Plan
from skyband.sharding.reducer import reduce_rows
from skyband.sharding.shard import Shard

__all__ = [
    "ENVELOPES",
    "answer_all",
    "answer_packed",
    "answered",
    "by_shard",
    "opened",
    "pack",
    "reduce",
    "to_shards",
    "unpack",
]

ENVELOPES = (
    "shard long, rows binary, note binary, control string, newest timestamp, taken long, left_out long, reduced long"
)

Batches = Iterable[pa.RecordBatch]
Task = Callable[[Batches], Iterator[pa.RecordBatch]]


def reduce(plan: Plan, keys: Mapping[int, int]) -> Task:
    """The task that cuts rows to those that can matter, and addresses them to shards by their keys."""
    return to_shards(partial(reduce_rows, plan), keys)


def to_shards(envelopes_of: Callable[[Batches], Iterable[Envelope]], keys: Mapping[int, int]) -> Task:
    """The task that makes envelopes of rows, and addresses them to shards by their keys."""

    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        for envelope in envelopes_of(batches):
            yield pack(envelope, keys)

    return task


def answer_packed(shard_of: Callable[[int], Any], keys: Mapping[int, int]) -> Task:
    """The task that answers every window of a bounded input, a table at a time, for somebody to merge."""

    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        for table in answered(batches, shard_of, keys):
            yield pa.RecordBatch.from_arrays([pa.array([to_bytes(table)], pa.binary())], names=["answers"])

    return task


def answer_all(plan: Plan, keys: Mapping[int, int]) -> Task:
    """The task that answers every window of a bounded input, given all envelopes of its shards."""

    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        for table in answered(batches, lambda number: Shard(plan, number), keys):
            yield from table.to_batches()

    return task


def answered(batches: Batches, shard_of: Callable[[int], Any], keys: Mapping[int, int]) -> Iterator[pa.Table]:
    """The answers of all shards whose envelopes are here, each given all of its own at once."""
    for number, tables, notes in by_shard(batches, keys):
        answers, _ = shard_of(number).step(tables, notes, None, end=True)
        yield from answers


def by_shard(batches: Batches, keys: Mapping[int, int]) -> Iterator[tuple[int, list[pa.Table], list[Note]]]:
    """What the envelopes hold, all of each shard together."""
    numbers = {key: number for number, key in keys.items()}
    arrived: dict[int, tuple[list[pa.Table], list[Note]]] = {}
    for batch in batches:
        for key, rows, note in zip(*(batch[name].to_pylist() for name in ("shard", "rows", "note")), strict=True):
            tables, notes = arrived.setdefault(numbers[key], ([], []))
            tables.append(from_bytes(rows))
            notes.append(Note.from_bytes(note))
    for number, (tables, notes) in sorted(arrived.items()):
        yield number, tables, notes


def opened(rows: Iterable[Any]) -> tuple[list[pa.Table], list[Note], list[dict[str, Any]]]:
    """What a shard's envelopes hold, and the control messages among them."""
    tables, notes, controls = [], [], []
    for row in rows:
        if row.control is not None:
            controls.append(json.loads(row.control))
            continue
        tables.append(from_bytes(bytes(row.rows)))
        notes.append(Note.from_bytes(bytes(row.note)))
    return tables, notes, controls


def unpack(batches: Batches) -> Iterator[pa.RecordBatch]:
    """The task that turns packed answers into rows."""
    for batch in batches:
        for data in batch["answers"]:
            if data.is_valid:
                yield from from_bytes(data.as_py()).to_batches()


def pack(envelope: Envelope, keys: Mapping[int, int]) -> pa.RecordBatch:
    """An envelope as the one row that Spark sees of it."""
    newest = envelope.note.newest
    return pa.RecordBatch.from_arrays(
        [
            pa.array([keys[envelope.shard]], pa.int64()),
            pa.array([to_bytes(envelope.rows)], pa.binary()),
            pa.array([envelope.note.to_bytes()], pa.binary()),
            pa.array([None], pa.string()),
            pa.array([None if newest == ALWAYS else newest], pa.int64()).cast(pa.timestamp("us", "UTC")),
            pa.array([envelope.taken], pa.int64()),
            pa.array([envelope.left_out], pa.int64()),
            pa.array([envelope.reduced], pa.int64()),
        ],
        names=["shard", "rows", "note", "control", "newest", "taken", "left_out", "reduced"],
    )
