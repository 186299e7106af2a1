"""The batch reducer: selects the rows of a task that can be in an answer, and packs them for their shards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import product
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import one, plain_columns
from skyband.data.window_bounds import all_sliding, cells_between, irregular_of
from skyband.kernels.reduce import mark_unbeaten, newest_of_cells
from skyband.kernels.stream import TIED, Bools, Floats, Ints
from skyband.sharding.envelope import Envelope, Histogram, Note, gathered, refuse_non_positions
from skyband.sharding.rows import (
    Grouping,
    by_group_and_position,
    group_rows,
    ids_in,
    positions_of,
    scores_of,
    shard_of_groups,
    stream_order,
)
from skyband.topk.algorithms.panes import Panes
from skyband.topk.distinct_ranking import unbeaten_entities
from skyband.topk.plan import TopKPlan
from skyband.topk.query import TopK
from skyband.topk.row_order import entities_of, keys_of
from skyband.topk.window_ranking import Lined, rank_rows
from skyband.windows import ALWAYS, NEVER, SlidingWindow

__all__ = ["TopKNote", "first_positions", "homes_of", "matching_rows", "needed_rows", "part_of", "reduce_rows"]

MOST_LATTICES = 64  # with more, the next window end is looked up in a list of all ends
MOST_ENDS = 4  # window ends per row; with more, hardly two rows are between the same ends, and none is dropped
COUNTING_SHARD = 0  # counts late rows: a row may go to several shards, but is late only once


@dataclass(frozen=True)
class TopKNote(Note):
    """Also contains where streams begin, for queries that report full windows only."""

    firsts: dict[str, Ints] = field(default_factory=dict)  # by scan: positions; the first that is not late counts

    @classmethod
    def joined(cls, notes: Sequence[Self]) -> Self:
        """Return one note with the facts of several."""
        firsts: dict[str, list[Ints]] = {}
        for note in notes:
            for scan, positions in note.firsts.items():
                firsts.setdefault(scan, []).append(positions)
        return cls(
            **cls._shared(notes), firsts={scan: np.unique(np.concatenate(all_)) for scan, all_ in firsts.items()}
        )

    def refuse_other_types(self) -> None:
        """Raise TypeError or ValueError if a field is not of its type."""
        super().refuse_other_types()
        refuse_non_positions(*self.firsts.values())


class _Chunk(NamedTuple):
    """The remaining rows of a range of the input."""

    rows: pa.Table
    kept: list[Bools]  # per scan: mask of the rows it needs
    note: Note
    taken: int
    dropped_null: int
    pruned: int


def reduce_rows(plan: TopKPlan, batches: Iterable[pa.RecordBatch], timely: int = NEVER) -> Iterator[Envelope]:
    """Reduce a task's rows to those that can be in an answer, and address them to their shards.

    From the position `timely` on no row is late.
    """
    for table in gathered(batches):
        yield from _addressed(plan, _reduced(plan, table, timely))


def _reduced(plan: TopKPlan, table: pa.Table, timely: int) -> _Chunk:
    taken = table.num_rows
    timeless = 0
    if table[plan.time].null_count:
        timeless = matching_rows(plan, table.filter(pc.is_null(table[plan.time]))).num_rows
        table = table.filter(pc.is_valid(table[plan.time]))
    positions = positions_of(table, plan.time)
    dropped_null, belongs = np.zeros(table.num_rows, bool), np.zeros(table.num_rows, bool)
    kept, firsts = [], {}
    for number, scan in enumerate(plan.scans):
        scores = scores_of(table, plan.scores[number])
        queries = [plan.queries[place] for place in scan.places]
        rows = _rankable(scores)
        if rows is None:
            belongs[:] = True
        else:
            belongs[rows] = True
            unranked = one(table[plan.scores[number]]).is_valid().to_numpy(zero_copy_only=False)
            unranked[rows] = False
            dropped_null |= unranked
        kept.append(needed_rows(plan, number, table, positions, scores, timely))
        if number in plan.full_only:
            places = np.arange(scores.size) if rows is None else rows
            firsts[scan.identity] = first_positions(positions, places, queries)
    some = kept[0] if len(kept) == 1 else np.logical_or.reduce(kept)
    survivors = np.flatnonzero(some)
    ranked = positions if belongs.all() else positions[belongs]
    note = TopKNote(
        newest=int(positions.max()) if positions.size else ALWAYS,
        oldest=int(ranked.min(initial=NEVER)),
        histogram=Histogram.of(ranked[ranked < timely]) if plan.may_be_late else None,
        firsts=firsts,
    )
    return _Chunk(
        plain_columns(table.take(pa.array(survivors)) if survivors.size < some.size else table),
        [mask[survivors] for mask in kept],
        note,
        taken,
        timeless + int(dropped_null.sum()),
        ranked.size - survivors.size,
    )


def _rankable(scores: Floats) -> Ints | None:
    """Return the rows that have a score; None if all have one."""
    missing = np.isnan(scores)
    return np.flatnonzero(~missing) if missing.any() else None


def _mask(size: int, rows: Ints | None) -> Bools:
    found = np.full(size, rows is None)
    if rows is not None:
        found[rows] = True
    return found


def matching_rows(plan: TopKPlan, rows: pa.Table) -> pa.Table:
    """Drop rows that every filter removes. On Spark, `topk.spark` does the same before rows reach the tasks."""
    if not all(scan.where for scan in plan.scans):
        return rows
    return rows.filter(reduce(pc.or_, [rows[name].is_valid() for name in plan.scores]))


def needed_rows(
    plan: TopKPlan, number: int, table: pa.Table, positions: Ints, scores: Floats, timely: int = NEVER
) -> Bools:
    """Return a mask of the rows that a scan may answer with; `scores` are the scan's, NaN if a row has none."""
    rows = _rankable(scores)
    if plan.axis == "count" or plan.scans[number].session is not None:
        return _mask(scores.size, rows)  # every row counts for the windows of others
    queries = [plan.queries[place] for place in plan.scans[number].places]
    scores = keys_of(plan, number, table, scores, positions)
    entities = entities_of(plan, number, table)
    if entities is not None:
        mine = np.arange(scores.size) if rows is None else rows
        grouping = group_rows(table.take(pa.array(mine)), plan.groups[number])
        unbeaten = unbeaten_entities(queries, positions[mine], scores[mine], entities[mine], grouping)
        return _mask(scores.size, mine[unbeaten])
    columns = table.select([plan.id, *plan.groups[number]])
    if rows is None:
        return _needed(plan, columns, positions, scores, queries, plan.groups[number], timely)
    columns = columns.take(pa.array(rows))
    needed = _needed(plan, columns, positions[rows], scores[rows], queries, plan.groups[number], timely)
    return _mask(scores.size, rows[needed])


