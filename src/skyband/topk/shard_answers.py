"""Final windows as output rows: whole answers, or only the differences from the previous window.

Scores with a half-life are computed from the row and the end of a window, so the score in the previous window needs no
state besides its end.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.answer_log import RankedWindows
from skyband.data.arrow import one
from skyband.data.change_feed import CHANGES, UPDATED
from skyband.data.window_bounds import starts_of, steps_after
from skyband.data.window_comparison import WindowRows, compare, parts
from skyband.kernels import expand
from skyband.kernels.stream import Ints
from skyband.kernels.window_comparison import MOVED, NONE
from skyband.queries.answer_schema import OLD_SCORE
from skyband.sharding.rows import group_rows
from skyband.topk.plan import TopKPlan
from skyband.topk.repeated_rows import OFTEN, RepeatedRows, kind_of, repeated, small_numbers, with_positive_zero
from skyband.topk.row_order import decayed_scores

__all__ = [
    "AnswerRows",
    "AnsweredWindows",
    "NewestAnswers",
    "answered",
    "changed",
    "joined",
    "listed",
    "tables",
]

SLICE = 1 << 18  # rows per output table; in a longer one, more rows are repeated


class AnsweredWindows(NamedTuple):
    """Windows of one scan, ordered by end, with their rows one after another, best first."""

    queries: Ints  # per window: index of the query in the workload
    ends: Ints  # per window
    counts: Ints  # per window: its number of rows
    rows: Ints  # per row of an answer: its index in the shard's table
    ranks: Ints  # per row of an answer
    starts: Ints  # per window


class AnswerRows(NamedTuple):
    """Output rows, in order. Windows that follow each other have consecutive numbers."""

    queries: Ints  # per window: index of the query in the workload
    starts: Ints  # per window
    ends: Ints  # per window
    windows: Ints  # number of the window
    rows: Ints  # index of the row in the shard's table
    ranks: Ints  # 0: none, because the row left
    old_ranks: Ints  # 0: none
    changes: Ints  # NONE, or one of CHANGES
    old_ends: Ints  # the end of the previous window, if the row was in it


def answered(plan: TopKPlan, number: int, found: RankedWindows, order: Ints) -> AnsweredWindows:
    """The windows that one of the plan's scans answers now, ordered by end; `order` maps an id to the row."""
    by_end = np.lexsort([found.groups, found.queries, found.ends])
    begins = np.cumsum(found.counts) - found.counts
    counts = found.counts[by_end]
    total = int(counts.sum())
    picked, keys, ranks = np.empty(total, np.int64), np.empty(total), np.empty(total, np.int64)
    expand.gather(by_end, begins, found.counts, found.keys, found.ids, keys, picked)
    places = np.array(plan.scans[number].places, np.int64)[found.queries[by_end]]
    tied = np.array([query.ties == "rank" for query in plan.queries], np.int64)
    expand.fill_tied_ranks(counts, keys, tied[places], ranks)
    ends = found.ends[by_end]
    starts = found.starts[by_end] if found.starts.size else starts_of(plan.queries, places, ends)
    return AnsweredWindows(places, ends, counts, order[picked], ranks, starts)


def listed(plan: TopKPlan, windows: AnsweredWindows) -> AnswerRows:
    """Every row of every window."""
    same = windows.rows.shape
    return AnswerRows(
        windows.queries,
        windows.starts,
        windows.ends,
        np.repeat(np.arange(windows.ends.size), windows.counts),
        windows.rows,
        windows.ranks,
        np.broadcast_to(np.int64(0), same),
        np.broadcast_to(np.int64(NONE), same),
        np.broadcast_to(np.int64(0), same),
    )


def tables(
    plan: TopKPlan, number: int, rows: pa.Table, out: AnswerRows, *, final: bool = True, revision: int = 0
) -> list[pa.Table]:
    """Output tables, one slice at a time; `rows` is the shard's table and `number` the scan's index.

    `final` and `revision` are the values of these columns, if the plan emits windows more than once.
    """
    chosen, names = RepeatedRows(rows), pa.array([query.name for query in plan.queries])
    slices = [slice(low, low + SLICE) for low in range(0, out.rows.size, SLICE)]
    marks = plan.emission.marks(final=final, revision=revision)
    return [_slice(plan, number, chosen, names, _part(out, some), marks) for some in slices]


