"""The batch reducer: selects the rows of a task that can be in an answer, and packs them for their shards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import product
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import one, plain_texts
from skyband.kernels.reduce import mark_unbeaten, newest_of_cells
from skyband.kernels.stream import TIED, Floats, Ints
from skyband.sharding.envelope import Envelope, Histogram, Note, gathered
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
from skyband.topk.plan import TopKPlan
from skyband.topk.query import TopK
from skyband.topk.window_bounds import all_sliding, cells_between, listed_of
from skyband.topk.window_ranking import Lined, rank_rows
from skyband.windows import ALWAYS, NEVER, SlidingWindow

__all__ = ["TopKNote", "first_positions", "matching_rows", "needed_rows", "reduce_rows"]

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


class _Chunk(NamedTuple):
    """The remaining rows of a range of the input."""

    rows: pa.Table
    kept: list[np.ndarray]  # per scan: mask of the rows it needs
    note: Note
    taken: int
    dropped_null: int
    pruned: int


def reduce_rows(plan: TopKPlan, batches: Iterable[pa.RecordBatch]) -> Iterator[Envelope]:
    """Reduce a task's rows to those that can be in an answer, and address them to their shards."""
    for table in gathered(batches):
        yield from _addressed(plan, _reduced(plan, table))


def _reduced(plan: TopKPlan, table: pa.Table) -> _Chunk:
    taken = table.num_rows
    timeless = 0
    if table[plan.time].null_count:
        timeless = matching_rows(plan, table.filter(pc.is_null(table[plan.time]))).num_rows
        table = table.filter(pc.is_valid(table[plan.time]))
    positions = positions_of(table, plan.time)
    dropped_null = np.zeros(table.num_rows, bool)
    kept, belongs, firsts = [], np.zeros(table.num_rows, bool), {}
    for number, scan in enumerate(plan.scans):
        scores = scores_of(table, plan.scores[number])
        valid = ~np.isnan(scores)
        dropped_null |= ~valid & one(table[plan.scores[number]]).is_valid().to_numpy(zero_copy_only=False)
        belongs |= valid
        queries = [plan.queries[place] for place in scan.places]
        rows = np.flatnonzero(valid)
        kept.append(needed_rows(plan, number, table, positions, scores))
        if number in plan.full_only:
            firsts[scan.identity] = first_positions(positions, rows, queries)
    some = np.logical_or.reduce(kept)
    survivors = np.flatnonzero(some)
    note = TopKNote(
        newest=int(positions.max()) if positions.size else ALWAYS,
        oldest=int(positions[belongs].min(initial=NEVER)),
        histogram=Histogram.of(positions[belongs]) if plan.may_be_late else None,
        firsts=firsts,
    )
    return _Chunk(
        plain_texts(table.take(pa.array(survivors)) if survivors.size < some.size else table),
        [mask[survivors] for mask in kept],
        note,
        taken,
        timeless + int(dropped_null.sum()),
        int(belongs.sum()) - survivors.size,
    )


def matching_rows(plan: TopKPlan, rows: pa.Table) -> pa.Table:
    """Drop rows that every filter removes. On Spark, `topk.spark` does the same before rows reach the tasks."""
    if not all(scan.where for scan in plan.scans):
        return rows
    return rows.filter(reduce(pc.or_, [rows[name].is_valid() for name in plan.scores]))


def needed_rows(plan: TopKPlan, number: int, table: pa.Table, positions: Ints, scores: Floats) -> Any:
    """Return a mask of the rows that a scan may answer with; `scores` are the scan's, NaN if a row has none."""
    valid = ~np.isnan(scores)
    if plan.axis == "count":
        return valid
    rows = np.flatnonzero(valid)
    columns = table.select([plan.id, *plan.groups[number]])
    columns = columns.take(pa.array(rows)) if rows.size < valid.size else columns
    queries = [plan.queries[place] for place in plan.scans[number].places]
    found = np.zeros(valid.size, bool)
    found[rows[_needed(plan, columns, positions[rows], scores[rows], queries, plan.groups[number])]] = True
    return found


