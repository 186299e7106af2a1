"""One shard: the rows that future answers may need, and the answers that have become final.

A shard stores only rows. When rows arrive or time advances, engines process the stored rows in stream order, answer the
windows that have ended, and report which rows later windows need. The other rows are dropped. Therefore the state does
not depend on the algorithm, and the workload may change between steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.data.answer_log import RankedWindows, chosen
from skyband.data.arrow import from_bytes, one, to_bytes
from skyband.errors import InvalidInputError, SnapshotError
from skyband.kernels.stream import Ints
from skyband.sharding.plan import COPY, without_copies
from skyband.sharding.rows import group_rows, ids_in, positions_of, scores_of, stream_order
from skyband.sharding.shard import Segments, Shard, Tally
from skyband.snapshot import StateFormat, unchanged
from skyband.topk.admission import refuse_past_landmark
from skyband.topk.algorithms import engine_named
from skyband.topk.numbering import Numbering, number_column
from skyband.topk.plan import Scan, TopKPlan, scans_of
from skyband.topk.query import TopK, topk_from
from skyband.topk.reducer import TopKNote
from skyband.topk.shard_answers import AnsweredWindows, NewestAnswers, answered, changed, joined, listed, tables
from skyband.topk.window_bounds import all_sliding, last_ends, starts_of
from skyband.topk.window_ranking import Lined, Ranking, rank_rows
from skyband.windows import ALWAYS, NEVER

__all__ = ["SHARD", "TopKShard"]


class TopKShard(Shard):
    """The state of some groups, or of some scans without groups."""

    plan: TopKPlan
    state_format = StateFormat("topk shard", [unchanged])
    note_type = TopKNote

    def __init__(self, plan: TopKPlan, number: int, segments: Segments | None = None) -> None:
        super().__init__(plan, number, segments)
        self.rows: Any = None  # in arbitrary order; None: no row has arrived yet
        self.firsts: dict[str, int] = {}  # by scan: position of the first object, or one with the same full windows
        self.shown = NewestAnswers.nothing()  # for a change feed: the answers that the next ones are compared with
        self.numbering = Numbering(plan) if plan.axis == "count" else None
        self._engine = engine_named(plan.algorithm)

    def begin_queries(self, watermark: int | None) -> None:
        """Determine where new queries begin; a landmark that has passed is rejected."""
        joining = [query for query in self.plan.queries if query.name in self.joining]
        super().begin_queries(watermark)
        for query in joining:
            refuse_past_landmark(query, self.since.get(query.name, ALWAYS))

    def accept(self, arrived: Sequence[pa.Table], notes: Sequence[TopKNote], limit: int) -> int:
        """Add rows that are not late, and return the number of late rows from the notes."""
        late = 0
        for note in notes:
            late += note.histogram.before(limit) if note.histogram else 0
            if not self.plan.may_be_late and note.oldest < limit:
                raise InvalidInputError(
                    f"a row at {note.oldest} is behind the watermark {limit} (microseconds), and "
                    "late='refuse'. Rows "  # words: allow
                    "of earlier windows have already been dropped, so answers would be wrong. Use late='count' or a "
                    "longer watermark."
                )
            for identity, cells in note.firsts.items():
                timely = cells[np.searchsorted(cells, limit) :]
                if timely.size:
                    self.firsts[identity] = min(self.firsts.get(identity, NEVER), int(timely[0]))
        if arrived:
            self._take_in(pa.concat_tables(arrived, promote_options="default"), limit)
        return late

    def advance(self, before: int) -> tuple[list[pa.Table], Tally]:
        """Rank the stored rows, answer the windows that have ended, and drop rows that no later window needs."""
        if self.rows is None:
            return [], Tally()
        out: list[pa.Table] = []
        shown: list[NewestAnswers] = []
        windows, last = 0, ALWAYS
        kept = np.zeros(self.rows.num_rows, bool)
        for number, scan in enumerate(self.plan.scans):
            found, order = self._rank(number, scan, before, kept)
            fresh = answered(self.plan, number, found, order)
            windows += fresh.ends.size
            last = max(last, int(fresh.ends.max(initial=ALWAYS)))
            out += self._written(number, fresh, shown)
        held = int(kept.sum())
        self._keep(kept, joined(shown))
        rows = [table for table in out if self.plan.output != "both" or table["change"].null_count]
        return out, Tally(windows=windows, answers=sum(map(len, rows)), candidates=held, last_end=last)

    def _written(self, number: int, fresh: AnsweredWindows, shown: list[NewestAnswers]) -> list[pa.Table]:
        """Return the output for the windows that a scan has just answered, and add its newest answers to `shown`."""
        out = [] if self.plan.output == "changes" else tables(self.plan, number, self.rows, listed(self.plan, fresh))
        if self.plan.output != "answers":
            scan, now = changed(self.plan, number, self.rows, self.shown, fresh, self.reached)
            shown.append(now)
            out += tables(self.plan, number, self.rows, scan)
        return out

    def _keep(self, kept: Any, shown: NewestAnswers) -> None:
        """Drop rows that neither a future window nor the change feed needs."""
        kept[shown.rows] = True
        if not kept.all():
            self.rows, shown = self.rows.filter(pa.array(kept)), shown.moved(kept)
        self.shown = shown

    @property
    def next_end(self) -> int | None:
        """The end of the next window that contains a row; None if there is none, or only new rows can end it."""
        if self.rows is None or not self.rows.num_rows:
            return None
        positions = positions_of(self.rows, self.plan.time)
        if self.plan.axis == "count":
            waiting = positions[positions >= self.clock]
            return int(waiting.min()) + 1 if waiting.size else None
        oldest = max(int(positions.min()), self.clock)
        end = min(query.window.first_end_after(oldest) for query in self.plan.queries)
        return None if end == NEVER else end

    def _take_in(self, table: pa.Table, limit: int) -> None:
        positions = positions_of(table, self.plan.time)
        if (positions < limit).any():
            table = table.filter(pa.array(positions >= limit))
        self.newest = max(self.newest, int(positions.max()))
        if self.numbering is not None:
            table = self.numbering.unnumbered(table)
        if self.rows is not None:
            table = pa.concat_tables([self.rows, table.select(self.rows.column_names)], promote_options="default")
        self.rows = table

    def _rank(self, number: int, scan: Scan, before: int, kept: Any) -> tuple[RankedWindows, Ints]:
        """Rank one scan's rows; mark in `kept` those it still needs; return the final windows and the row order."""
        scores = scores_of(self.rows, self.plan.scores[number])
        mine = np.flatnonzero(~np.isnan(scores))
        table = self.rows.select([self.plan.time, self.plan.id, *self.plan.groups[number]])
        table = table.take(pa.array(mine)) if mine.size < scores.size else table
        grouping = group_rows(table, self.plan.groups[number])
        queries = [self.plan.queries[place] for place in scan.places]
        if self.numbering is None:
            positions = positions_of(table, self.plan.time)
            order, begins = stream_order(positions, grouping, ids_in(table, self.plan.id))
            lined = Lined(scores[mine[order]], positions[order], begins)
            answered = np.full(begins.size - 1, before)
            final = np.full(begins.size - 1, self.clock)
            order = mine[order]
        else:
            self.rows, counted = self.numbering.number(self.rows, number, mine, table, grouping, self.clock, kept)
            lined = Lined(scores[counted.rows], counted.numbers, counted.begins)
            answered, final, order = counted.answered, counted.seen, counted.rows
        found = rank_rows(self._engine, queries, lined, answered, final)
        return self._settle(found, queries, scan, final, order, kept), order

    def _settle(
        self, found: Ranking, queries: list[TopK], scan: Scan, final: Ints, order: Ints, kept: Any
    ) -> RankedWindows:
        windows = found.windows
        owner = np.zeros_like(windows.ends) if final.size == 1 else windows.groups
        is_final = windows.ends <= final[owner]
        kept[order[windows.ids[np.repeat(~is_final, windows.counts)]]] = True
        kept[order[found.needed]] = True
        first = 0 if self.plan.axis == "count" else self.firsts.get(scan.identity, ALWAYS)
        since = np.array([self._reported_since(query, first) for query in queries], np.int64)
        starts = starts_of(queries, windows.queries, windows.ends)
        reported = is_final & (starts >= since[windows.queries])
        if self.clock > self.reached and not all_sliding(queries):
            reported &= windows.ends <= last_ends(queries, self.newest)[windows.queries]
        return chosen(windows, reported)

    def _reported_since(self, query: TopK, first: int) -> int:
        """The smallest window start that the query reports."""
        joined_at = self.since.get(query.name, ALWAYS)
        return max(joined_at, first) if query.full_only else joined_at

    def save(self) -> dict[str, Any]:
        """Return the state for `load`."""
        return {
            "queries": self.plan.query_fields,
            "columns": list(self.plan.columns),
            "time": self.plan.time,
            "id": self.plan.id,
            "shards": self.plan.shards,
            "scores": {scan.identity: name for scan, name in zip(self.plan.scans, self.plan.scores, strict=True)},
            "clock": self.clock,
            "newest": self.newest,
            "reached": self.reached,
            "shown": self.shown.state(self.plan),
            "firsts": self.firsts,
            "since": self.since,
            "numbering": None if self.numbering is None else self.numbering.state(),
            "rows": None if self.rows is None else to_bytes(self.rows),
        }

    def load(self, saved: dict[str, Any]) -> None:
        """Continue from what `save` returned, under the same workload or a changed one."""
        _refuse_other_rows(self.plan, saved)
        self.clock, self.newest, self.reached = saved["clock"], saved["newest"], saved["reached"]
        self.firsts = saved["firsts"]
        self.since = saved["since"]
        rows = None if saved["rows"] is None else from_bytes(saved["rows"])
        before = self.plan.queries
        # Usually the queries are the same. To parse thousands of them would take longer than the rest of a step.
        if saved["queries"] != self.plan.query_fields:
            before = tuple(topk_from(fields) for fields in saved["queries"])
        if before != self.plan.queries:
            self._switch_queries(before)
        if self.plan.output != "answers":
            same = {query.name for query in self.plan.queries if query in before}
            self.shown = NewestAnswers.load(saved["shown"], self.plan, same)
        if self.numbering is not None:
            self.numbering.load(saved["numbering"])
        self.rows = None if rows is None else _rearranged(rows, self.plan, saved["scores"])

    def _switch_queries(self, before: tuple[TopK, ...]) -> None:
        """Switch to other queries than those the rows were stored for."""
        known = {query.name: query for query in before}
        if self.plan.axis != before[0].axis:
            raise SnapshotError(
                f"the checkpoint belongs to a workload with {before[0].axis} windows, but this workload has "
                f"{self.plan.axis} windows, so the stored rows cannot be used. Start with a new checkpoint."
            )
        joined_now = [query for query in self.plan.queries if known.get(query.name) != query]
        if joined_now and self.plan.axis == "count":
            raise SnapshotError(
                f"query {joined_now[0].name!r} is not in this checkpoint. Earlier rows were not counted for it, so its "
                "count windows would be wrong. Remove the query, or start with a new checkpoint."
            )
        old_scans = {scan.identity for scan in scans_of(before)}
        self.firsts = {name: at for name, at in self.firsts.items() if name in old_scans}
        present = {query.name for query in self.plan.queries}
        self.since = {name: at for name, at in self.since.items() if name in present}
        self.joining = [query.name for query in joined_now]
        for name in self.joining:
            self.since.pop(name, None)


