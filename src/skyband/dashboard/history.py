"""What queries have answered lately: a bounded store of windows, by query and group, as they were when final.

The answers of a micro-batch stay the columns they came as; a window is a stretch of their rows. What is oldest goes
first, by number for each query and group and by bytes for all together, but of a query that answers seldom the newest
window is spared: it is what its card shows.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa

from skyband.dashboard.query_info import OURS, QueryInfo
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
    """A window with the one before it, and its place among its line's moments."""

    line: Line
    window: WindowSpan
    before: WindowSpan | None
    place: int
    moments: list[int]


class _Laid(NamedTuple):
    """Answers that wait to be cut into windows, and what they are answers to where that comes with them."""

    stream: str
    rows: pa.Table | None  # None: they have gone
    asked: Mapping[str, QueryInfo] | None

    @property
    def bytes(self) -> int:
        """What the rows take up."""
        return 0 if self.rows is None else int(self.rows.nbytes)


class History:
    """Answers of all queries, for as many windows as there is room for; safe to be used from several threads.

    Who puts answers in never waits for who looks: they are laid down as they are, and cut into windows by the next who
    looks (`settle`).
    """

    def __init__(self, *, most_windows: int = MOST_WINDOWS, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._store = WindowStore(most_windows, most_bytes)
        self._lock = threading.RLock()
        self._door = threading.Lock()  # to what waits; never held for long
        self._waiting: dict[Hashable, _Laid] = {}
        self._waiting_bytes = 0
        self._asked: dict[str, QueryInfo] = {}
        self._taken: Mapping[str, QueryInfo] | None = None  # what came with answers last
        self._columns: dict[str, tuple[str, ...]] = {}  # of answers, by stream
        self._told: list[Callable[[], None]] = []

    @property
    def version(self) -> int:
        """Counts what was settled."""
        return self._store.version

    @property
    def shape(self) -> int:
        """Another number whenever a query's columns are others."""
        return self._store.shape

    @property
    def bytes(self) -> int:
        """What is held, roughly."""
        return self._store.bytes

    def ask(self, asked: Mapping[str, QueryInfo]) -> None:
        """Say what is asked. Answers of queries that are asked no longer stay until they are old.

        Those of another query that had the same name go: they would be compared with answers to another question.
        """
        with self._lock:
            for name, one in asked.items():
                if name in self._store.queries and name in self._asked and one.is_other_than(self._asked[name]):
                    self._store.drop(name)
            self._asked.update(asked)

    def tell(self, listener: Callable[[], None]) -> None:
        """Have `listener` called, by whichever thread, when something has come."""
        self._told.append(listener)

    def outlet(self, stream: str) -> _Outlet:
        """What a stream's answers are to be given to."""
        return _Outlet(self, stream)

    def put(self, key: Hashable, stream: str, rows: pa.Table | None) -> None:
        """Lay down answers; what was put under this key before is replaced. None: it is gone."""
        self.put_all([(key, stream, rows)])

    def put_all(
        self, items: Iterable[tuple[Hashable, str, pa.Table | None]], asked: Mapping[str, QueryInfo] | None = None
    ) -> None:
        """Lay down several answers at once: nobody sees some of them without the others.

        With `asked`, that is what they are answers to; it holds from them on, and not for what was put before.
        """
        with self._door:
            for key, stream, rows in items:
                laid = _Laid(stream, rows, asked)
                before = self._waiting.pop(key, None)
                self._waiting_bytes += laid.bytes - (0 if before is None else before.bytes)
                self._waiting[key] = laid
                while self._waiting_bytes > self._most_bytes and self._waiting_bytes > laid.bytes:
                    self._pass_over_oldest()
        self.wake()

    def wake(self) -> None:
        """Tell all who listen that there is something new."""
        for listener in list(self._told):
            listener()

    def _pass_over_oldest(self) -> None:
        """Nobody has looked for long: the oldest answers that wait will never be seen."""
        for key, laid in self._waiting.items():
            if laid.rows is not None:
                self._waiting[key] = laid._replace(rows=None)
                self._waiting_bytes -= laid.bytes
                return

    def settle(self) -> int:
        """Cut into windows what has been laid down; the version of what is held now."""
        with self._lock:
            with self._door:  # inside the other lock, so that what was laid down last is also taken in last
                waiting, self._waiting, self._waiting_bytes = self._waiting, {}, 0
            if waiting:
                self._store.version += 1
                for key, laid in waiting.items():
                    self._take_in(key, laid)
                self._store.trim()
            return self._store.version

    def _take_in(self, key: Hashable, laid: _Laid) -> None:
        """Cut one of those into windows; what cannot be cut is left out, and holds up no others."""
        if laid.asked is not None and laid.asked is not self._taken:
            self.ask(laid.asked)
            self._taken = laid.asked
        try:
            self._store.replace(key, laid.stream, laid.rows, self.asked)
        except Exception as error:
            _QUIET.warning("answers of %s were passed over, they cannot be cut into windows: %s", laid.stream, error)
            self._store.replace(key, laid.stream, None, self.asked)
            return
        if laid.rows is not None and laid.rows.num_rows:
            self._columns[laid.stream] = tuple(laid.rows.column_names)

    def contested(self) -> set[Hashable]:
        """The keys under which different rows came for one rank of one window, since this was last called."""
        with self._lock:
            found, self._store.contested = self._store.contested, set()
            return found

    def changed_since(self, version: int) -> list[str]:
        """The queries that have changed after that version."""
        with self._lock:
            found = []
            for name in reversed(self._store.changed):
                if self._store.changed[name] <= version:
                    break
                found.append(name)
            return found

    def names(self) -> list[str]:
        """The queries that have answered, in the order in which they first did."""
        with self._lock:
            return list(self._store.queries)

    def asked(self, name: str) -> QueryInfo:
        """What is known about a query."""
        found = self._asked.get(name)
        if found is not None:
            return found
        answered = self._store.queries.get(name)
        return QueryInfo(name, "" if answered is None else answered.stream, "topk")

    def columns(self, name: str) -> list[str]:
        """The columns of a query's rows that are the row's own; before its first answer, those of its stream."""
        with self._lock:
            asked, answered = self.asked(name), self._store.queries.get(name)
            groups = {column.lower() for column in asked.groups}
            columns = self._columns.get(asked.stream, ()) if answered is None else answered.columns
            return [column for column in columns if column not in OURS and column.lower() not in groups]

    def newest(self, stream: str) -> int | None:
        """The newest moment that a stream was answered for."""
        return self._store.newest.get(stream)

    def overview(self, name: str) -> tuple[int, int, list[WindowSpan]] | None:
        """How many windows and groups are held of a query, and the windows of its leading group; None: no answer."""
        with self._lock:
            answered = self._store.queries.get(name)
            if answered is None or answered.leader is None or not answered.leader.windows:
                return None
            return answered.windows, len(answered.lines), answered.leader.windows[-60:]

    def find(self, name: str, key: str | None = None, moment: int | None = None) -> FoundWindow | None:
        """The window of a query, group and moment; by default of the group that leads, and the newest."""
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
        """The windows of a query and group, by moment."""
        with self._lock:
            line = self._line(name, key)
            if line is None:
                return None
            return line.windows[-last:] if last else list(line.windows)

    def groups(self, name: str, like: str = "", limit: int = 200) -> tuple[int, list[Group]]:
        """How many groups of a query have `like` in them, and the first of these, newest answers first."""
        with self._lock:
            answered = self._store.queries.get(name)
            lines = [] if answered is None else list(answered.lines.values())
            wanted = like.casefold()
            found = [line for line in lines if line.moments and wanted in _spoken(line.group).casefold()]
            found.sort(key=lambda line: (-line.moments[-1], line.place))
            return len(found), [line.group for line in found[:limit]]

    def _line(self, name: str, key: str | None) -> Line | None:
        answered = self._store.queries.get(name)
        if answered is None:
            return None
        return answered.leader if key is None else answered.lines.get(key)


class _Outlet:
    """Takes the answers of one stream; an outlet of the pipeline."""

    def __init__(self, history: History, stream: str) -> None:
        self._history, self._stream = history, stream

    def take(self, batch: int, rows: pa.Table) -> None:
        """Lay the answers down; the same batch again replaces itself."""
        self._history.put((self._stream, batch), self._stream, with_far_times_as_text(rows))


def _spoken(group: Group) -> str:
    return ", ".join("null" if value is None else str(value) for value in group)
