"""One shard: the rows that future answers may need, and the answers that have become final.

A shard stores only rows. When rows arrive or time advances, engines process the stored rows in stream order, answer the
windows that have ended, and report which rows later windows need. The other rows are dropped. Therefore the state does
not depend on the algorithm, and the workload may change between steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.data.answer_log import RankedWindows, chosen
from skyband.data.arrow import from_bytes, one, to_bytes
from skyband.data.window_bounds import all_sliding, last_ends, starts_of
from skyband.errors import InvalidInputError, SnapshotError
from skyband.kernels.stream import Ints
from skyband.queries.windowed import refuse_past_landmark
from skyband.session_windows import SessionWindows
from skyband.sharding.open_windows import open_until
from skyband.sharding.rows import group_rows, ids_in, positions_of, scores_of, stream_order
from skyband.sharding.shard import Segments, Shard, Tally
from skyband.snapshot import StateFormat, unchanged
from skyband.topk.algorithms import engine_named
from skyband.topk.emitted_windows import EmittedWindows, OpenAnswers, corrected
from skyband.topk.numbering import Numbering
from skyband.topk.past_rows import united
from skyband.topk.plan import Scan, TopKPlan, scans_of
from skyband.topk.query import TopK, topk_from
from skyband.topk.reducer import TopKNote
from skyband.topk.row_order import entities_of, keys_of
from skyband.topk.sessions import is_session, rank_sessions
from skyband.topk.shard_answers import AnsweredWindows, NewestAnswers, answered, changed, joined, listed, tables
from skyband.topk.stored_rows import rearranged, refuse_other_rows
from skyband.topk.window_ranking import Lined, Ranking, rank_rows
from skyband.windows import ALWAYS, NEVER

__all__ = ["SHARD", "TopKShard"]


class TopKShard(Shard):
    """The state of some groups, or of some scans without groups."""

    plan: TopKPlan
    state_format = StateFormat("topk shard", [unchanged])
    note_type = TopKNote
    takes_past = True
    corrects_itself = True

    def __init__(self, plan: TopKPlan, number: int, segments: Segments | None = None) -> None:
        super().__init__(plan, number, segments)
        self.rows: Any = None  # in arbitrary order; None: no row has arrived yet
        self.firsts: dict[str, int] = {}  # by scan: position of the first object, or one with the same full windows
        self.shown = NewestAnswers.nothing()  # for a change feed: the answers that the next ones are compared with
        self.numbering = Numbering(plan) if plan.axis == "count" else None
        self.session_starts: dict[str, int] = {}  # by scan of sessions that joined later: its first row can be here
        self._session_end: int | None = None  # the smallest end of an open session; None: not known
        self._engine = engine_named(plan.algorithm)
        self._open = OpenAnswers(plan.emission.every) if plan.emission.provisional else None
        self._known = 0  # with an allowed lateness: the number of rows before this step
        self._noted: set[str] = set()  # the scans of which the queries before noted the first object
        self._firsts_before: dict[str, int] = {}  # `firsts` before this step, if windows are emitted more than once

    def begin_queries(self, watermark: int | None) -> None:
        """Determine where new queries begin; a landmark that has passed is rejected, unless its past is read."""
        joining = [query for query in self.plan.queries if query.name in self.joining]
        super().begin_queries(watermark)
        for scan in self.plan.scans:
            if scan.session is not None and all(self.plan.queries[place] in joining for place in scan.places):
                self.session_starts[scan.identity] = max(
                    self.since.get(self.plan.queries[place].name, ALWAYS) for place in scan.places
                )
        for query in joining:
            if query.name not in self.past:
                refuse_past_landmark(query, self.since.get(query.name, ALWAYS))
        self._begin_full_windows([query for query in joining if query.full_only and query.name not in self.past])

    def _begin_full_windows(self, joining: Sequence[TopK]) -> None:
        """Let these queries report the windows that start after all rows before: the stream has begun for them.

        Which rows before were objects of theirs is unknown, unless a query with the same objects noted the first one.
        """
        for scan in self.plan.scans:
            begins = [
                self.since[one.name]
                for one in map(self.plan.queries.__getitem__, scan.places)
                if one in joining and one.name in self.since
            ]
            if begins and scan.identity not in self._noted:
                self.firsts[scan.identity] = min(*begins, self.firsts.get(scan.identity, NEVER))

    def accept(self, arrived: Sequence[pa.Table], notes: Sequence[TopKNote], limit: int) -> int:
        """Add rows that are not late, and return the number of late rows from the notes."""
        late = 0
        if not self.plan.emission.is_once:
            self._known, self._firsts_before = 0 if self.rows is None else self.rows.num_rows, dict(self.firsts)
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
        self._session_end = None
        out: list[pa.Table] = []
        shown: list[NewestAnswers] = []
        windows, last = 0, ALWAYS
        kept = np.zeros(self.rows.num_rows, bool)
        needed: dict[int, Ints] = {}
        answers_open = self._answers_open
        for number, scan in enumerate(self.plan.scans):
            if scan.session is not None:
                found, order, needed[number] = self._rank_sessions(number, scan, scan.session, before)
                kept[needed[number]] = True
                emitted = [EmittedWindows(found, order)]
            else:
                emitted = self._rank(number, scan, before, kept, answers_open=answers_open)
            for one_kind in emitted:
                fresh = answered(self.plan, number, one_kind.windows, one_kind.order)
                if one_kind.is_first:
                    windows += fresh.ends.size
                    last = max(last, int(fresh.ends.max(initial=ALWAYS)))
                    out += self._written(number, fresh, shown)
                else:
                    again = listed(self.plan, fresh)
                    out += tables(self.plan, number, self.rows, again, final=one_kind.final, revision=one_kind.revision)
        held = int(kept.sum())
        self._release_rows(needed)
        self._keep(kept, joined(shown))
        if self._open is not None:
            self._open.keep(kept, self.newest, self.firsts, are_answered=answers_open)
        rows = [table for table in out if self.plan.output != "both" or table["change"].null_count]
        return out, Tally(windows=windows, answers=sum(map(len, rows)), candidates=held, last_end=last)

    @property
    def _answers_open(self) -> bool:
        """Whether this step answers open windows."""
        return self.answers_open and self._open is not None and self._open.are_due(self.newest)

    def take_past(self, past: TopKShard, reported_from: Mapping[str, int]) -> None:
        """Add the rows that joining queries would hold if they had been there from the start."""
        self.rows = united(self.plan, self.rows, past.rows)
        self._session_end = None
        for identity, at in past.firsts.items():
            self.firsts[identity] = min(self.firsts.get(identity, NEVER), at)
        for scan in self.plan.scans:
            if any(self.plan.queries[place].name in reported_from for place in scan.places):
                self.session_starts.pop(scan.identity, None)  # all rows of these sessions are known
        self.since |= reported_from

    def _written(self, number: int, fresh: AnsweredWindows, shown: list[NewestAnswers]) -> list[pa.Table]:
        """Return the output for the windows that a scan has just answered, and add its newest answers to `shown`."""
        out = [] if self.plan.output == "changes" else tables(self.plan, number, self.rows, listed(self.plan, fresh))
        if self.plan.output != "answers":
            scan, now = changed(self.plan, number, self.rows, self.shown, fresh, self.reached)
            shown.append(now)
            out += tables(self.plan, number, self.rows, scan)
        return out

    def _rank_sessions(
        self, number: int, scan: Scan, window: SessionWindows, before: int
    ) -> tuple[RankedWindows, Ints, Ints]:
        """Rank the sessions of a scan; return the final ones, the row order, and the rows that the others need."""
        scores = scores_of(self.rows, self.plan.scores[number])
        scores = keys_of(self.plan, number, self.rows, scores, positions_of(self.rows, self.plan.time))
        entities = entities_of(self.plan, number, self.rows)
        mine = np.flatnonzero(~np.isnan(scores))
        table = self.rows.select([self.plan.time, self.plan.id, *self.plan.groups[number]]).take(pa.array(mine))
        grouping = group_rows(table, self.plan.groups[number])
        positions = positions_of(table, self.plan.time)
        order, begins = stream_order(positions, grouping, ids_in(table, self.plan.id))
        lined = Lined(scores[mine[order]], positions[order], begins)
        lined = lined if entities is None else lined._replace(entities=entities[mine[order]])
        groups = begins.size - 1
        found = rank_sessions(
            window,
            [self.plan.queries[place] for place in scan.places],
            lined,
            np.full(groups, before),
            np.full(groups, self.clock),
            since=self.session_starts.get(scan.identity, ALWAYS),
        )
        since = [self.since.get(self.plan.queries[place].name, ALWAYS) for place in scan.places]
        reported = found.windows.starts >= np.array(since, np.int64)[found.windows.queries]
        self._session_end = min(NEVER if self._session_end is None else self._session_end, found.next_end)
        return chosen(found.windows, reported), mine[order], mine[order[found.needed]]

    def _release_rows(self, needed: Mapping[int, Ints]) -> None:
        """Remove the scores of rows that sessions do not need any more, and that other scans may still need."""
        if len(self.plan.scans) == 1:
            return
        for number, rows in needed.items():
            name, mask = self.plan.scores[number], np.ones(self.rows.num_rows, bool)
            mask[rows] = False
            left = pa.array(one(self.rows[name]).to_numpy(zero_copy_only=False), pa.float64(), mask=mask)
            self.rows = self.rows.set_column(self.rows.schema.get_field_index(name), name, left)

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
        others = (query.window for query in self.plan.queries if not is_session(query))
        end = min((window.first_end_after(oldest) for window in others), default=NEVER)
        if any(scan.session for scan in self.plan.scans):
            end = min(end, self._next_session_end())
        return None if end == NEVER else end

    def _next_session_end(self) -> int:
        if self._session_end is None:
            for number, scan in enumerate(self.plan.scans):
                if scan.session is not None:
                    self._rank_sessions(number, scan, scan.session, self.clock)
        return NEVER if self._session_end is None else self._session_end

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

    def _rank(self, number: int, scan: Scan, before: int, kept: Any, *, answers_open: bool) -> list[EmittedWindows]:
        """Rank one scan's rows; mark in `kept` those it still needs; return the windows to emit, final ones first."""
        scores = scores_of(self.rows, self.plan.scores[number])
        scores = keys_of(self.plan, number, self.rows, scores, positions_of(self.rows, self.plan.time))
        entities = entities_of(self.plan, number, self.rows)
        mine = np.flatnonzero(~np.isnan(scores))
        table = self.rows.select([self.plan.time, self.plan.id, *self.plan.groups[number]])
        table = table.take(pa.array(mine)) if mine.size < scores.size else table
        grouping = group_rows(table, self.plan.groups[number])
        queries = [self.plan.queries[place] for place in scan.places]
        if self.numbering is None:
            positions = positions_of(table, self.plan.time)
            order, begins = stream_order(positions, grouping, ids_in(table, self.plan.id))
            lined = Lined(scores[mine[order]], positions[order], begins)
            lined = lined if entities is None else lined._replace(entities=entities[mine[order]])
            answered = np.full(begins.size - 1, self.settled if self.plan.emission.lateness else before)
            final = np.full(begins.size - 1, self.clock)
            order = mine[order]
        else:
            self.rows, counted = self.numbering.number(self.rows, number, mine, table, grouping, self.clock, kept)
            lined = Lined(scores[counted.rows], counted.numbers, counted.begins)
            lined = lined if entities is None else lined._replace(entities=entities[counted.rows])
            answered, final, order = counted.answered, counted.seen, counted.rows
        until = final
        if answers_open:
            until = np.maximum(final, int(open_until(queries, self.newest).max()))
        found = rank_rows(self._engine, queries, lined, answered, until)
        if self.plan.emission.is_once:
            return [EmittedWindows(self._settle(found, queries, scan, final, order, kept), order)]
        return self._settle_often(found, queries, scan, before, order, kept, answers_open=answers_open)

    def _settle(
        self, found: Ranking, queries: list[TopK], scan: Scan, final: Ints, order: Ints, kept: Any
    ) -> RankedWindows:
        windows = found.windows
        owner = np.zeros_like(windows.ends) if final.size == 1 else windows.groups
        is_final = windows.ends <= final[owner]
        kept[order[windows.ids[np.repeat(~is_final, windows.counts)]]] = True
        kept[order[found.needed]] = True
        since = self._reported_starts(queries, self.firsts, scan)
        starts = starts_of(queries, windows.queries, windows.ends)
        reported = is_final & (starts >= since[windows.queries])
        if self.clock > self.reached and not all_sliding(queries):
            reported &= windows.ends <= last_ends(queries, self.newest)[windows.queries]
        return chosen(windows, reported)

    def _settle_often(
        self,
        found: Ranking,
        queries: list[TopK],
        scan: Scan,
        before: int,
        order: Ints,
        kept: Any,
        *,
        answers_open: bool,
    ) -> list[EmittedWindows]:
        """Like `_settle`, if windows are also emitted before they are final, or again afterwards."""
        windows, lateness = found.windows, self.plan.emission.lateness
        kept[order[windows.ids[np.repeat(windows.ends > self.clock - lateness, windows.counts)]]] = True
        kept[order[found.needed]] = True
        starts = starts_of(queries, windows.queries, windows.ends)
        reported = starts >= self._reported_starts(queries, self.firsts, scan)[windows.queries]
        if self.clock > self.reached and not all_sliding(queries):
            reported &= windows.ends <= last_ends(queries, self.newest)[windows.queries]
        windows, starts = chosen(windows, reported), starts[reported]
        fresh = chosen(windows, (windows.ends > before) & (windows.ends <= self.clock))
        emitted = [EmittedWindows(fresh, order)]
        if lateness:
            since = self._reported_starts(queries, self._firsts_before, scan)[windows.queries]
            again = corrected(windows, order, before, self._known, starts, since)
            emitted.append(EmittedWindows(again, order, revision=self.corrections))
        if answers_open and self._open is not None:
            since = self._reported_starts(queries, self._open.firsts, scan)[windows.queries]
            open_now = self._open.changed(windows, order, queries, self.clock, self.newest, starts < since)
            emitted.append(EmittedWindows(chosen(windows, open_now), order, final=False))
        return emitted

    def _reported_starts(self, queries: list[TopK], firsts: Mapping[str, int], scan: Scan) -> Ints:
        """The smallest window start that each query reports, if the stream's first objects are these."""
        first = 0 if self.plan.axis == "count" else firsts.get(scan.identity, ALWAYS)
        return np.array([self._reported_since(query, first) for query in queries], np.int64)

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
            **({"session_starts": self.session_starts} if self.session_starts else {}),
            **({} if self._open is None else {"open": self._open.state()}),
            **self.saved_emission(),
        }

    def load(self, saved: dict[str, Any]) -> None:
        """Continue from what `save` returned, under the same workload or a changed one."""
        refuse_other_rows(self.plan, saved)
        self.clock, self.newest, self.reached = saved["clock"], saved["newest"], saved["reached"]
        self.firsts = saved["firsts"]
        self.since = saved["since"]
        self.session_starts = saved.get("session_starts", {})
        self.load_emission(saved)
        if self._open is not None:
            self._open.load(saved.get("open"))
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
        self.rows = None if rows is None else rearranged(rows, self.plan, saved["scores"])

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
        self._noted = {
            scan.identity for scan in scans_of(before) if any(before[place].full_only for place in scan.places)
        }
        present = {query.name for query in self.plan.queries}
        self.since = {name: at for name, at in self.since.items() if name in present}
        self.session_starts = {name: at for name, at in self.session_starts.items() if name in old_scans}
        self.joining = [query.name for query in joined_now]
        for name in self.joining:
            self.since.pop(name, None)


SHARD = TopKShard
