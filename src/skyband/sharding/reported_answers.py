"""Change feeds of families whose shards' answers are merged: shards repeat what they reported, the merge compares.

A merge has no state. So a shard stores the newest answer of each of its queries and groups, and sends it again with the
next one. The merge ranks the repeated rows of all shards like new ones, and has the previous answer to compare with.

All shards with such rows must send them in the micro-batch in which some shard answers the next window. A shard is
therefore due at the next window end of each query whose rows it stores, even if none of its windows ends there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import one
from skyband.data.change_feed import ChangeFeed
from skyband.kernels.stream import Ints
from skyband.queries.answer_schema import CHANGE_COLUMNS, FINAL, OLD_SCORE, REVISION, moment_of
from skyband.queries.families import FAMILIES
from skyband.sharding.open_windows import places_of, restored_rows, split_by_state, stored_rows
from skyband.sharding.pipeline import in_shape
from skyband.sharding.plan import ShardPlan
from skyband.sharding.revisions import changed_windows, corrected, without_corrections
from skyband.sharding.rows import group_rows
from skyband.windows import ALWAYS, NEVER

__all__ = ["FIRST", "KNOWN", "REACHED", "ReportedAnswers", "compared", "first_rows", "wanted_rows", "windows_in"]

FIRST = "__skyband_first"  # whether a merged row is counted as a window

KNOWN = "__skyband_known"  # whether the row was sent before
REACHED = "__skyband_reached"  # the position that time has reached


class ReportedAnswers:
    """The newest answers of a shard, by query and group, as rows of its tables.

    `end` is the column with the window end; `groups` are the group columns. The column ``query`` has the queries' names
    or their places in the workload; the column ``place`` has places.
    """

    def __init__(self, plan: ShardPlan, end: str, groups: Sequence[str] = ()) -> None:
        self._plan, self._end, self._groups = plan, end, list(groups)
        self._rows: pa.Table | None = None

    def join(self, fresh: list[pa.Table], before: int, clock: int, reached: int) -> list[pa.Table]:
        """Return the fresh answers, and the rows they are compared with; time has advanced from `before` to `clock`."""
        tables = [table for table in fresh if table.num_rows]
        known = 0 if self._rows is None else self._rows.num_rows
        pieces = tables if self._rows is None else [self._rows, *tables]
        if not pieces:
            return []
        table = pa.concat_tables(pieces, promote_options="default")
        is_known = np.arange(table.num_rows) < known
        places, ends = places_of(self._plan, table), self._ends(table)
        due = self._due(places, ends, is_known, before, clock)
        newest, steps = self._newest(table, places, ends)
        # The next window has no rows of this shard. After a flush, rows wait until all shards send theirs.
        followed = due & (steps > 0) & (ends + steps <= reached)
        self._rows = table.filter(pa.array(newest & ~followed)).combine_chunks()
        table = table.append_column(KNOWN, pa.array(is_known))
        table = table.append_column(REACHED, pa.array(np.full(table.num_rows, reached)))
        sent = table.filter(pa.array(due))
        return [sent] if sent.num_rows else []

    def _due(self, places: Ints, ends: Ints, is_known: Any, before: int, clock: int) -> Any:
        """Which rows are sent: fresh ones, and those of queries with fresh answers or with a window that has ended."""
        fresh = set(np.unique(places[~is_known]).tolist())
        due = ~is_known
        for place in np.unique(places[is_known]).tolist():
            mine = is_known & (places == place)
            if place in fresh or self._has_ended(place, int(ends[mine].max()), before, clock):
                due |= mine
        return due

    def _has_ended(self, place: int, newest: int, before: int, clock: int) -> bool:
        """Whether a window of the query has ended since the step before."""
        query = self._plan.queries[place]
        if query.axis == "count":
            return False
        if not self._plan.has_regular_answers:
            return bool(newest + query.window.slide <= clock)
        return bool(query.window.first_end_after(before) <= clock)

    def next_due(self, clock: int) -> int | None:
        """When rows must be sent again, even if no window of the shard has rows; None: never."""
        if self._rows is None or not self._rows.num_rows or self._plan.axis == "count":
            return None
        places, ends = places_of(self._plan, self._rows), self._ends(self._rows)
        found = NEVER
        for place in np.unique(places).tolist():
            window = self._plan.queries[place].window
            if self._plan.has_regular_answers:
                found = min(found, window.first_end_after(clock))
            else:
                found = min(found, max(clock, int(ends[places == place].min())) + window.slide)
        return None if found == NEVER else found

    def _newest(self, table: pa.Table, places: Ints, ends: Ints) -> tuple[Any, Ints]:
        """Which rows are of the newest window of their query and group, and the distance to the next window."""
        codes = [one(table[name]).dictionary_encode(null_encoding="encode").indices for name in self._groups]
        owners = places
        for column in codes:
            numbers = column.to_numpy(zero_copy_only=False).astype(np.int64)
            pairs = owners * (int(numbers.max(initial=0)) + 1) + numbers
            owners = np.unique(pairs, return_inverse=True)[1].reshape(-1).astype(np.int64)
        newest = np.full(int(owners.max(initial=-1)) + 1, ALWAYS)
        np.maximum.at(newest, owners, ends)
        steps = np.zeros(ends.size, np.int64)
        for place in np.unique(places).tolist() if self._plan.axis == "time" else ():
            window, mine = self._plan.queries[place].window, places == place
            if not self._plan.has_regular_answers:
                steps[mine] = window.slide
                continue
            some, at = np.unique(ends[mine], return_inverse=True)
            found = np.array([window.first_end_after(int(end)) - int(end) for end in some], np.int64)
            steps[mine] = found[at.reshape(-1)]
        return ends == newest[owners], steps

    def _ends(self, table: pa.Table) -> Ints:
        ends: Ints = one(table[self._end]).cast(pa.int64()).to_numpy(zero_copy_only=False)
        return ends

    def state(self) -> dict[str, Any] | None:
        """Return the rows with the names of the queries, whose places may change before `load`."""
        return stored_rows(self._plan, self._rows)

    def load(self, saved: dict[str, Any] | None, unchanged: Iterable[str], renamed: Callable[[str], str] = str) -> None:
        """Restore what `state` returned, for the queries that have not changed; columns may have another name now."""
        if saved is not None:
            self._rows = restored_rows(self._plan, saved, unchanged, renamed)


def wanted_rows(plan: ShardPlan, merged: pa.Table) -> pa.Table:
    """Return merged rows without the answers that serve only for counting."""
    if plan.output != "changes" or not plan.compares_merged:
        return merged
    return merged.filter(pc.is_valid(merged["change"]))


def windows_in(plan: ShardPlan, merged: Iterable[pa.Table]) -> int:
    """Count the windows of merged rows."""
    return sum(int(pc.sum(first_rows(plan, table)).as_py() or 0) for table in merged)


def first_rows(plan: ShardPlan, merged: pa.Table) -> pa.ChunkedArray | pa.Array:
    """Return which merged rows are counted, one for each window; not those of changes."""
    found = pc.equal(merged["rank"], 1)
    if plan.emission.provisional:
        found = pc.and_(found, merged[FINAL])
    if plan.emission.lateness:
        found = pc.and_(found, pc.equal(merged[REVISION], 0))
    if plan.output != "answers":
        found = pc.and_(found, pc.is_null(merged["change"]))
    if not plan.shares_ranks:
        return found
    best = np.flatnonzero(one(found).to_numpy(zero_copy_only=False))
    names = ["query", *getattr(plan, "group_columns", ()), FAMILIES[plan.family].answers.moment]
    windows = group_rows(merged.select(names).take(pa.array(best)), names).codes
    first = np.zeros(merged.num_rows, bool)
    first[best[np.unique(windows, return_index=True)[1]]] = True
    return pa.array(first)


def compared(
    plan: ShardPlan,
    queries: Sequence[Any],
    groups: Sequence[str],
    complete: Iterable[pa.Table],
    rank: Callable[[pa.Table, pa.Schema], pa.Table],
    kinds: pa.Schema,
) -> Iterator[pa.Table]:
    """Rank the answers of shards, which contain complete windows, and add the changes if the plan's output has them.

    `rank` merges rows of shards into answers with the columns of a schema. Answers have no `change`. They are returned
    even if only changes are wanted, because windows are counted by them; `wanted_rows` removes them. With an allowed
    lateness, windows follow whose answers late rows have changed.
    """
    if not plan.emission.lateness:
        yield from _compared(plan, queries, groups, complete, rank, kinds)
        return
    names = [name for name in kinds.names if name != REVISION]
    once, late = pa.schema([kinds.field(name) for name in names]), list[pa.Table]()
    for table in _compared(plan, queries, groups, without_corrections(complete, late), rank, once):
        first = pa.array(np.zeros(table.num_rows), pa.int32())
        yield in_shape(table.append_column(REVISION, first), kinds)
    plain, owners = _unmarked(plan, once), ["query", *groups, moment_of(names)]
    for table in late:
        yield _marked(corrected(table, rank, plain, owners), plan, kinds)


def _compared(
    plan: ShardPlan,
    queries: Sequence[Any],
    groups: Sequence[str],
    complete: Iterable[pa.Table],
    rank: Callable[[pa.Table, pa.Schema], pa.Table],
    kinds: pa.Schema,
) -> Iterator[pa.Table]:
    """Like `compared`, without corrections."""
    plain = _unmarked(plan, kinds)
    feed, reached = ChangeFeed.of_groups(queries, groups, old_scores=plan.old_scores), ALWAYS
    for table in complete:
        final, shown, so_far = split_by_state(table)
        if plan.output == "answers":
            if final.num_rows:
                yield _marked(rank(final, plain), plan, kinds)
        elif final.num_rows:
            reached = max(reached, int(pc.max(final[REACHED]).as_py()))
            known = final[KNOWN]
            before = rank(final.filter(known), plain) if pc.any(known).as_py() else plain.empty_table()
            after = final.filter(pc.invert(known))
            fresh = rank(after, plain) if after.num_rows else plain.empty_table()
            feed.recall(before, fresh)
            if fresh.num_rows:
                yield _marked(fresh, plan, kinds)
                yield _marked(feed.take(fresh), plan, kinds)
        if shown is not None and so_far is not None and so_far.num_rows:
            now = rank(so_far, plain)
            known_now = rank(shown, plain) if shown.num_rows else plain.empty_table()
            owners = ["query", *groups, moment_of(plain.names)]
            yield _marked(now.filter(pa.array(changed_windows(known_now, now, owners))), plan, kinds, final=False)
    if reached != ALWAYS:
        yield _marked(feed.take(plain.empty_table(), now=reached), plan, kinds)


def _unmarked(plan: ShardPlan, kinds: pa.Schema) -> pa.Schema:
    """Return the columns of ranked answers, without changes and without marks."""
    added = {column.name for column in (*CHANGE_COLUMNS, OLD_SCORE, *plan.emission.columns)}
    return pa.schema([field for field in kinds if field.name not in added])


def _marked(table: pa.Table, plan: ShardPlan, kinds: pa.Schema, *, final: bool = True) -> pa.Table:
    """Return merged rows with the columns of the schema, and with the one that says whether they are final."""
    if plan.emission.provisional:
        table = table.append_column(FINAL, pa.repeat(final, table.num_rows))
    return table if table.schema.equals(kinds) else in_shape(table, kinds)