def _needed(
    plan: TopKPlan,
    table: pa.Table,
    positions: Ints,
    scores: Floats,
    queries: Sequence[TopK],
    columns: Sequence[str],
    timely: int,
) -> Bools:
    """Return a mask of the scan's rows that can be in an answer."""
    grouping = group_rows(table, columns)
    if plan.may_be_late:
        return _unbeaten(queries, positions, scores, grouping, timely)
    order, begins = stream_order(positions, grouping, ids_in(table, plan.id))
    lined = Lined(scores[order], positions[order], begins)
    groups = begins.size - 1
    # An irregular window may stay open over many batches: windows that end after these rows are not visited one by one.
    final = NEVER if all_sliding(queries) else int(positions.max(initial=ALWAYS))
    found = rank_rows(Panes, queries, lined, np.full(groups, ALWAYS), np.full(groups, final))
    return _mask(order.size, order[np.concatenate([found.windows.ids, found.needed])])


def _unbeaten(queries: Sequence[TopK], positions: Ints, scores: Floats, grouping: Grouping, timely: int) -> Bools:
    sliding = [query.window for query in queries if isinstance(query.window, SlidingWindow)]
    by_end = _lattices((window.slide, window.origin) for window in sliding)
    by_start = _lattices((window.slide, window.origin - window.size) for window in sliding)
    ends = _moments(by_end, positions)
    if ends is None:
        return np.ones(scores.size, bool)
    starts = ends if np.array_equal(by_end, by_start) else _moments(by_start, positions)
    if starts is None or irregular_of(queries):
        timely, starts = NEVER, ends  # not used then
    order, begins = by_group_and_position(positions, grouping)
    if order is not None:
        positions, scores = positions[order], scores[order]
    if irregular_of(queries):
        begins = np.union1d(begins, np.flatnonzero(np.diff(cells_between(queries, positions))) + 1)
    kept = np.zeros(scores.size, bool)
    for direction, ties in product(("desc", "asc"), ("row_number", "rank")):
        k = max((query.k for query in queries if (query.order, query.ties) == (direction, ties)), default=0)
        if k:
            room = min(k, max(1, scores.size))
            keys = -scores if direction == "asc" else scores
            heap = np.empty(room), np.empty(room, np.int64)
            policy = TIED if ties == "rank" else None
            mark_unbeaten(keys, positions, begins, by_end, ends, by_start, starts, room, policy, timely, *heap, kept)
    return kept if order is None else _mask(kept.size, order[kept])


