"""In-memory sinks: all answers for the running program, or the newest for the dashboard and live views."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from pydantic import Field, PrivateAttr

from skyband.connectors.sink import SinkModel

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.sharding.delivery import Opening

__all__ = ["Board", "Memory", "MemorySink"]

MOST_HELD = 500_000  # rows of a query that may still be in its last full window


class MemorySink(SinkModel):
    """Stores answers in memory, for the program that runs the stream.

    Examples
    --------
    >>> import skyband as sb
    >>> kept = sb.sinks.Memory()
    >>> handle = start(trades, big, sinks=[kept], time="ts", checkpoint="state", bounded=True)  # doctest: +SKIP
    >>> kept.table()  # doctest: +SKIP
    """

    type: Literal["memory"] = Field(
        default="memory", description="stored in memory, for the program that runs the file"
    )
    _opened: list[Memory] = PrivateAttr(default_factory=list)

    def open(self, opening: Opening) -> Memory:
        """Return a new in-memory writer for the stream."""
        self._opened.append(memory := Memory())
        return memory

    def table(self) -> pa.Table | None:
        """Return all answers so far; None before the first."""
        tables = [table for memory in self._opened if (table := memory.table()) is not None]
        return _joined(tables)


class Memory:
    """Stores all answers of a stream."""

    def __init__(self) -> None:
        self._batches: dict[int, pa.Table] = {}
        self._lock = threading.Lock()

    def take(self, batch: int, rows: pa.Table) -> None:
        """Store the answers of a micro-batch."""
        with self._lock:
            self._batches[batch] = rows

    def table(self) -> pa.Table | None:
        """Return all answers so far; None before the first batch."""
        with self._lock:
            tables = [self._batches[batch] for batch in sorted(self._batches)]
        return _joined(tables)


class Board:
    """Stores the newest answer of every query; with `last_full`, also the newest window that the input fills.

    `groups` are the group columns of the queries, if windows are answered before they end: an answer then contains only
    the groups that have changed. The input of a bounded run ends in the newest window, so that window and those that
    overlap it may have too few rows. The last full window is the newest one that ends before the newest window starts.
    """

    def __init__(self, *, last_full: bool = False, groups: Mapping[str, tuple[str, ...]] | None = None) -> None:
        self._groups = groups or {}
        self._newest: dict[str, pa.Table] = {}
        self._held: dict[str, pa.Table] | None = {} if last_full else None
        self._lock = threading.Lock()

    def take(self, batch: int, rows: pa.Table) -> None:
        """Store the rows of each query's newest window, of all groups with rows in that window."""
        import pyarrow.compute as pc

        from skyband.data.wide_timestamps import with_far_times_as_text
        from skyband.queries.answer_schema import moment_of

        rows = with_far_times_as_text(rows)
        moments = rows[moment_of(rows.column_names)]
        for query in rows["query"].unique().to_pylist():
            mine = pc.equal(rows["query"], query)
            newest = rows.filter(pc.and_(mine, pc.equal(moments, pc.max(moments.filter(mine)))))
            with self._lock:
                newest = self._newest[query] = self._merged(query, newest)
                if self._held is not None:
                    self._hold(query, rows.filter(mine), newest)

    def _merged(self, query: str, newest: pa.Table) -> pa.Table:
        """Return the newest window if windows are answered before they end: those groups first that have changed."""
        import pyarrow as pa
        import pyarrow.compute as pc

        from skyband.connectors.row_identity import GROUP, ends_of, with_places
        from skyband.sharding.emission import marks_in

        before = self._newest.get(query)
        if before is None or not marks_in(newest.column_names) or before.column_names != newest.column_names:
            return newest
        if ends_of(before)[0] != ends_of(newest)[0]:
            return newest if ends_of(before)[0] < ends_of(newest)[0] else before
        groups = {query: self._groups.get(query, ())}
        own, old = (with_places(rows, groups)[GROUP] for rows in (newest, before))
        return pa.concat_tables([newest, before.filter(pc.invert(pc.is_in(old, own.combine_chunks())))])

    def newest(self, query: str) -> pa.Table | None:
        """Return the rows of a query's newest window; None before the first."""
        with self._lock:
            return self._newest.get(query)

    def last_full(self, query: str) -> pa.Table | None:
        """Return the rows of the last full window; None if there is none, or if it is not known."""
        with self._lock:
            return None if self._held is None else _last_before(self._held.get(query), self._newest.get(query))

    def _hold(self, query: str, rows: pa.Table, newest: pa.Table) -> None:
        """Hold the windows that can still become the last full one."""
        import pyarrow as pa
        import pyarrow.compute as pc

        assert self._held is not None
        if "window_start" not in rows.column_names or rows["window_end"].type != rows["window_start"].type:
            return
        before = self._held.get(query)
        if before is not None:
            rows = pa.concat_tables([before, rows], promote_options="permissive")
        full = _last_before(rows, newest)
        if full is not None:
            rows = rows.filter(pc.greater_equal(rows["window_end"], full["window_end"][0]))
        self._held[query] = rows if rows.num_rows <= MOST_HELD else newest


def _last_before(rows: pa.Table | None, newest: pa.Table | None) -> pa.Table | None:
    """Return the newest window that ends before the newest window starts."""
    import pyarrow.compute as pc

    if rows is None or newest is None or not newest.num_rows or not newest["window_start"][0].is_valid:
        return None
    earlier = rows.filter(pc.less_equal(rows["window_end"], newest["window_start"][0]))
    if not earlier.num_rows:
        return None
    return earlier.filter(pc.equal(earlier["window_end"], pc.max(earlier["window_end"])))


def _joined(tables: list[pa.Table]) -> pa.Table | None:
    import pyarrow as pa

    return pa.concat_tables(tables) if tables else None
