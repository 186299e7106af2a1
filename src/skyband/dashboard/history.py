"""The history of answers: a bounded store of final windows, by query and group.

The answers of a micro-batch stay in Arrow columns, and a window is a slice of their rows. The limits are a number of
windows per query and group, and a number of bytes in total. Beyond them, older windows are thinned: a sample of them
stays, and the number of those removed is known. The newest window of each query and group is retained if possible,
because the page shows it. With an archive, windows and groups that were removed, or never held, are read from it.
"""

from __future__ import annotations

import json
import logging
import threading
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa

from skyband.dashboard.change_log import NewWindow
from skyband.dashboard.query_info import QueryInfo, added_columns
from skyband.dashboard.window_spans import Line, WindowSpan
from skyband.dashboard.window_store import WindowStore
from skyband.dashboard.wire import Group
from skyband.data.wide_timestamps import with_far_times_as_text
from skyband.rate_limited_log import RateLimitedLog

__all__ = ["MOST_BYTES", "MOST_WINDOWS", "Archive", "History", "Line", "StoredWindow", "WindowSpan"]

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
    dropped: int = 0  # windows between the previous window and this one that cannot be read


class Overview(NamedTuple):
    """The numbers of a query, and the newest windows of its leading group."""

    windows: int
    dropped: int
    groups: int
    line: list[WindowSpan]
    gaps: list[int]  # for each of these windows, the number of windows dropped before it


class StoredWindow(NamedTuple):
    """A window without its rows."""

    moment: int
    start: int | None
    rows: int


class ReadableWindows(NamedTuple):
    """The windows of a query and group that can be read, by moment."""

    line: Line
    windows: list[StoredWindow]
    dropped: list[int]  # for each, the number of windows between it and the one before it that cannot be read