def _part(out: AnswerRows, some: slice) -> AnswerRows:
    """Some of the rows, and their windows."""
    windows = out.windows[some]
    low, high = int(windows[0]), int(windows[-1]) + 1
    bounds = [column[low:high] for column in (out.queries, out.starts, out.ends)]
    rows = [column[some] for column in (out.rows, out.ranks, out.old_ranks, out.changes, out.old_ends)]
    return AnswerRows._make([*bounds, windows - low, *rows])


def _slice(
    plan: TopKPlan, number: int, chosen: RepeatedRows, names: pa.Array, out: AnswerRows, marks: dict[str, pa.Scalar]
) -> pa.Table:
    score = plan.scores[number]
    found = chosen.columns(out.rows, [plan.time, score, *plan.group_columns, *plan.returned])
    bound = kind_of(found[plan.time]) if plan.axis == "time" else pa.int64()
    of_windows = {
        "query": names.take(pa.array(out.queries)),
        "window_start": pa.array(out.starts).cast(bound),
        "window_end": pa.array(out.ends).cast(bound),
    }
    windows = repeated(of_windows, out.windows)
    columns: dict[str, pa.Array] = {"query": windows["query"]}
    for name in plan.group_columns:
        has_value = plan.has_group_value(number, name)
        columns[name] = found[name] if has_value else pa.nulls(out.rows.size, kind_of(found[name]))
    columns |= windows
    columns |= {name: pa.repeat(value, out.rows.size) for name, value in marks.items()}
    if plan.output != "answers":
        columns["change"] = pa.array(CHANGES.values()).take(pa.array(out.changes, mask=out.changes == NONE))
    columns["rank"] = _ranks(out.ranks)
    if plan.output != "answers":
        columns["old_rank"] = _ranks(out.old_ranks)
    half_life = _half_life(plan, number)
    if half_life is None:
        scores = with_positive_zero(found[score])
    else:
        ends = np.where(out.ranks > 0, out.ends[out.windows], out.old_ends)  # the last score of a row that left
        scores = _decayed(found[score], found[plan.time], ends, half_life)
    if plan.old_scores:
        was_in, before = out.old_ranks > 0, scores
        if half_life is not None:
            before = _decayed(found[score], found[plan.time], np.where(was_in, out.old_ends, ends), half_life)
        columns[OLD_SCORE.name] = pc.if_else(pa.array(was_in), plain_array(before), None)
    columns["score"] = scores
    for name in plan.returned:
        columns[name] = found[name]
    return pa.table(columns)


def plain_array(column: pa.Array) -> pa.Array:
    """Return a column without a dictionary."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _half_life(plan: TopKPlan, number: int) -> int | None:
    rule = plan.scans[number].rule
    return None if rule is None else rule.half_life_ticks


def _decayed(scores: pa.Array, times: pa.Array, ends: Ints, half_life: int) -> pa.Array:
    """Return the scores as of the ends of the rows' windows."""
    values = plain_array(scores).to_numpy(zero_copy_only=False)
    positions = plain_array(times).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return pa.array(decayed_scores(values, positions, ends, half_life))


def _ranks(ranks: Ints) -> pa.Array:
    highest = int(ranks.max(initial=0))
    if ranks.min(initial=1) == 0 or highest * OFTEN > ranks.size:
        return pa.array(ranks.astype(np.int32), mask=ranks == 0)
    return pa.DictionaryArray.from_arrays(
        small_numbers(ranks - 1, highest), pa.array(np.arange(1, highest + 1, dtype=np.int32))
    )


