"""The history of answers: a bounded store of final windows, by query and group.

The answers of a micro-batch stay in Arrow columns, and a window is a slice of their rows. The limits are a number of
windows per query and group, and a number of bytes in total. The oldest windows are removed first. The newest window of
each query and group is retained if possible, because the page shows it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa

from skyband.dashboard.change_log import NewWindow
from skyband.dashboard.query_info import ADDED_COLUMNS, QueryInfo
from skyband.dashboard.window_spans import Line, WindowSpan
from skyband.dashboard.window_store import WindowStore
from skyband.dashboard.wire import Group
from skyband.data.wide_timestamps import with_far_times_as_text
from skyband.rate_limited_log import RateLimitedLog

__all__ = ["MOST_BYTES", "MOST_WINDOWS", "History", "Line", "WindowSpan"]

MOST_WINDOWS = 1000  # of a query and group
MOST_BYTES = 192 << 20
_QUIET = RateLimitedLog(logging.getLogger("skyband.dashboard"))


class FoundWindow(NamedTuple):
    """A window, the previous window, and the index of the window in its line."""

    line: Line
    window: WindowSpan
    before: WindowSpan | None
    place: int
    moments: list[int]


class _Pending(NamedTuple):
    """Answers not yet cut into windows, with the queries they belong to if given."""

    stream: str
    rows: pa.Table | None  # None: remove the answers
    queries: Mapping[str, QueryInfo] | None

    @property
    def bytes(self) -> int:
        """The size of the rows."""
        return 0 if self.rows is None else int(self.rows.nbytes)


class History:
    """Answers of all queries, within limits of windows and bytes. Thread-safe.

    Writers never wait for readers. `put` only stores the answers, and the next reader cuts them into windows with
    `settle`.
    """

    def __init__(self, *, most_windows: int = MOST_WINDOWS, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._store = WindowStore(most_windows, most_bytes)
        self._lock = threading.RLock()
        self._pending_lock = threading.Lock()  # for the pending answers; held only briefly
        self._waiting: dict[Hashable, _Pending] = {}
        self._waiting_bytes = 0
        self._infos: dict[str, QueryInfo] = {}
        self._taken: Mapping[str, QueryInfo] | None = None  # the queries last passed to put_all
        self._columns: dict[str, tuple[str, ...]] = {}  # of answers, by stream
        self._listeners: list[Callable[[], None]] = []

    @property
    def version(self) -> int:
        """The number of calls of `settle` that processed answers."""
        return self._store.version

    @property
    def shape(self) -> int:
        """A number that changes whenever the columns of a query change."""
        return self._store.shape

    @property
    def bytes(self) -> int:
        """The approximate size of the stored windows."""
        return self._store.bytes

    def set_queries(self, queries: Mapping[str, QueryInfo]) -> None:
        """Set the queries. Answers of removed queries stay until the limits remove them.

        If a different query reuses a name, the old answers under that name are dropped.
        """
        with self._lock:
            for name, one in queries.items():
                if name in self._store.queries and name in self._infos and one.is_other_than(self._infos[name]):
                    self._store.drop(name)
            self._infos.update(queries)

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Register a function to call, from any thread, when new answers arrive."""
        self._listeners.append(listener)

    def outlet(self, stream: str) -> _Outlet:
        """Return the outlet for a stream's answers."""
        return _Outlet(self, stream)

    def put(self, key: Hashable, stream: str, rows: pa.Table | None) -> None:
        """Store answers and replace earlier ones with the same key. None removes them."""
        self.put_all([(key, stream, rows)])

    def put_all(
        self, items: Iterable[tuple[Hashable, str, pa.Table | None]], queries: Mapping[str, QueryInfo] | None = None
    ) -> None:
        """Store several answers atomically.

        `queries` are the queries of these answers. It applies to these and later answers, not to earlier ones.
        """
        with self._pending_lock:
            for key, stream, rows in items:
                pending = _Pending(stream, rows, queries)
                before = self._waiting.pop(key, None)
                self._waiting_bytes += pending.bytes - (0 if before is None else before.bytes)
                self._waiting[key] = pending
                while self._waiting_bytes > self._most_bytes and self._waiting_bytes > pending.bytes:
                    self._drop_oldest_pending()
        self.wake()

    def wake(self) -> None:
        """Call all registered listeners."""
        for listener in list(self._listeners):
            listener()

    def _drop_oldest_pending(self) -> None:
        """Drop the oldest pending answers, because no reader has processed them in time."""
        for key, pending in self._waiting.items():
            if pending.rows is not None:
                self._waiting[key] = pending._replace(rows=None)
                self._waiting_bytes -= pending.bytes
                return

    def settle(self) -> int:
        """Cut the pending answers into windows; return the version of the history."""
        with self._lock:
            with self._pending_lock:  # nested, so that answers are processed in the order of arrival
                waiting, self._waiting, self._waiting_bytes = self._waiting, {}, 0
            if waiting:
                self._store.version += 1
                for key, pending in waiting.items():
                    self._take_in(key, pending)
                self._store.trim()
            return self._store.version

    def _take_in(self, key: Hashable, pending: _Pending) -> None:
        """Cut pending answers into windows. On an error, log it and drop only these answers."""
        if pending.queries is not None and pending.queries is not self._taken:
            self.set_queries(pending.queries)
            self._taken = pending.queries
        try:
            self._store.replace(key, pending.stream, pending.rows, self.info)
        except Exception as error:
            _QUIET.warning(
                "dropped answers of stream %s from the page: they cannot be split into windows: %s",
                pending.stream,
                error,
            )
            self._store.replace(key, pending.stream, None, self.info)
            return
        if pending.rows is not None and pending.rows.num_rows:
            self._columns[pending.stream] = tuple(pending.rows.column_names)

    def contested(self) -> set[Hashable]:
        """Return and reset the keys whose answers have different rows for the same rank of a window."""
        with self._lock:
            found, self._store.contested = self._store.contested, set()
            return found

    def changed_since(self, version: int) -> list[str]:
        """Return the queries that changed after a version."""
        with self._lock:
            found = []
            for name in reversed(self._store.changed):
                if self._store.changed[name] <= version:
                    break
                found.append(name)
            return found

    @property
    def cursor(self) -> str:
        """The position after the newest change, for `changes_since`."""
        with self._lock:
            return self._store.log.cursor

    def changes_since(self, cursor: str, limit: int, name: str | None = None) -> tuple[list[NewWindow], str]:
        """Return the windows that were added or replaced after a cursor, of one query if named, and the next cursor."""
        with self._lock:
            return self._store.log.since(cursor, limit, lambda change: name is None or change.query == name)

    def names(self) -> list[str]:
        """Return the queries with answers, in the order of their first answers."""
        with self._lock:
            return list(self._store.queries)

    def info(self, name: str) -> QueryInfo:
        """Return the description of a query."""
        found = self._infos.get(name)
        if found is not None:
            return found
        answered = self._store.queries.get(name)
        return QueryInfo(name, "" if answered is None else answered.stream, "topk")

    def columns(self, name: str) -> list[str]:
        """Return the data columns of a query's answers; before its first answer, those of its stream."""
        with self._lock:
            info, answered = self.info(name), self._store.queries.get(name)
            groups = {column.lower() for column in info.groups}
            columns = self._columns.get(info.stream, ()) if answered is None else answered.columns
            return [column for column in columns if column not in ADDED_COLUMNS and column.lower() not in groups]

    def newest(self, stream: str) -> int | None:
        """Return the newest moment for which a stream has answers."""
        return self._store.newest.get(stream)

    def overview(self, name: str) -> tuple[int, int, list[WindowSpan]] | None:
        """Return a query's numbers of windows and groups, and its leading group's windows; None without answers."""
        with self._lock:
            answered = self._store.queries.get(name)
            if answered is None or answered.leader is None or not answered.leader.windows:
                return None
            return answered.windows, len(answered.lines), answered.leader.windows[-60:]

    def find(self, name: str, key: str | None = None, moment: int | None = None) -> FoundWindow | None:
        """Return the window of a query, group and moment; by default the newest window of the leading group."""
        with self._lock:
            line = self._line(name, key)
            if line is None or not line.windows:
                return None
            place = len(line.moments) - 1 if moment is None else line.at(moment)
            if place is None:
                return None
            before = line.windows[place - 1] if place else None
            return FoundWindow(line, line.windows[place], before, place, list(line.moments))

    def line(self, name: str, key: str | None = None, last: int | None = None) -> list[WindowSpan] | None:
        """Return the windows of a query and group, by moment."""
        with self._lock:
            line = self._line(name, key)
            if line is None:
                return None
            return line.windows[-last:] if last else list(line.windows)

    def groups(self, name: str, like: str = "", limit: int = 200, skip: int = 0) -> tuple[int, list[Group]]:
        """Return the number of groups of a query that contain `like`, and `limit` of them, newest answers first."""
        with self._lock:
            answered = self._store.queries.get(name)
            lines = [] if answered is None else list(answered.lines.values())
            wanted = like.casefold()
            found = [line for line in lines if line.moments and wanted in _group_text(line.group).casefold()]
            found.sort(key=lambda line: (-line.moments[-1], line.place))
            return len(found), [line.group for line in found[skip : skip + limit]]

    def _line(self, name: str, key: str | None) -> Line | None:
        answered = self._store.queries.get(name)
        if answered is None:
            return None
        return answered.leader if key is None else answered.lines.get(key)


class _Outlet:
    """An outlet of the pipeline that stores the answers of one stream."""

    def __init__(self, history: History, stream: str) -> None:
        self._history, self._stream = history, stream

    def take(self, batch: int, rows: pa.Table) -> None:
        """Store the answers of a micro-batch. A retried batch replaces its earlier answers."""
        self._history.put((self._stream, batch), self._stream, with_far_times_as_text(rows))


def _group_text(group: Group) -> str:
    return ", ".join("null" if value is None else str(value) for value in group)
