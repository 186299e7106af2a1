"""Final windows as rows for the user: the query, the group, the window, the rank, the score, and the row itself."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.answers import Ranked
from skyband.arrow import one
from skyband.kernels import expand
from skyband.kernels.stream import Ints
from skyband.sharding.plan import Plan

__all__ = ["ANSWER_COLUMNS", "answer_rows"]

ANSWER_COLUMNS = ("query", "window_start", "window_end", "rank", "score")
SLICE = 1 << 16  # rows of answers at a time: what a sink takes in one piece


def answer_rows(plan: Plan, number: int, rows: pa.Table, found: Ranked, order: Ints) -> list[pa.Table]:
    """The answers of one of the plan's feeds, by window end, a slice at a time; `order` leads from an id to the row."""
    by_end = np.lexsort([found.groups, found.queries, found.ends])
    begins = np.cumsum(found.counts) - found.counts
    counts = found.counts[by_end]
    total = int(counts.sum())
    picked = np.empty(total, np.int64)
    ranks = np.empty(total, np.int64)
    expand.gather(by_end, begins, found.counts, found.keys, found.ids, np.empty(total), picked)
    expand.fill_ranks(counts, ranks)
    windows = np.repeat(by_end, counts)
    return [
        _slice(
            plan,
            number,
            rows,
            found,
            windows[low : low + SLICE],
            ranks[low : low + SLICE],
            order[picked[low : low + SLICE]],
        )
        for low in range(0, total, SLICE)
    ]


def _slice(
    plan: Plan, number: int, rows: pa.Table, found: Ranked, windows: Ints, ranks: Ints, picked: Ints
) -> pa.Table:
    places = np.array(plan.feeds[number].places, np.int64)[found.queries[windows]]
    sizes = np.array([query.window.size for query in plan.queries], np.int64)
    ends = found.ends[windows]
    chosen = rows.take(pa.array(picked))
    bound = chosen.schema.field(plan.time).type if plan.axis == "time" else pa.int64()
    names = pa.array([query.name for query in plan.queries])
    columns: dict[str, pa.Array] = {"query": names.take(pa.array(places))}
    for name in plan.group_columns:
        kind = chosen.schema.field(name).type
        columns[name] = one(chosen[name]) if name in plan.groups[number] else pa.nulls(picked.size, kind)
    columns["window_start"] = pa.array(ends - sizes[places]).cast(bound)
    columns["window_end"] = pa.array(ends).cast(bound)
    columns["rank"] = pa.array(ranks.astype(np.int32))
    columns["score"] = pc.add(one(chosen[plan.scores[number]]), 0.0)
    for name in plan.returned:
        columns[name] = one(chosen[name])
    return pa.table(columns)