SHARD = TopKShard


def _refuse_other_rows(plan: TopKPlan, saved: dict[str, Any]) -> None:
    for what, old, new in (
        ("columns", without_copies(saved["columns"]), without_copies(plan.columns)),
        ("time", saved["time"], plan.time),
        ("id", saved["id"], plan.id),
        ("shards", saved["shards"], plan.shards),
    ):
        if old != new:
            raise SnapshotError(
                f"the checkpoint was written with {what}={old!r}, but the stream was started with {what}={new!r}, so "
                f"the stored rows do not fit. Use {what}={old!r}, or start with a new checkpoint."
            )


def _rearranged(rows: pa.Table, plan: TopKPlan, old_scores: dict[str, str]) -> pa.Table:
    """Return the rows with the score columns of the plan's scans; for a new scan they are null."""
    scores = {
        new: one(rows[old_scores[scan.identity]]) if scan.identity in old_scores else pa.nulls(len(rows), pa.float64())
        for scan, new in zip(plan.scans, plan.scores, strict=True)
    }
    numbers = {number_column(scan) for scan in plan.scans} if plan.axis == "count" else set()
    known = {*plan.columns, *plan.group_columns, plan.time, plan.id, *numbers}
    rest = rows.select([name for name in rows.column_names if name in known])
    for name in plan.columns:
        if name not in rest.column_names:  # a copy of a column that is now a group column
            rest = rest.append_column(name, one(rows[name.removeprefix(COPY)]))
    for name in plan.group_columns:
        if name not in rest.column_names:  # only new scans are grouped by it, and none of these rows belongs to them
            rest = rest.append_column(name, pa.nulls(len(rows)))
    for name, column in scores.items():
        rest = rest.append_column(name, column)
    return rest