class Archive(Protocol):
    """Answers outside the history, from which it reads windows that it does not hold."""

    def windows(self, name: str, key: str) -> list[StoredWindow]:
        """Return all windows of a query and group, by moment; nothing if the history has them all."""

    def spans(self, name: str, key: str, moments: Sequence[int]) -> Mapping[int, WindowSpan]:
        """Read the windows of some moments; those that cannot be read are skipped."""

    def lines(self, name: str) -> Mapping[str, int]:
        """Return the newest moment of each group that the history may not hold, by its key."""

    def may_have_unread(self, moment: int) -> bool:
        """Return whether rows that the history never got may have windows at or after a moment."""


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
        self.archive: Archive | None = None

    @property
    def version(self) -> int:
        """The number of calls of `settle` that processed answers."""
        return self._store.version

    @property
    def shape(self) -> int:
        """A number that changes whenever the columns of a query change."""
        return self._store.shape

    @property
    def has_dropped(self) -> bool:
        """Whether the limits removed windows."""
        with self._lock:
            return self._store.has_dropped

    @property
    def has_lost_lines(self) -> bool:
        """Whether the limits removed all windows of a query and group."""
        with self._lock:
            return self._store.has_lost_lines

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
                self._store.has_dropped = self._store.has_lost_lines = True
                return

    @property
    def settled(self) -> int | None:
        """The version of the history; None if answers are pending. Takes no lock, so event loops can read it."""
        return None if self._waiting else self._store.version

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

    def contested(self) -> tuple[set[Hashable], set[str]]:
        """Return and reset the keys whose answers have different rows for one rank of a window, and their queries."""
        with self._lock:
            found = self._store.contested, self._store.contested_queries
            self._store.contested, self._store.contested_queries = set(), set()
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
            added = added_columns(columns)
            return [column for column in columns if column not in added and column.lower() not in groups]

    def newest(self, stream: str) -> int | None:
        """Return the newest moment for which a stream has answers."""
        return self._store.newest.get(stream)

    def overview(self, name: str) -> Overview | None:
        """Return the numbers of a query and its leading group's newest windows; None without answers."""
        with self._lock:
            answered = self._store.queries.get(name)
            if answered is None or answered.leader is None or not answered.leader.windows:
                return None
            leader = answered.leader
            return Overview(
                answered.windows, answered.dropped, len(answered.lines), leader.windows[-60:], leader.dropped[-60:]
            )

    def find(self, name: str, key: str | None = None, moment: int | None = None) -> FoundWindow | None:
        """Return the window of a query, group and moment; by default the newest window of the leading group."""
        line = self._known_line(name, key)
        if line is None:
            return None
        with self._lock:
            place = len(line.moments) - 1 if moment is None else line.at(moment)
            found = None
            if place is not None and line.windows:
                before = line.windows[place - 1] if place else None
                found = FoundWindow(line, line.windows[place], before, place, list(line.moments), line.dropped[place])
        if self.archive is None or (found is not None and self._is_newest_of_all(found)):
            return found
        return self._stored(line, found, moment)

    def _is_newest_of_all(self, found: FoundWindow) -> bool:
        """Return whether a window is the newest of its line and follows the window before it, also in the archive.

        The archive is not asked for its windows, because they take long to list.
        """
        assert self.archive is not None
        if found.before is None or found.dropped or found.place < len(found.moments) - 1:
            return False
        return not self.archive.may_have_unread(found.before.moment)

    def line(self, name: str, key: str | None = None, last: int | None = None) -> list[WindowSpan] | None:
        """Return the windows of a query and group that are in memory, by moment."""
        found = self.thinned_line(name, key, last)
        return None if found is None else found[0]

    def thinned_line(
        self, name: str, key: str | None = None, last: int | None = None
    ) -> tuple[list[WindowSpan], list[int]] | None:
        """Return the windows in memory, and for each the number of windows dropped before it."""
        with self._lock:
            line = self._line(name, key)
            if line is None:
                return None
            first = max(0, len(line.windows) - last) if last else 0
            return line.windows[first:], line.dropped[first:]

    def windows(self, name: str, key: str | None = None) -> tuple[list[StoredWindow], int] | None:
        """Return all windows that can be read, by moment, and the number of those that were dropped."""
        found = self.listed(name, key)
        return None if found is None else (found.windows, sum(found.dropped))

    def listed(self, name: str, key: str | None = None) -> ReadableWindows | None:
        """Return all windows of a query and group that can be read."""
        line = self._known_line(name, key)
        if line is None:
            return None
        with self._lock:
            held = [StoredWindow(window.moment, window.start, window.count) for window in line.windows]
            dropped = list(line.dropped)
        stored = [] if self.archive is None else self.archive.windows(name, line.key)
        if not stored:
            return ReadableWindows(line, held, dropped)
        both = {window.moment: window for window in (*stored, *held)}
        return ReadableWindows(line, [both[moment] for moment in sorted(both)], [0] * len(both))

    def window(self, name: str, key: str | None, moment: int) -> WindowSpan | None:
        """Return one window, from memory or from the archive."""
        line = self._known_line(name, key)
        return None if line is None else self.spans(line, [moment]).get(moment)

    def spans(self, line: Line, moments: Sequence[int]) -> Mapping[int, WindowSpan]:
        """Return the windows of some moments, from memory or from the archive, without those that cannot be read."""
        with self._lock:
            places = [line.at(moment) for moment in moments]
            found = {
                moment: line.windows[place] for moment, place in zip(moments, places, strict=True) if place is not None
            }
        missing = [moment for moment in moments if moment not in found]
        if missing and self.archive is not None:
            found.update(self.archive.spans(line.query, line.key, missing))
        return found

    def _stored(self, line: Line, found: FoundWindow | None, moment: int | None) -> FoundWindow | None:
        """Complete a window from the archive, or find it there."""
        assert self.archive is not None
        windows = self.windows(line.query, line.key)
        if windows is None or (found is not None and len(windows[0]) == len(found.moments)):
            return found
        moments = [window.moment for window in windows[0]]
        wanted = found.window.moment if found is not None else moment
        if wanted is None and moments:  # no window of the line is in memory
            wanted = moments[-1]
        place = len(moments) if wanted is None else bisect_left(moments, wanted)
        if place >= len(moments) or moments[place] != wanted:
            return found
        window = found.window if found is not None else self.window(line.query, line.key, wanted)
        if window is None:
            return None
        before = self.window(line.query, line.key, moments[place - 1]) if place else None
        return FoundWindow(line, window, before, place, moments)

    def groups(self, name: str, like: str = "", limit: int = 200, skip: int = 0) -> tuple[int, list[Group]]:
        """Return the number of groups of a query that contain `like`, and `limit` of them, newest answers first."""
        with self._lock:
            answered = self._store.queries.get(name)
            lines = {} if answered is None else {key: one for key, one in answered.lines.items() if one.moments}
            held = [(line.moments[-1], line.place, line.group, key) for key, line in lines.items()]
        stored = {} if self.archive is None else self.archive.lines(name)
        others = ((moment, len(held), json.loads(key), key) for key, moment in stored.items() if key not in lines)
        wanted = like.casefold()
        found = [one for one in (*held, *others) if wanted in _group_text(one[2]).casefold()]
        found.sort(key=lambda one: (-max(one[0], stored.get(one[3], one[0])), one[1]))
        return len(found), [one[2] for one in found[skip : skip + limit]]

    def _known_line(self, name: str, key: str | None) -> Line | None:
        """Return the line of a query and group; one without windows if only the archive has it."""
        with self._lock:
            line = self._line(name, key)
        if (line is not None and line.windows) or self.archive is None:
            return line if line is not None and line.windows else None
        stored = self.archive.lines(name)
        if key is None:
            key = max(stored, key=lambda one: stored[one], default=None)
        return Line(name, json.loads(key), key, 0) if key is not None and key in stored else None

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
