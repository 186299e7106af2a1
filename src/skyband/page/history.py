"""What queries have answered lately: a bounded store of windows, by query and group, as they were when final.

The answers of a micro-batch stay the columns they came as; a window is a stretch of their rows. What is oldest goes
first, by number for each query and group and by bytes for all together, but of a query that answers seldom the newest
window is spared: it is what its card shows.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Mapping
from itertools import count
from typing import NamedTuple

import pyarrow as pa

from skyband.page.asked import OURS, Asked
from skyband.page.cutting import Cut, cut
from skyband.page.wire import Group

__all__ = ["MOST_BYTES", "MOST_WINDOWS", "History", "Line", "Window"]

MOST_WINDOWS = 1000  # of a query and group
MOST_BYTES = 192 << 20
OVERHEAD = 400  # bytes that a window costs beside its rows, roughly


class Segment:
    """The rows of one micro-batch or file, and the windows that are still held of them."""

    __slots__ = ("bytes", "held", "key", "rows")

    def __init__(self, key: Hashable, rows: pa.Table) -> None:
        self.key, self.rows = key, rows
        self.bytes = int(rows.nbytes)
        self.held: dict[Window, Line] = {}


class Window:
    """An answer: a stretch of the rows of a segment."""

    __slots__ = ("begin", "first", "last", "moment", "number", "segment", "start", "stop")

    _numbers = count()

    def __init__(self, segment: Segment, found: Cut) -> None:
        self.number = next(Window._numbers)  # what says the same again is another window
        self.segment, self.begin, self.stop = segment, found.begin, found.stop
        self.moment, self.start = found.moment, found.start
        self.first, self.last = found.first, found.last

    @property
    def rows(self) -> pa.Table:
        """Its rows, best first."""
        return self.segment.rows.slice(self.begin, self.stop - self.begin)


class Line:
    """The windows of one query and group, by moment."""

    __slots__ = ("group", "key", "moments", "place", "query", "windows")

    def __init__(self, query: str, group: Group, key: str, place: int) -> None:
        self.query, self.group, self.key, self.place = query, group, key, place
        self.moments: list[int] = []
        self.windows: list[Window] = []

    def at(self, moment: int) -> int | None:
        """The place of the window of a moment; None where it is not held."""
        place = bisect_left(self.moments, moment)
        return place if place < len(self.moments) and self.moments[place] == moment else None


class _Answered:
    """All that is held of one query."""

    __slots__ = ("leader", "lines", "newest", "opened", "stream", "version", "windows")

    def __init__(self, stream: str) -> None:
        self.stream = stream
        self.lines: dict[str, Line] = {}
        self.opened = 0  # lines, of which some may have gone
        self.newest: int | None = None
        self.leader: Line | None = None  # of those that have the newest moment, the one that came first of all
        self.windows = 0
        self.version = 0


class Found(NamedTuple):
    """A window with the one before it, and its place among its line's moments."""

    line: Line
    window: Window
    before: Window | None
    place: int
    moments: list[int]


