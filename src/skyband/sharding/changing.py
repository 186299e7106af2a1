"""The change feed: of the windows just answered only what differs from the window before, restarts included."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.kernels import changes as kernels
from skyband.kernels.stream import Ints
from skyband.sharding.answering import Answered, Listed
from skyband.sharding.grouping import group_rows
from skyband.sharding.plan import Plan

__all__ = ["Shown", "changed"]


class Shown(NamedTuple):
    """The newest answer of every query and group: what the next one is compared with."""

    queries: Ints  # per window: the query's place in the workload
    ends: Ints
    counts: Ints
    rows: Ints  # per row of an answer: its place in the shard's table
    ranks: Ints

    @classmethod
    def nothing(cls) -> Shown:
        """Before the first answer."""
        return cls(*(np.empty(0, np.int64) for _ in cls._fields))

    def of(self, places: Ints) -> Shown:
        """The answers of the queries at these places."""
        mine = np.isin(self.queries, places)
        rows = np.repeat(mine, self.counts)
        return Shown(self.queries[mine], self.ends[mine], self.counts[mine], self.rows[rows], self.ranks[rows])

    def moved(self, kept: Any) -> Shown:
        """The same after the shard's table was cut to the rows that the mask `kept` names, these among them."""
        return self._replace(rows=(np.cumsum(kept) - 1)[self.rows])

    def state(self, plan: Plan) -> dict[str, Any]:
        """The answers by the names of their queries: places may change before they are taken up again."""
        return {**self._asdict(), "names": [query.name for query in plan.queries]}

    @classmethod
    def load(cls, saved: dict[str, Any], plan: Plan, unchanged: set[str]) -> Shown:
        """What `state` saved, of the queries that are still the same."""
        places = {query.name: place for place, query in enumerate(plan.queries) if query.name in unchanged}
        now = np.array([places.get(name, -1) for name in saved["names"]], np.int64)
        shown = cls(*(saved[name] for name in cls._fields))
        shown = shown._replace(queries=now[shown.queries] if shown.queries.size else shown.queries)
        return shown.of(np.array(sorted(places.values()), np.int64))


def joined(parts: list[Shown]) -> Shown:
    """All of them."""
    return Shown(*map(np.concatenate, zip(Shown.nothing(), *parts, strict=True)))


def changed(
    plan: Plan, number: int, rows: pa.Table, before: Shown, fresh: Answered, reached: int
) -> tuple[Listed, Shown]:
    """What the `fresh` windows of one feed change, by window end, and what is shown after them.

    Time has come to `reached`: windows that end by then and hold no object are answers too, without rows.
    """
    mine = before.of(np.array(plan.feeds[number].places, np.int64))
    windows, queries = _in_order(plan, number, rows, mine, fresh)
    room = 2 * windows.rows.size
    out = kernels.Changes(*(np.empty(room, np.int64) for _ in kernels.Changes._fields))
    last = np.empty(windows.ends.size, np.int64)
    none = np.zeros(rows.num_rows, np.int64)
    size, kept = kernels.find_changes(windows, reached, none, none.copy(), out, last)
    out = kernels.Changes._make(column[:size] for column in out)
    asked = queries[out.windows]
    order = np.lexsort([windows.owners[out.windows], asked, out.ends])  # stable: ranks stay in order
    found = Listed(asked, out.ends, out.rows, out.ranks, out.old_ranks, out.kinds)
    return Listed._make(column[order] for column in found), _shown(windows, queries, last[:kept])


def _in_order(plan: Plan, number: int, rows: pa.Table, before: Shown, fresh: Answered) -> tuple[kernels.Windows, Ints]:
    """The windows of both by query, group and end; and their queries."""
    together = joined([before, Shown(*fresh)])
    begins = np.cumsum(together.counts) - together.counts
    groups = np.zeros(together.ends.size, np.int64)
    if plan.groups[number]:
        groups = group_rows(rows, plan.groups[number]).codes[together.rows[begins]]
    owners = together.queries * (int(groups.max(initial=0)) + 1) + groups
    order = np.lexsort([together.ends, owners])
    counts = together.counts[order]
    stops = np.cumsum(counts)
    picked = np.arange(together.rows.size) + np.repeat(begins[order] - (stops - counts), counts)
    slides = np.array([query.window.slide if plan.axis == "time" else 0 for query in plan.queries], np.int64)
    windows = kernels.Windows(
        owners=owners[order],
        ends=together.ends[order],
        slides=slides[together.queries[order]],
        known=(order < before.ends.size).astype(np.int64),
        begins=np.concatenate([[0], stops]),
        rows=together.rows[picked],
        ranks=together.ranks[picked],
    )
    return windows, together.queries[order]


def _shown(windows: kernels.Windows, queries: Ints, last: Ints) -> Shown:
    counts = np.diff(windows.begins)[last]
    stops = np.cumsum(counts)
    picked = np.arange(int(counts.sum())) + np.repeat(windows.begins[last] - (stops - counts), counts)
    return Shown(queries[last], windows.ends[last], counts, windows.rows[picked], windows.ranks[picked])
