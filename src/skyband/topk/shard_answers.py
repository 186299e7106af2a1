"""Final windows as rows for the user: the query, the group, the window, the rank, the score, and the row itself."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.answer_log import RankedWindows
from skyband.data.arrow import one
from skyband.kernels import expand
from skyband.kernels.stream import Ints
from skyband.kernels.window_comparison import NONE
from skyband.queries.answer_schema import CHANGE_COLUMNS, AnswerColumn
from skyband.queries.families import FAMILIES
from skyband.sharding.output import Output
from skyband.topk.change_feed import CHANGES
from skyband.topk.plan import TopKPlan
from skyband.topk.window_bounds import starts_of

__all__ = ["AnswerRows", "AnsweredWindows", "answer_columns", "answered", "listed", "tables"]

SLICE = 1 << 16  # rows of answers at a time: what a sink takes in one piece


def answer_columns(output: Output) -> tuple[AnswerColumn, ...]:
    """The columns of answers; of a change feed, with what has changed on both sides of the rank.

    >>> [column.name for column in answer_columns("changes")]
    ['query', 'window_start', 'window_end', 'change', 'rank', 'old_rank', 'score']
    """
    columns = FAMILIES["topk"].answers.columns
    if output == "answers":
        return columns
    rank = next(place for place, column in enumerate(columns) if column.name == "rank")
    change, old_rank = CHANGE_COLUMNS
    return *columns[:rank], change, columns[rank], old_rank, *columns[rank + 1 :]


class AnsweredWindows(NamedTuple):
    """Windows of one scan: an entry for each, by end, and their rows one after another, best first."""

    queries: Ints  # per window: the query's place in the workload
    ends: Ints  # per window
    counts: Ints  # per window: its number of rows
    rows: Ints  # per row of an answer: its place in the shard's table
    ranks: Ints  # per row of an answer


class AnswerRows(NamedTuple):
    """Rows on their way out, in order."""

    queries: Ints  # the query's place in the workload
    ends: Ints  # of the window
    rows: Ints  # the row's place in the shard's table
    ranks: Ints  # 0: it has none, because it left
    old_ranks: Ints  # 0: it had none
    changes: Ints  # NONE, or one of CHANGES


def answered(plan: TopKPlan, number: int, found: RankedWindows, order: Ints) -> AnsweredWindows:
    """The windows that one of the plan's scans answers now, by end; `order` leads from an id to the row."""
    by_end = np.lexsort([found.groups, found.queries, found.ends])
    begins = np.cumsum(found.counts) - found.counts
    counts = found.counts[by_end]
    total = int(counts.sum())
    picked, keys, ranks = np.empty(total, np.int64), np.empty(total), np.empty(total, np.int64)
    expand.gather(by_end, begins, found.counts, found.keys, found.ids, keys, picked)
    places = np.array(plan.scans[number].places, np.int64)[found.queries[by_end]]
    tied = np.array([query.ties == "rank" for query in plan.queries], np.int64)
    expand.fill_tied_ranks(counts, keys, tied[places], ranks)
    return AnsweredWindows(places, found.ends[by_end], counts, order[picked], ranks)


def listed(windows: AnsweredWindows) -> AnswerRows:
    """Every row of every window."""
    none = np.zeros(windows.rows.size, np.int64)
    return AnswerRows(
        np.repeat(windows.queries, windows.counts),
        np.repeat(windows.ends, windows.counts),
        windows.rows,
        windows.ranks,
        none,
        none + NONE,
    )


def tables(plan: TopKPlan, number: int, rows: pa.Table, out: AnswerRows) -> list[pa.Table]:
    """What leaves the shard, a slice at a time; `rows` is the shard's table and `number` the scan's."""
    return [
        _slice(plan, number, rows, AnswerRows._make(column[low : low + SLICE] for column in out))
        for low in range(0, out.rows.size, SLICE)
    ]


def _slice(plan: TopKPlan, number: int, rows: pa.Table, out: AnswerRows) -> pa.Table:
    chosen = rows.take(pa.array(out.rows))
    bound = chosen.schema.field(plan.time).type if plan.axis == "time" else pa.int64()
    names = pa.array([query.name for query in plan.queries])
    columns: dict[str, pa.Array] = {"query": names.take(pa.array(out.queries))}
    for name in plan.group_columns:
        kind = chosen.schema.field(name).type
        columns[name] = one(chosen[name]) if name in plan.groups[number] else pa.nulls(out.rows.size, kind)
    columns["window_start"] = pa.array(starts_of(plan.queries, out.queries, out.ends)).cast(bound)
    columns["window_end"] = pa.array(out.ends).cast(bound)
    if plan.output != "answers":
        columns["change"] = pa.array(CHANGES.values()).take(pa.array(out.changes, mask=out.changes == NONE))
    columns["rank"] = _ranks(out.ranks)
    if plan.output != "answers":
        columns["old_rank"] = _ranks(out.old_ranks)
    columns["score"] = pc.add(one(chosen[plan.scores[number]]), 0.0)
    for name in plan.returned:
        columns[name] = one(chosen[name])
    return pa.table(columns)


def _ranks(ranks: Ints) -> pa.Array:
    return pa.array(ranks.astype(np.int32), mask=ranks == 0)