class NewestAnswers(NamedTuple):
    """The newest answer of every query and group; the next one is compared with it."""

    queries: Ints  # per window: index of the query in the workload
    ends: Ints
    counts: Ints
    rows: Ints  # per row of an answer: its index in the shard's table
    ranks: Ints

    @classmethod
    def nothing(cls) -> NewestAnswers:
        """The state before the first answer."""
        return cls(*(np.empty(0, np.int64) for _ in cls._fields))

    def of(self, places: Ints) -> NewestAnswers:
        """The answers of the queries at these indexes."""
        return self.chosen(np.flatnonzero(np.isin(self.queries, places)))

    def chosen(self, windows: Ints) -> NewestAnswers:
        """The answers of these windows, in this order."""
        rows, _ = parts(self.counts, windows)
        return NewestAnswers(
            self.queries[windows], self.ends[windows], self.counts[windows], self.rows[rows], self.ranks[rows]
        )

    def moved(self, kept: Any) -> NewestAnswers:
        """Adjust row indexes after the shard's table was filtered by the mask `kept`, which includes these rows."""
        return self._replace(rows=(np.cumsum(kept) - 1)[self.rows])

    def state(self, plan: TopKPlan) -> dict[str, Any]:
        """Return the answers with their query names, because the indexes may change before `load`."""
        return {**self._asdict(), "names": [query.name for query in plan.queries]}

    @classmethod
    def load(cls, saved: dict[str, Any], plan: TopKPlan, unchanged: set[str]) -> NewestAnswers:
        """Restore what `state` returned, for the queries that have not changed."""
        places = {query.name: place for place, query in enumerate(plan.queries) if query.name in unchanged}
        now = np.array([places.get(name, -1) for name in saved["names"]], np.int64)
        shown = cls(*(saved[name] for name in cls._fields))
        shown = shown._replace(queries=now[shown.queries] if shown.queries.size else shown.queries)
        return shown.of(np.array(sorted(places.values()), np.int64))


def joined(pieces: list[NewestAnswers]) -> NewestAnswers:
    """Concatenate the answers."""
    return NewestAnswers(*map(np.concatenate, zip(NewestAnswers.nothing(), *pieces, strict=True)))


def changed(
    plan: TopKPlan, number: int, rows: pa.Table, before: NewestAnswers, fresh: AnsweredWindows, reached: int
) -> tuple[AnswerRows, NewestAnswers]:
    """Return the changes by the `fresh` windows of one scan, ordered by end, and the newest answers after them.

    Windows that end at or before `reached` and contain no object are answers without rows.
    """
    mine = before.of(np.array(plan.scans[number].places, np.int64))
    together = joined([mine, NewestAnswers(*fresh[: len(NewestAnswers._fields)])])
    groups = np.zeros(together.ends.size, np.int64)
    if plan.groups[number]:
        firsts = together.rows[np.cumsum(together.counts) - together.counts]
        groups = group_rows(rows, plan.groups[number]).codes[firsts]
    ranks, half_life = together.ranks, _half_life(plan, number)
    highest = int(ranks.max(initial=0)) + 1
    if half_life is not None:  # ranks and scores are compared together, as one number
        score, at = (one(rows[name]).take(pa.array(together.rows)) for name in (plan.scores[number], plan.time))
        scores = _decayed(score, at, np.repeat(together.ends, together.counts), half_life).to_numpy()
        ranks = ranks + highest * np.unique(scores, return_inverse=True)[1]
    windows = WindowRows(
        owners=together.queries * (int(groups.max(initial=0)) + 1) + groups,
        steps=steps_after(plan.queries, together.queries, together.ends),
        ends=together.ends,
        known=(np.arange(together.ends.size) < mine.ends.size).astype(np.int64),
        counts=together.counts,
        rows=together.rows,
        ranks=ranks,
    )
    found = compare(windows, reached, rows.num_rows, with_before=plan.old_scores or half_life is not None)
    asked = together.queries[found.windows]
    begins = np.ones(asked.size, bool)
    begins[1:] = (asked[1:] != asked[:-1]) | (found.ends[1:] != found.ends[:-1])
    asked, ends = asked[begins], found.ends[begins]
    starts, windows_of = starts_of(plan.queries, asked, ends), np.cumsum(begins) - 1
    ranks, old_ranks, kinds = found.ranks, found.old_ranks, found.kinds
    if half_life is not None:
        ranks, old_ranks = ranks % highest, old_ranks % highest
        kinds = np.where((kinds == MOVED) & (ranks == old_ranks), UPDATED, kinds)
    old_ends = np.broadcast_to(np.int64(0), ranks.shape)
    if found.before is not None and together.ends.size:
        old_ends = np.where(old_ranks > 0, together.ends[found.before], 0)
    out = AnswerRows(asked, starts, ends, windows_of, found.rows, ranks, old_ranks, kinds, old_ends)
    return out, together.chosen(found.last)
