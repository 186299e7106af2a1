"""Provisional answers of families whose shards' answers are merged: shards rank open windows, the merge compares.

A merge has no state, and an open window is emitted only if its answer has changed. So a shard sends two answers of each
of its open windows: the one that it sent before, and the one from the rows so far. The merge ranks both, and emits the
windows in which they differ.

All shards receive the newest position of every micro-batch with rows, so they send the same open windows in the same
micro-batch. A shard that only its timer wakes, or a message, sends none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import from_bytes, one, to_bytes
from skyband.kernels.stream import Ints
from skyband.sharding.plan import ShardPlan
from skyband.windows import ALWAYS

__all__ = [
    "OpenWindows",
    "are_due",
    "open_until",
    "places_of",
    "restored_rows",
    "split_by_state",
    "stored_rows",
]

STATE = "__skyband_open"  # of the rows of a shard's answers; null or FINAL if the window is final
FINAL, BEFORE, SO_FAR = 0, 1, 2


def are_due(newest: int, answered: int, every: int) -> bool:
    """Return whether open windows are answered again at `newest`, if they were answered at `answered` before."""
    return newest > ALWAYS and (answered == ALWAYS or newest - answered >= every)


def open_until(queries: Sequence[Any], newest: int) -> Ints:
    """Return the end of the newest open window of each query.

    >>> import skyband as sb
    >>> queries = sb.TopK(k=1, size="1 minute"), sb.TopK(k=1, size="1 hour", slide="10 seconds")
    >>> open_until(queries, 61_000_000).tolist()
    [120000000, 70000000]
    """
    return np.array([query.window.first_end_after(newest) for query in queries], np.int64)


class OpenWindows:
    """The answers of a shard's open windows that it sent last, and when. `end` is the column with the window end."""

    def __init__(self, plan: ShardPlan, end: str) -> None:
        self._plan, self._end = plan, end
        self._newest = ALWAYS  # the newest position when open windows were answered
        self._rows: pa.Table | None = None

    def join(
        self, final: list[pa.Table], so_far: Callable[[], Iterable[pa.Table]], clock: int, newest: int
    ) -> list[pa.Table]:
        """Return the final answers, and both answers of the windows that end after `clock`, if they are due."""
        if not are_due(newest, self._newest, self._plan.emission.every):
            return final
        fresh = [table for table in so_far() if table.num_rows]
        now = pa.concat_tables(fresh, promote_options="default").combine_chunks() if fresh else None
        before, self._rows, self._newest = self._still_open(clock), now, newest
        sent = [
            table.append_column(STATE, pa.array(np.full(table.num_rows, state, np.int8)))
            for table, state in ((before, BEFORE), (now, SO_FAR))
            if table is not None and table.num_rows
        ]
        return [*final, pa.concat_tables(sent, promote_options="default").combine_chunks()] if sent else final

    def _still_open(self, clock: int) -> pa.Table | None:
        if self._rows is None:
            return None
        ends = one(self._rows[self._end]).cast(pa.int64())
        return self._rows.filter(pc.greater(ends, clock))

    def state(self) -> dict[str, Any]:
        """Return the state for `load`."""
        return {"newest": self._newest, "rows": stored_rows(self._plan, self._rows)}

    def load(self, saved: dict[str, Any] | None, unchanged: Iterable[str], renamed: Callable[[str], str] = str) -> None:
        """Continue from what `state` returned; the windows of other queries than `unchanged` are answered again."""
        if saved is not None:
            self._newest, self._rows = saved["newest"], restored_rows(self._plan, saved["rows"], unchanged, renamed)


def places_of(plan: ShardPlan, table: pa.Table) -> Ints:
    """Return the place of each row's query in the workload.

    The column ``query`` has the queries' names or their places in the workload; the column ``place`` has places.
    """
    column = one(table["place" if "place" in table.column_names else "query"])
    if not pa.types.is_integer(column.type):
        column = pc.index_in(column, pa.array([query.name for query in plan.queries], column.type))
    places: Ints = column.to_numpy(zero_copy_only=False).astype(np.int64)
    return places


def stored_rows(plan: ShardPlan, rows: pa.Table | None) -> dict[str, Any] | None:
    """Return rows of a shard's tables with the names of the queries, whose places may change before they are read."""
    return None if rows is None else {"rows": to_bytes(rows), "names": [query.name for query in plan.queries]}


def restored_rows(
    plan: ShardPlan, saved: dict[str, Any] | None, unchanged: Iterable[str], renamed: Callable[[str], str] = str
) -> pa.Table | None:
    """Return what `stored_rows` returned, for the queries that have not changed; columns may have another name now."""
    if saved is None:
        return None
    rows = from_bytes(saved["rows"])
    rows = rows.rename_columns([renamed(name) for name in rows.column_names])
    same = set(unchanged)
    places = {query.name: place for place, query in enumerate(plan.queries) if query.name in same}
    now = np.array([places.get(name, -1) for name in saved["names"]], np.int64)
    at = rows.schema.get_field_index("place" if "place" in rows.column_names else "query")
    kind = rows.schema.field(at).type
    if pa.types.is_integer(kind):
        numbers = now[one(rows.column(at)).to_numpy(zero_copy_only=False)]
        rows = rows.set_column(at, rows.schema.field(at).name, pa.array(numbers).cast(kind))
        rows = rows.filter(pa.array(numbers >= 0))
    else:
        rows = rows.filter(pc.is_in(rows["query"], pa.array(sorted(places), pa.string())))
    return rows.combine_chunks()


def split_by_state(table: pa.Table) -> tuple[pa.Table, pa.Table | None, pa.Table | None]:
    """Return the rows of final windows, and those of open ones: as they were sent before, and so far."""
    if STATE not in table.column_names:
        return table, None, None
    states = pc.fill_null(table[STATE], FINAL)
    table = table.drop_columns(STATE)
    final, before, now = (table.filter(pc.equal(states, state)) for state in (FINAL, BEFORE, SO_FAR))
    return final, before, now