class History:
    """Answers of all queries, for as many windows as there is room for; safe to be used from several threads.

    Who puts answers in never waits for who looks: they are laid down as they are, and cut into windows by the next who
    looks (`settle`).
    """

    def __init__(self, *, most_windows: int = MOST_WINDOWS, most_bytes: int = MOST_BYTES) -> None:
        self._most_windows, self._most_bytes = most_windows, most_bytes
        self._lock = threading.RLock()
        self._door = threading.Lock()  # to what waits; never held for long
        self._waiting: dict[Hashable, tuple[str, pa.Table | None]] = {}
        self._waiting_bytes = 0
        self._segments: dict[Hashable, Segment] = {}  # oldest first
        self._spared: dict[int, Segment] = {}  # newest windows of segments that had to go
        self._bytes = self._joined = 0
        self._queries: dict[str, _Answered] = {}
        self._changed: dict[str, int] = {}  # by name: the version it changed at, last changed last
        self._asked: dict[str, Asked] = {}
        self._columns: dict[str, tuple[str, ...]] = {}  # of answers, by stream
        self._newest: dict[str, int] = {}  # by stream
        self._told: list[Callable[[], None]] = []
        self.version = 0

    def ask(self, asked: Mapping[str, Asked]) -> None:
        """Say what is asked. Answers of queries that are asked no longer stay until they are old.

        Those of another query that had the same name go: they would be compared with answers to another question.
        """
        with self._lock:
            for name, one in asked.items():
                if name in self._queries and name in self._asked and one.is_other_than(self._asked[name]):
                    self._drop(name)
            self._asked.update(asked)

    def tell(self, listener: Callable[[], None]) -> None:
        """Have `listener` called, by whichever thread, when something has come."""
        self._told.append(listener)

    def outlet(self, stream: str) -> _Outlet:
        """What a stream's answers are to be given to."""
        return _Outlet(self, stream)

    def put(self, key: Hashable, stream: str, rows: pa.Table | None) -> None:
        """Lay down answers; what was put under this key before is replaced. None: it is gone."""
        size = 0 if rows is None else int(rows.nbytes)
        with self._door:
            _, before = self._waiting.pop(key, ("", None))
            self._waiting_bytes += size - (0 if before is None else int(before.nbytes))
            self._waiting[key] = (stream, rows)
            while self._waiting_bytes > self._most_bytes and self._waiting_bytes > size:
                self._pass_over_oldest()
        self.wake()

    def wake(self) -> None:
        """Tell all who listen that there is something new."""
        for listener in list(self._told):
            listener()

    def shape(self) -> dict[str, list[str]]:
        """The columns of answers, by stream."""
        with self._lock:
            return {stream: list(columns) for stream, columns in self._columns.items()}

    def _pass_over_oldest(self) -> None:
        """Nobody has looked for long: the oldest answers that wait will never be seen."""
        for key, (stream, rows) in self._waiting.items():
            if rows is not None:
                self._waiting[key] = (stream, None)
                self._waiting_bytes -= int(rows.nbytes)
                return

    def settle(self) -> int:
        """Cut into windows what has been laid down; the version of what is held now."""
        with self._door:
            waiting, self._waiting, self._waiting_bytes = self._waiting, {}, 0
        if waiting:
            with self._lock:
                self.version += 1
                for key, (stream, rows) in waiting.items():
                    self._replace(key, stream, rows)
                self._trim()
        return self.version

    def changed_since(self, version: int) -> list[str]:
        """The queries that have changed after that version."""
        with self._lock:
            found = []
            for name in reversed(self._changed):
                if self._changed[name] <= version:
                    break
                found.append(name)
            return found

    def names(self) -> list[str]:
        """The queries that have answered, in the order in which they first did."""
        with self._lock:
            return list(self._queries)

    def asked(self, name: str) -> Asked:
        """What is known about a query."""
        return self._asked.get(name) or Asked(name, self._stream_of(name), "topk")

    def columns(self, name: str) -> list[str]:
        """The columns of a query's rows that are the row's own."""
        with self._lock:
            asked = self.asked(name)
            groups = {column.lower() for column in asked.groups}
            columns = self._columns.get(asked.stream, ())
            return [column for column in columns if column not in OURS and column.lower() not in groups]

    def newest(self, stream: str) -> int | None:
        """The newest moment that a stream was answered for."""
        return self._newest.get(stream)

    def overview(self, name: str) -> tuple[int, int, list[Window]] | None:
        """How many windows and groups are held of a query, and the windows of its leading group; None: no answer."""
        with self._lock:
            answered = self._queries.get(name)
            if answered is None or answered.leader is None:
                return None
            return answered.windows, len(answered.lines), answered.leader.windows[-60:]

    def find(self, name: str, key: str | None = None, moment: int | None = None) -> Found | None:
        """The window of a query, group and moment; by default of the group that leads, and the newest."""
        with self._lock:
            line = self._line(name, key)
            if line is None or not line.windows:
                return None
            place = len(line.moments) - 1 if moment is None else line.at(moment)
            if place is None:
                return None
            before = line.windows[place - 1] if place else None
            return Found(line, line.windows[place], before, place, list(line.moments))

    def line(self, name: str, key: str | None = None, last: int | None = None) -> list[Window] | None:
        """The windows of a query and group, by moment."""
        with self._lock:
            line = self._line(name, key)
            if line is None:
                return None
            return line.windows[-last:] if last else list(line.windows)

    def groups(self, name: str, like: str = "", limit: int = 200) -> tuple[int, list[Group]]:
        """How many groups of a query have `like` in them, and the first of these, newest answers first."""
        with self._lock:
            answered = self._queries.get(name)
            lines = [] if answered is None else list(answered.lines.values())
            wanted = like.casefold()
            found = [line for line in lines if line.moments and wanted in _spoken(line.group).casefold()]
            found.sort(key=lambda line: (-line.moments[-1], line.place))
            return len(found), [line.group for line in found[:limit]]

    @property
    def bytes(self) -> int:
        """What is held, roughly."""
        return self._bytes

    def _line(self, name: str, key: str | None) -> Line | None:
        answered = self._queries.get(name)
        if answered is None:
            return None
        return answered.leader if key is None else answered.lines.get(key)

    def _stream_of(self, name: str) -> str:
        answered = self._queries.get(name)
        return "" if answered is None else answered.stream

    def _replace(self, key: Hashable, stream: str, rows: pa.Table | None) -> None:
        before = self._segments.get(key)
        if before is not None:
            self._forget(before)
        if rows is None or not rows.num_rows:
            return
        segment = Segment(key, rows)
        self._segments[key] = segment
        self._bytes += segment.bytes
        self._columns[stream] = tuple(rows.column_names)
        for found in cut(rows, self.asked):
            self._hold(segment, stream, found)

    def _hold(self, segment: Segment, stream: str, found: Cut) -> None:
        answered = self._queries.get(found.query)
        if answered is None:
            answered = self._queries[found.query] = _Answered(stream)
        line = answered.lines.get(found.key)
        if line is None:
            line = answered.lines[found.key] = Line(found.query, found.group, found.key, answered.opened)
            answered.opened += 1
        window = Window(segment, found)
        if line.moments and found.moment <= line.moments[-1]:
            place = bisect_left(line.moments, found.moment)
            if place < len(line.moments) and line.moments[place] == found.moment:
                window = self._together(line, line.windows[place], window)
                self._let_go(line.windows[place])
                line.windows[place] = window
                answered.windows -= 1
            else:
                line.moments.insert(place, found.moment)
                line.windows.insert(place, window)
        else:
            line.moments.append(found.moment)
            line.windows.append(window)
        window.segment.held[window] = line
        self._bytes += OVERHEAD
        answered.windows += 1
        excess = len(line.windows) - self._most_windows
        for old in line.windows[:excess] if excess > 0 else ():
            self._let_go(old)
            answered.windows -= 1
        if excess > 0:
            del line.windows[:excess], line.moments[:excess]
        self._newest[stream] = max(found.moment, self._newest.get(stream, found.moment))
        if answered.newest is None or found.moment > answered.newest:
            answered.newest, answered.leader = found.moment, line
        elif found.moment == answered.newest and (answered.leader is None or line.place < answered.leader.place):
            answered.leader = line
        self._note(found.query)

    def _together(self, line: Line, old: Window, new: Window) -> Window:
        """Two stretches of one window: what two writers wrote is put together, what has the same ranks is replaced."""
        ranks = [set(window.rows["rank"].to_pylist()) for window in (old, new)]
        if ranks[0] & ranks[1]:
            return new
        rows = pa.concat_tables([old.rows, new.rows], promote_options="permissive").sort_by("rank")
        self._joined += 1
        segment = Segment(("joined", self._joined), rows.combine_chunks())
        self._segments[segment.key] = segment
        self._bytes += segment.bytes
        best, last = (old, new) if min(ranks[0]) < min(ranks[1]) else (new, old)
        found = Cut(line.query, line.group, line.key, new.moment, new.start, 0, rows.num_rows, best.first, last.last)
        return Window(segment, found)

    def _note(self, name: str) -> None:
        self._changed.pop(name, None)
        self._changed[name] = self._queries[name].version = self.version

    def _let_go(self, window: Window) -> None:
        """The window is held no longer; nor are its segment's rows, if it was the last of them."""
        segment = window.segment
        if segment.held.pop(window, None) is not None:
            self._bytes -= OVERHEAD
        if not segment.held:
            if self._segments.get(segment.key) is segment:
                del self._segments[segment.key]
                self._bytes -= segment.bytes
            elif self._spared.pop(id(segment), None) is not None:
                self._bytes -= segment.bytes

    def _forget(self, segment: Segment, *, spare: bool = False) -> None:
        """Give up a segment; with `spare`, but for the windows that are the newest of their query and group."""
        spared: list[tuple[Window, Line]] = []
        thinned: dict[int, Line] = {}
        for window, line in segment.held.items():
            place = line.at(window.moment)
            if place is None or line.windows[place] is not window:
                continue
            if spare and place == len(line.windows) - 1:
                spared.append((window, line))
                continue
            del line.windows[place], line.moments[place]
            self._queries[line.query].windows -= 1
            thinned[id(line)] = line
        self._bytes -= segment.bytes + OVERHEAD * (len(segment.held) - len(spared))
        segment.held = {}
        if self._segments.get(segment.key) is segment:
            del self._segments[segment.key]
        else:
            self._spared.pop(id(segment), None)
        if spared:
            self._move(spared)
        for line in thinned.values():
            self._look_again(line)

    def _move(self, spared: Iterable[tuple[Window, Line]]) -> None:
        """Copy windows into a segment of their own."""
        found = list(spared)
        rows = pa.concat_tables([window.rows for window, _ in found]).combine_chunks()
        # Slices share the buffers they were cut from; taking the rows anew lets those go.
        fresh = Segment(None, rows.take(pa.array(range(rows.num_rows))))
        begin = 0
        for window, line in found:
            stop = begin + window.stop - window.begin
            window.segment, window.begin, window.stop = fresh, begin, stop
            fresh.held[window] = line
            begin = stop
        self._spared[id(fresh)] = fresh
        self._bytes += fresh.bytes

    def _drop(self, name: str) -> None:
        """Forget all windows of a query."""
        for line in self._queries.pop(name).lines.values():
            for window in line.windows:
                self._let_go(window)
        self._changed.pop(name, None)

    def _look_again(self, line: Line) -> None:
        """After windows of a line have gone: whether it is there at all, and who leads now."""
        answered = self._queries.get(line.query)
        if answered is None:
            return
        if not line.windows:
            answered.lines.pop(line.key, None)
        if not answered.lines:
            del self._queries[line.query]
            self._changed.pop(line.query, None)
        elif answered.leader is line and (not line.moments or line.moments[-1] != answered.newest):
            answered.newest = max(one.moments[-1] for one in answered.lines.values() if one.moments)
            leading = [one for one in answered.lines.values() if one.moments and one.moments[-1] == answered.newest]
            answered.leader = min(leading, key=lambda one: one.place)

    def _trim(self) -> None:
        while self._bytes > self._most_bytes and len(self._segments) > 1:
            self._forget(next(iter(self._segments.values())), spare=True)
        while self._bytes > self._most_bytes and self._spared:
            self._forget(next(iter(self._spared.values())))


class _Outlet:
    """Takes the answers of one stream; an outlet of the pipeline."""

    def __init__(self, history: History, stream: str) -> None:
        self._history, self._stream = history, stream

    def take(self, batch: int, rows: pa.Table) -> None:
        """Lay the answers down; the same batch again replaces itself."""
        self._history.put((self._stream, batch), self._stream, rows)


def _spoken(group: Group) -> str:
    return ", ".join("null" if value is None else str(value) for value in group)
