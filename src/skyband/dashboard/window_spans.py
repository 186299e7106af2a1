"""What a history holds: windows as stretches of rows, the line of a query and group, and all lines of a query."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable
from copy import copy
from itertools import count

import pyarrow as pa

from skyband.dashboard.window_slices import WindowSlice
from skyband.dashboard.wire import Group

__all__ = ["JoinedWindow", "Line", "QueryWindows", "Segment", "WindowSpan"]


class Segment:
    """The rows of one micro-batch or file, and the windows that are still held of them."""

    __slots__ = ("bytes", "held", "key", "rows")

    def __init__(self, key: Hashable, rows: pa.Table) -> None:
        self.key, self.rows = key, rows
        self.bytes = int(rows.nbytes)
        self.held: dict[WindowSpan, Line] = {}


class WindowSpan:
    """An answer: a stretch of the rows of a segment. It never changes: a thread may read it while others make room."""

    __slots__ = ("begin", "first", "last", "moment", "number", "segment", "start", "stop")

    _numbers = count()
    parts: tuple[WindowSpan, ...] = ()
    is_whole = True

    def __init__(self, segment: Segment, found: WindowSlice) -> None:
        self.number = next(WindowSpan._numbers)  # what says the same again is another window
        self.segment, self.begin, self.stop = segment, found.begin, found.stop
        self.moment, self.start = found.moment, found.start
        self.first, self.last = found.first, found.last

    @property
    def rows(self) -> pa.Table:
        """Its rows, best first."""
        return self.segment.rows.slice(self.begin, self.count)

    @property
    def count(self) -> int:
        """How many rows it has."""
        return self.stop - self.begin

    @property
    def keys(self) -> set[Hashable]:
        """The segments that its rows came in."""
        return {part.segment.key for part in self.parts or (self,)}

    def moved(self, segment: Segment, begin: int) -> WindowSpan:
        """The same window, with its rows in another segment."""
        found = copy(self)
        found.segment, found.begin, found.stop = segment, begin, begin + self.count
        return found


class JoinedWindow(WindowSpan):
    """A window that was put together from windows of several segments."""

    __slots__ = ("is_whole", "parts")

    def __init__(self, segment: Segment, found: WindowSlice, parts: tuple[WindowSpan, ...], *, is_whole: bool) -> None:
        super().__init__(segment, found)
        self.parts = parts
        self.is_whole = is_whole  # its parts have all its rows


class Line:
    """The windows of one query and group, by moment."""

    __slots__ = ("group", "key", "moments", "place", "query", "windows")

    def __init__(self, query: str, group: Group, key: str, place: int) -> None:
        self.query, self.group, self.key, self.place = query, group, key, place
        self.moments: list[int] = []
        self.windows: list[WindowSpan] = []

    def at(self, moment: int) -> int | None:
        """The place of the window of a moment; None where it is not held."""
        place = bisect_left(self.moments, moment)
        return place if place < len(self.moments) and self.moments[place] == moment else None


class QueryWindows:
    """All that is held of one query."""

    __slots__ = ("columns", "leader", "lines", "newest", "opened", "stream", "version", "windows")

    def __init__(self, stream: str) -> None:
        self.stream = stream
        self.columns: tuple[str, ...] = ()  # of its newest answers
        self.lines: dict[str, Line] = {}
        self.opened = 0  # lines, of which some may have gone
        self.newest: int | None = None
        self.leader: Line | None = None  # of those that have the newest moment, the one that came first of all
        self.windows = 0
        self.version = 0

    def lead(self, line: Line, moment: int) -> None:
        """A window of a line has come: the line leads if no other is newer, nor as new and older in years."""
        if self.newest is None or moment > self.newest:
            self.newest, self.leader = moment, line
        elif moment == self.newest and (self.leader is None or line.place < self.leader.place):
            self.leader = line

    def thin(self, lines: Iterable[Line]) -> None:
        """Windows of these lines have gone: drop the lines that are empty, all of them before a new leader is found."""
        for line in lines:
            if not line.windows and self.lines.get(line.key) is line:
                del self.lines[line.key]
        leader = self.leader
        if leader is not None and leader.moments and leader.moments[-1] == self.newest:
            return
        self.newest, self.leader = None, None
        for line in self.lines.values():
            if line.moments:
                self.lead(line, line.moments[-1])
