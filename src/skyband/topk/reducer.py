"""The batch reducer: of a task's rows, those that can matter to some answer, packed for their shards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import one
from skyband.kernels.reduce import mark_unbeaten, newest_of_cells
from skyband.kernels.stream import TIED, Floats, Ints
from skyband.sharding.envelope import Envelope, Histogram, Note, gathered
from skyband.sharding.grouping import Grouping, group_rows, shard_of_groups
from skyband.sharding.row_order import by_group_and_position, positions_of, scores_of, stream_order
from skyband.topk.algorithms.panes import Panes
from skyband.topk.plan import Plan
from skyband.topk.query import TopK
from skyband.topk.window_ranking import Lined, rank_rows
from skyband.windows import ALWAYS, NEVER

__all__ = ["TopKNote", "reduce_rows"]

MOST_LATTICES = 64  # windows that end on more lattices than this end everywhere
COUNTING_SHARD = 0  # tells how many rows are late: a row may go to several shards, and is late once


@dataclass(frozen=True)
class TopKNote(Note):
    """Also tells where streams begin, of which full windows only are reported."""

    firsts: dict[str, Ints] = field(default_factory=dict)  # by feed: positions of which the first not late counts


class _Chunk(NamedTuple):
    """What is left of a stretch of the input."""

    rows: pa.Table
    kept: list[np.ndarray]  # per feed: which of the rows it needs
    note: Note
    taken: int
    left_out: int
    reduced: int


def reduce_rows(plan: Plan, batches: Iterable[pa.RecordBatch]) -> Iterator[Envelope]:
    """Cut a task's rows to those that can matter, and address them to their shards."""
    for table in gathered(batches):
        yield from _addressed(plan, _reduced(plan, table))


def _reduced(plan: Plan, table: pa.Table) -> _Chunk:
    taken = table.num_rows
    timeless = table[plan.time].null_count
    if timeless:
        table = table.filter(pc.is_valid(table[plan.time]))
    positions = positions_of(table, plan.time)
    left_out = np.zeros(table.num_rows, bool)
    kept, belongs, firsts = [], np.zeros(table.num_rows, bool), {}
    for number, feed in enumerate(plan.feeds):
        scores = scores_of(table, plan.scores[number])
        valid = ~np.isnan(scores)
        left_out |= ~valid & one(table[plan.scores[number]]).is_valid().to_numpy(zero_copy_only=False)
        belongs |= valid
        queries = [plan.queries[place] for place in feed.places]
        rows = np.flatnonzero(valid)
        if plan.axis == "count":
            kept.append(valid)
        else:
            found = np.zeros(valid.size, bool)
            told = table.select([plan.id, *plan.groups[number]])
            told = told.take(pa.array(rows)) if rows.size < valid.size else told
            found[rows[_needed(plan, told, positions[rows], scores[rows], queries, plan.groups[number])]] = True
            kept.append(found)
        if number in plan.full_only:
            firsts[feed.identity] = _firsts(positions, rows, queries)
    some = np.logical_or.reduce(kept)
    survivors = np.flatnonzero(some)
    note = TopKNote(
        newest=int(positions.max()) if positions.size else ALWAYS,
        oldest=int(positions[belongs].min(initial=NEVER)),
        histogram=Histogram.of(positions[belongs]) if plan.may_be_late else None,
        firsts=firsts,
    )
    return _Chunk(
        table.take(pa.array(survivors)) if survivors.size < some.size else table,
        [mask[survivors] for mask in kept],
        note,
        taken,
        timeless + int(left_out.sum()),
        int(belongs.sum()) - survivors.size,
    )


def _needed(
    plan: Plan, table: pa.Table, positions: Ints, scores: Floats, queries: Sequence[TopK], columns: Sequence[str]
) -> Any:
    """Which of a feed's rows can matter: a mask, or their places."""
    grouping = group_rows(table, columns)
    if plan.may_be_late:
        return _unbeaten(queries, positions, scores, grouping)
    order, begins = stream_order(table, plan.id, positions, grouping)
    lined = Lined(scores[order], positions[order], begins)
    groups = begins.size - 1
    found = rank_rows(Panes, queries, lined, np.full(groups, ALWAYS), np.full(groups, NEVER))
    return order[found.windows.ids]


def _unbeaten(queries: Sequence[TopK], positions: Ints, scores: Floats, grouping: Grouping) -> Any:
    lattices = np.array(sorted({(q.window.slide, q.window.origin % q.window.slide) for q in queries}), np.int64)
    kept = np.zeros(scores.size, np.int64)
    if len(lattices) > MOST_LATTICES:
        return np.ones(scores.size, bool)
    order, begins = by_group_and_position(positions, grouping)
    for direction, ties in product(("desc", "asc"), ("row_number", "rank")):
        k = max((query.k for query in queries if (query.order, query.ties) == (direction, ties)), default=0)
        if k:
            room = min(k, max(1, scores.size))
            keys = -scores if direction == "asc" else scores
            heap = np.empty(room), np.empty(room, np.int64)
            policy = TIED if ties == "rank" else None
            mark_unbeaten(keys, positions, order, begins, lattices, room, policy, *heap, kept)
    return kept > 0


def _firsts(positions: Ints, rows: Ints, queries: Sequence[TopK]) -> Ints:
    starts = {(q.window.slide, (q.window.origin - q.window.size) % q.window.slide) for q in queries if q.full_only}
    lattices = np.array(sorted(starts), np.int64)
    order = rows[np.argsort(positions[rows], kind="stable")]
    found = np.empty(order.size, np.int64)
    return found[: newest_of_cells(positions, order, lattices, found)].copy()


def _addressed(plan: Plan, chunk: _Chunk) -> Iterator[Envelope]:
    """The chunk's rows by shard. A shard sees only the scores of feeds whose groups live in it.

    Every shard gets a note, even without rows: all of them know how far the stream has come, and when a workload began.
    """
    homes = [
        shard_of_groups(chunk.rows, columns, grouping := group_rows(chunk.rows, columns), plan.shards)[grouping.codes]
        if columns
        else np.full(chunk.rows.num_rows, feed.home(plan.shards))
        for feed, columns in zip(plan.feeds, plan.groups, strict=True)
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
        yield Envelope(shard, table, note, *((chunk.taken, chunk.left_out, chunk.reduced) if counts else (0, 0, 0)))