def _needed(
    plan: TopKPlan, table: pa.Table, positions: Ints, scores: Floats, queries: Sequence[TopK], columns: Sequence[str]
) -> Any:
    """The scan's rows that can be in an answer: a mask, or their indexes."""
    grouping = group_rows(table, columns)
    if plan.may_be_late:
        return _unbeaten(queries, positions, scores, grouping)
    order, begins = stream_order(positions, grouping, ids_in(table, plan.id))
    lined = Lined(scores[order], positions[order], begins)
    groups = begins.size - 1
    # A listed window may stay open over many batches: windows that end after these rows are not visited one by one.
    final = NEVER if all_sliding(queries) else int(positions.max(initial=ALWAYS))
    found = rank_rows(Panes, queries, lined, np.full(groups, ALWAYS), np.full(groups, final))
    return order[np.concatenate([found.windows.ids, found.needed])]


def _unbeaten(queries: Sequence[TopK], positions: Ints, scores: Floats, grouping: Grouping) -> Any:
    sliding = [query.window for query in queries if isinstance(query.window, SlidingWindow)]
    lattices = _lattices((window.slide, window.origin) for window in sliding)
    kept = np.zeros(scores.size, np.int64)
    ends = _ends(lattices, positions)
    if ends is None:
        return np.ones(scores.size, bool)
    order, begins = by_group_and_position(positions, grouping)
    if listed_of(queries):
        cells = cells_between(queries, positions[order])
        begins = np.union1d(begins, np.flatnonzero(np.diff(cells)) + 1)
    for direction, ties in product(("desc", "asc"), ("row_number", "rank")):
        k = max((query.k for query in queries if (query.order, query.ties) == (direction, ties)), default=0)
        if k:
            room = min(k, max(1, scores.size))
            keys = -scores if direction == "asc" else scores
            heap = np.empty(room), np.empty(room, np.int64)
            policy = TIED if ties == "rank" else None
            mark_unbeaten(keys, positions, order, begins, lattices, ends, room, policy, *heap, kept)
    return kept > 0


def _ends(lattices: Ints, positions: Ints) -> Ints | None:
    """Return the window ends after the first and up to one after the last position, if there are many lattices.

    Empty if it is cheap to compute the next end from the lattices; None if there are too many ends.
    """
    if len(lattices) <= MOST_LATTICES or not positions.size:
        return np.empty(0, np.int64)
    low, high = int(positions.min()), int(positions.max())
    numbers = [((low - phase) // slide + 1, (high - phase) // slide + 2) for slide, phase in lattices.tolist()]
    if sum(last - first for first, last in numbers) > MOST_ENDS * positions.size + len(lattices):
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
    if not listed_of(full):
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
    homes = [
        shard_of_groups(chunk.rows, columns, grouping := group_rows(chunk.rows, columns), plan.shards)[grouping.codes]
        if columns
        else np.full(chunk.rows.num_rows, scan.home(plan.shards))
        for scan, columns in zip(plan.scans, plan.groups, strict=True)
    ]
    for shard in range(plan.shards):
        mine = [kept & (home == shard) for kept, home in zip(chunk.kept, homes, strict=True)]
        rows = np.flatnonzero(np.logical_or.reduce(mine))
        counts = shard == COUNTING_SHARD
        table = chunk.rows if rows.size == chunk.rows.num_rows else chunk.rows.take(pa.array(rows))
        for number, home in enumerate(homes):
            if (home[rows] != shard).any():
                name = plan.scores[number]
                masked = pc.if_else(pa.array(home[rows] == shard), one(table[name]), pa.scalar(None, pa.float64()))
                table = table.set_column(table.schema.get_field_index(name), name, masked)
        note = chunk.note if counts else replace(chunk.note, histogram=None)
        yield Envelope(shard, table, note, *((chunk.taken, chunk.dropped_null, chunk.pruned) if counts else (0, 0, 0)))
