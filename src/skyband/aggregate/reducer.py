"""Aggregate a task's rows into partials: count, exact sum and extremes of the values per key and pane."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.aggregate.extreme_rows import PartialLayout
from skyband.aggregate.item_engine import codes_of
from skyband.aggregate.ordered_rows import POSITION, ordered_rows
from skyband.aggregate.panes import IrregularPanes, LatticePanes
from skyband.aggregate.partial_columns import partial_columns
from skyband.aggregate.plan import ITEM, AggregatePlan
from skyband.aggregate.sketches import refuse_other_weights
from skyband.data.arrow import one
from skyband.data.composite_key import packed_keys
from skyband.data.key_dictionary import key_column
from skyband.kernels.stream import Ints
from skyband.sharding.envelope import Envelope, Note, refuse_non_positions
from skyband.sharding.rows import group_rows
from skyband.windows import ALWAYS, AXIS_LIMIT, NEVER

__all__ = ["AggregateNote", "pane_ends", "panes_of", "sum_rows"]

_CHUNK = 1 << 20  # rows per summation step


@dataclass(frozen=True)
class AggregateNote(Note):
    """Also contains the position of the first row of each pane, if a query has full_only or rows may be late."""

    pane_ends: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    pane_firsts: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    @classmethod
    def joined(cls, notes: Sequence[Self]) -> Self:
        """Return one note with the facts of several."""
        ends, places = np.unique(np.concatenate([note.pane_ends for note in notes]), return_inverse=True)
        firsts = np.full(ends.size, AXIS_LIMIT)
        np.minimum.at(firsts, places, np.concatenate([note.pane_firsts for note in notes]))
        return cls(**cls._shared(notes), pane_ends=ends, pane_firsts=firsts)

    def refuse_other_types(self) -> None:
        """Raise TypeError or ValueError if a field is not of its type."""
        super().refuse_other_types()
        refuse_non_positions(self.pane_ends, self.pane_firsts)
        if self.pane_ends.size != self.pane_firsts.size:
            raise ValueError(f"{self.pane_ends.size} panes have {self.pane_firsts.size} first rows")


def pane_ends(table: pa.Table, panes: LatticePanes | IrregularPanes) -> Ints:
    """Return the pane end of each partial. Partials of an earlier workload with shorter panes map to a current pane."""
    return panes.ends_of(one(table["pane"]).to_numpy())


def panes_of(table: pa.Table) -> Ints:
    """Return the position that stands for the pane of each partial."""
    begins: Ints = _array(table["pane"], np.int64)
    return begins


def sum_rows(plan: AggregatePlan, batches: Iterable[pa.RecordBatch], _timely: int = NEVER) -> Iterator[Envelope]:
    """Yield the partials of a task's rows, addressed to shards, then one note per shard that describes all rows.

    Every shard receives the newest and the first position, so all shards agree on the extent of the stream.
    """
    newest, counts = ALWAYS, np.zeros(2, np.int64)
    firsts: list[dict[int, int]] = [{} for _ in plan.scans]
    for chunk in _chunks(batches):
        table = pa.Table.from_batches(chunk)
        at = table.column_names.index(plan.time)
        table = table.set_column(at, plan.time, table[plan.time].cast(pa.int64()))  # timestamps as microseconds
        timed = table.filter(pc.is_valid(table[plan.time])).combine_chunks()
        if timed.num_rows:
            newest = max(newest, pc.max(timed[plan.time]).as_py())
        counts += table.num_rows, _dropped_rows(plan, table)
        for scan in range(len(plan.scans)):
            yield from (
                _listed(plan, scan, timed) if plan.is_ordered(scan) else _summed(plan, scan, timed, firsts[scan])
            )
    if not counts[0]:
        return
    for scan, found in enumerate(firsts):
        ends, oldest = (np.array([*part], np.int64) for part in (found.keys(), found.values()))
        note = AggregateNote(newest, min(found.values(), default=newest), pane_ends=ends, pane_firsts=oldest)
        for shard in range(plan.shards):
            yield Envelope(scan * plan.shards + shard, pa.table({}), note, int(counts[0]), int(counts[1]), 0)
            counts[:] = 0  # only the first note carries the counts


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    found: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        found.append(batch)
        rows += batch.num_rows
        if rows >= _CHUNK:
            yield found
            found, rows = [], 0
    if found:
        yield found


def _dropped_rows(plan: AggregatePlan, table: pa.Table) -> int:
    dropped = pc.is_null(table[plan.time])
    for name in plan.wanted:
        dropped = pc.or_(dropped, pc.invert(pc.fill_null(table[name], True)))
    return int(pc.sum(dropped).as_py() or 0)


def _listed(plan: AggregatePlan, scan: int, table: pa.Table) -> Iterator[Envelope]:
    """Yield the rows of a scan that needs them in order."""
    for shard, rows in ordered_rows(plan, scan, table):
        note = AggregateNote(ALWAYS, int(pc.min(rows[POSITION]).as_py()))
        yield Envelope(scan * plan.shards + shard, rows, note, 0, 0, 0)


def _summed(plan: AggregatePlan, scan: int, table: pa.Table, firsts: dict[int, int]) -> Iterator[Envelope]:
    """Yield the partials of one scan, one table per shard. Update `firsts`: pane end to its first position."""
    table = table.filter(table[plan.wanted[scan]]).combine_chunks()
    if not table.num_rows:
        return
    shape = plan.shape(scan)
    together = shape.panes
    positions = _array(table[plan.time], np.int64)
    panes = together.numbers(positions)
    name, counted = plan.values[scan], []
    if shape.items is not None:
        items = key_column(one(table[str(name)])).stored
        table = table.append_column(ITEM, codes_of(items) if shape.items == "hashes" else items)
        name, counted = None, [ITEM]
    codes, samples = _coded(table, [*plan.groups[scan], *plan.key_fields(scan), *counted], panes)
    if plan.emission.lateness or any(query.full_only for query in shape.queries):
        numbers, places = np.unique(panes, return_inverse=True)
        oldest = np.full(numbers.size, positions.max())
        np.minimum.at(oldest, places, positions)
        for end, first in zip(together.ends(numbers).tolist(), oldest.tolist(), strict=True):
            firsts[end] = min(firsts.get(end, first), first)
    values = np.empty(0) if name is None else _array(table[name], np.float64)
    if shape.counters is not None:
        refuse_other_weights(values, f"value={shape.queries[0].value!r}")
    rows = table.select([*plan.groups[scan], *plan.key_fields(scan), *counted]).take(pa.array(samples))
    columns = {column: one(rows[column]) for column in (*plan.groups[scan], *counted)}
    parts = [one(rows[column]) for column in plan.key_fields(scan)]
    columns[plan.keys[scan]] = packed_keys(parts) if plan.parts else parts[0]
    columns |= {"pane": pa.array(together.marks(panes[samples]))}
    layout = PartialLayout.of(plan, scan)
    row_columns = table.select(list(plan.row_fields)) if shape.identified else table
    columns |= partial_columns(layout, codes, samples.size, positions, values, row_columns)
    partials = pa.table(columns)
    homes = _array(table[plan.homes[scan]], np.int64)[samples]
    for shard in np.unique(homes).tolist():
        mine = partials.take(pa.array(np.flatnonzero(homes == shard)))
        note = AggregateNote(ALWAYS, int(panes_of(mine).min()))
        yield Envelope(scan * plan.shards + shard, mine, note, 0, 0, 0)


def _coded(table: pa.Table, columns: list[str], panes: Ints) -> tuple[Ints, Ints]:
    """Return a code per (group, key, pane) for every row, and one sample row per code."""
    grouping = group_rows(table, columns)
    span = int(panes.max() - panes.min()) + 1
    numbers = panes - panes.min()
    if span > 2**62 // max(1, grouping.size):
        numbers = np.unique(numbers, return_inverse=True)[1]
        span = int(numbers.max()) + 1
    encoded = pa.array(grouping.codes * span + numbers).dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    samples = np.empty(len(encoded.dictionary), np.int64)
    samples[codes[::-1]] = np.arange(codes.size - 1, -1, -1)
    return codes, samples


def _array(column: Any, kind: Any) -> Any:
    return np.ascontiguousarray(one(column).to_numpy(zero_copy_only=False), kind)