def _moments(lattices: Ints, positions: Ints) -> Ints | None:
    """Return the window ends (or starts) from one before the first to one after the last position, if many lattices.

    Empty if it is cheap to compute the next one from the lattices; None if there are too many.
    """
    if len(lattices) <= MOST_LATTICES or not positions.size:
        return np.empty(0, np.int64)
    low, high = int(positions.min()), int(positions.max())
    numbers = [((low - phase) // slide, (high - phase) // slide + 2) for slide, phase in lattices.tolist()]
    if sum(last - first for first, last in numbers) > MOST_ENDS * positions.size + 2 * len(lattices):
        return None
    pairs = zip(lattices.tolist(), numbers, strict=True)
    return np.unique(np.concatenate([phase + slide * np.arange(*span) for (slide, phase), span in pairs]))


def first_positions(positions: Ints, rows: Ints, queries: Sequence[TopK]) -> Ints:
    """The positions of these rows that can determine where full windows begin, in order."""
    full = [query for query in queries if query.full_only]
    sliding = [query.window for query in full if isinstance(query.window, SlidingWindow)]
    lattices = _lattices((window.slide, window.origin - window.size) for window in sliding)
    order = rows[np.argsort(positions[rows], kind="stable")]
    found = np.empty(order.size, np.int64)
    if not irregular_of(full):
        return found[: newest_of_cells(positions, order, lattices, found)].copy()
    cells = np.split(order, np.flatnonzero(np.diff(cells_between(full, positions[order], starts=True))) + 1)
    return np.concatenate([found[: newest_of_cells(positions, cell, lattices, found)].copy() for cell in cells])


def _lattices(slides_and_phases: Iterable[tuple[int, int]]) -> Ints:
    """The distinct lattices as (slide, phase), with the phase below the slide."""
    return np.array(sorted({(slide, phase % slide) for slide, phase in slides_and_phases}), np.int64).reshape(-1, 2)


def _addressed(plan: TopKPlan, chunk: _Chunk) -> Iterator[Envelope]:
    """The chunk's rows by shard. A shard receives only the scores of scans whose groups belong to it.

    Every shard gets a note, even without rows, so that all of them know the newest position and where a workload began.
    """
    homes = homes_of(plan, chunk.rows)
    for shard in range(plan.shards):
        mine = [kept & (home == shard) for kept, home in zip(chunk.kept, homes, strict=True)]
        rows = np.flatnonzero(np.logical_or.reduce(mine))
        counts = shard == COUNTING_SHARD
        table = part_of(plan, chunk.rows, homes, rows, shard)
        note = chunk.note if counts else replace(chunk.note, histogram=None)
        yield Envelope(shard, table, note, *((chunk.taken, chunk.dropped_null, chunk.pruned) if counts else (0, 0, 0)))


def homes_of(plan: TopKPlan, table: pa.Table) -> list[Ints]:
    """For each scan: the shard of every row."""
    return [
        shard_of_groups(table, columns, grouping := group_rows(table, columns), plan.shards)[grouping.codes]
        if columns
        else np.full(table.num_rows, scan.home(plan.shards))
        for scan, columns in zip(plan.scans, plan.groups, strict=True)
    ]


def part_of(plan: TopKPlan, table: pa.Table, homes: Sequence[Ints], rows: Ints, shard: int) -> pa.Table:
    """These rows of a table as a shard receives them: only with the scores of scans whose groups belong to it."""
    part = table if rows.size == table.num_rows else table.take(pa.array(rows))
    for name, home in zip(plan.scores, homes, strict=True):
        if (home[rows] != shard).any():
            masked = pc.if_else(pa.array(home[rows] == shard), one(part[name]), pa.scalar(None, pa.float64()))
            part = part.set_column(part.schema.get_field_index(name), name, masked)
    return part
