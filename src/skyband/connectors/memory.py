"""In-memory sinks: all answers for the running program, or the newest for the dashboard and live views."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Literal

from pydantic import Field, PrivateAttr

from skyband.connectors.sink import SinkModel

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.sharding.delivery import Opening

__all__ = ["Board", "Memory", "MemorySink"]


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
    """Stores the newest answer of every query."""

    def __init__(self) -> None:
        self._newest: dict[str, pa.Table] = {}
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
                self._newest[query] = newest

    def newest(self, query: str) -> pa.Table | None:
        """Return the rows of a query's newest window; None before the first."""
        with self._lock:
            return self._newest.get(query)


def _joined(tables: list[pa.Table]) -> pa.Table | None:
    import pyarrow as pa

    return pa.concat_tables(tables) if tables else None
