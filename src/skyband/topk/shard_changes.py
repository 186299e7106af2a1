"""The change feed of a shard: of the windows just answered only what differs from the window before."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.data.window_comparison import WindowRows, compare, parts
from skyband.kernels.stream import Ints
from skyband.sharding.grouping import group_rows
from skyband.topk.plan import TopKPlan
from skyband.topk.shard_answers import AnsweredWindows, AnswerRows
from skyband.topk.window_bounds import steps_after

__all__ = ["NewestAnswers", "changed", "joined"]


class NewestAnswers(NamedTuple):
    """The newest answer of every query and group: what the next one is compared with."""

    queries: Ints  # per window: the query's place in the workload
    ends: Ints
    counts: Ints
    rows: Ints  # per row of an answer: its place in the shard's table
    ranks: Ints

    @classmethod
    def nothing(cls) -> NewestAnswers:
        """Before the first answer."""
        return cls(*(np.empty(0, np.int64) for _ in cls._fields))

    def of(self, places: Ints) -> NewestAnswers:
        """The answers of the queries at these places."""
        return self.chosen(np.flatnonzero(np.isin(self.queries, places)))

    def chosen(self, windows: Ints) -> NewestAnswers:
        """Some of the windows, in this order."""
        rows, _ = parts(self.counts, windows)
        return NewestAnswers(
            self.queries[windows], self.ends[windows], self.counts[windows], self.rows[rows], self.ranks[rows]
        )

    def moved(self, kept: Any) -> NewestAnswers:
        """The same after the shard's table was cut to the rows that the mask `kept` names, these among them."""
        return self._replace(rows=(np.cumsum(kept) - 1)[self.rows])

    def state(self, plan: TopKPlan) -> dict[str, Any]:
        """The answers by the names of their queries: places may change before they are taken up again."""
        return {**self._asdict(), "names": [query.name for query in plan.queries]}

    @classmethod
    def load(cls, saved: dict[str, Any], plan: TopKPlan, unchanged: set[str]) -> NewestAnswers:
        """What `state` saved, of the queries that are still the same."""
        places = {query.name: place for place, query in enumerate(plan.queries) if query.name in unchanged}
        now = np.array([places.get(name, -1) for name in saved["names"]], np.int64)
        shown = cls(*(saved[name] for name in cls._fields))
        shown = shown._replace(queries=now[shown.queries] if shown.queries.size else shown.queries)
        return shown.of(np.array(sorted(places.values()), np.int64))


def joined(pieces: list[NewestAnswers]) -> NewestAnswers:
    """All of them."""
    return NewestAnswers(*map(np.concatenate, zip(NewestAnswers.nothing(), *pieces, strict=True)))


def changed(
    plan: TopKPlan, number: int, rows: pa.Table, before: NewestAnswers, fresh: AnsweredWindows, reached: int
) -> tuple[AnswerRows, NewestAnswers]:
    """What the `fresh` windows of one scan change, by window end, and what is shown after them.

    Time has come to `reached`: windows that end by then and hold no object are answers too, without rows.
    """
    mine = before.of(np.array(plan.scans[number].places, np.int64))
    together = joined([mine, NewestAnswers(*fresh)])
    groups = np.zeros(together.ends.size, np.int64)
    if plan.groups[number]:
        firsts = together.rows[np.cumsum(together.counts) - together.counts]
        groups = group_rows(rows, plan.groups[number]).codes[firsts]
    windows = WindowRows(
        owners=together.queries * (int(groups.max(initial=0)) + 1) + groups,
        steps=steps_after(plan.queries, together.queries, together.ends),
        ends=together.ends,
        known=(np.arange(together.ends.size) < mine.ends.size).astype(np.int64),
        counts=together.counts,
        rows=together.rows,
        ranks=together.ranks,
    )
    found = compare(windows, reached, rows.num_rows)
    asked = together.queries[found.windows]
    out = AnswerRows(asked, found.ends, found.rows, found.ranks, found.old_ranks, found.kinds)
    return out, together.chosen(found.last)
