"""Windows as slices of answer rows, and their containers: the line of a query and group, and all lines of a query."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator
from copy import copy
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.dashboard.query_info import QueryInfo
from skyband.dashboard.wire import Group, group_key, group_of
from skyband.queries.answer_schema import moment_of

__all__ = [
    "JoinedWindow",
    "Line",
    "QueryWindows",
    "Segment",
    "WindowSlice",
    "WindowSpan",
    "coded",
    "cut",
    "moment_column",
    "spelled",
    "start_column",
]

NO_GROUP = group_key([])


class WindowSlice(NamedTuple):
    """A window's rows in a table."""

    query: str
    group: Group
    key: str  # of the group
    moment: int
    start: int | None
    begin: int
    stop: int
    first: float  # score of the best row, NaN if there is none
    last: float  # score of the last row


def cut(rows: pa.Table, info: Callable[[str], QueryInfo]) -> Iterator[WindowSlice]:
    """Yield the windows of a table that is sorted by window, best row first, as sinks receive it."""
    count = rows.num_rows
    if not count:
        return
    names, query_codes = coded(rows["query"])
    moments = moment_column(rows)
    fresh = np.ones(count, bool)  # where a window begins
    fresh[1:] = (query_codes[1:] != query_codes[:-1]) | (moments[1:] != moments[:-1])
    groups = {name: [spelled(rows, column) for column in info(name).groups] for name in names}
    used = {column for columns in groups.values() for column in columns if column is not None}
    for column in used:
        # The column is a group column of some queries, and an ordinary column of the others.
        is_group = np.array([column in groups[name] for name in names])[query_codes[1:]]
        _, codes = coded(rows[column])
        fresh[1:] |= is_group & (codes[1:] != codes[:-1])
    begins = np.flatnonzero(fresh)
    stops = np.append(begins[1:], count)
    scores = _floats(rows, "score")
    starts = start_column(rows)[begins].tolist() if "window_start" in rows.column_names else None
    at = pa.array(begins)
    values = {column: rows[column].take(at).to_pylist() for column in used}
    parts = zip(
        query_codes[begins].tolist(),
        moments[begins].tolist(),
        begins.tolist(),
        stops.tolist(),
        scores[begins].tolist(),
        scores[stops - 1].tolist(),
        strict=True,
    )
    nothing: Group = []
    for place, (code, moment, begin, stop, first, last) in enumerate(parts):
        name = names[code]
        group, key = nothing, NO_GROUP
        if groups[name]:
            found = [None if column is None else values[column][place] for column in groups[name]]
            group, key = group_of(found), group_key(found)
        start = None if starts is None else starts[place]
        yield WindowSlice(name, group, key, moment, start, begin, stop, first, last)


def moment_column(rows: pa.Table) -> Any:
    """Return the moment of each row, in microseconds or positions."""
    return _integers(rows[moment_of(rows.column_names)])


def start_column(rows: pa.Table) -> Any:
    """Return the window start of each row, in microseconds or positions. The column must exist."""
    return _integers(rows["window_start"])


def spelled(rows: pa.Table, column: str) -> str | None:
    """Return a column's name as spelled in the table, ignoring case; None if there is no such column."""
    if column in rows.column_names:
        return column
    return next((name for name in rows.column_names if name.lower() == column.lower()), None)


def coded(column: pa.ChunkedArray) -> tuple[list[Any], Any]:
    """Return the distinct values of a column, and for each row the index of its value."""
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # no chunk, or text too long for one chunk
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], column.type)
    if pa.types.is_dictionary(whole.type):
        whole = whole.cast(whole.type.value_type)
    if pa.types.is_nested(whole.type):
        whole = pa.array([group_key([value]) for value in whole.to_pylist()], pa.string())
    coded = pc.dictionary_encode(whole, null_encoding="encode")
    return coded.dictionary.to_pylist(), coded.indices.to_numpy(zero_copy_only=False)


def _integers(column: pa.ChunkedArray) -> Any:
    kind = column.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        zone = kind.tz if pa.types.is_timestamp(kind) else None
        column = column.cast(pa.timestamp("us", zone), safe=False).cast(pa.int64())
    return column.cast(pa.int64()).fill_null(0).to_numpy()


def _floats(rows: pa.Table, name: str) -> Any:
    if name not in rows.column_names:
        return np.full(rows.num_rows, np.nan)
    return rows[name].cast(pa.float64(), safe=False).fill_null(float("nan")).to_numpy()


class Segment:
    """The rows of one micro-batch or file, and the windows that still use them."""

    __slots__ = ("bytes", "held", "key", "rows")

    def __init__(self, key: Hashable, rows: pa.Table) -> None:
        self.key, self.rows = key, rows
        self.bytes = int(rows.nbytes)
        self.held: dict[WindowSpan, Line] = {}


class WindowSpan:
    """A window: a slice of the rows of a segment. It is immutable, so other threads can read it without a lock."""

    __slots__ = ("begin", "first", "last", "moment", "number", "place", "segment", "start", "stop")

    _numbers = count()
    parts: tuple[WindowSpan, ...] = ()
    is_whole = True

    def __init__(self, segment: Segment, found: WindowSlice, place: int = 0) -> None:
        self.number = next(WindowSpan._numbers)  # unique, even for windows with equal content
        self.place = place  # in the order in which the windows of its line arrived
        self.segment, self.begin, self.stop = segment, found.begin, found.stop
        self.moment, self.start = found.moment, found.start
        self.first, self.last = found.first, found.last

    @property
    def rows(self) -> pa.Table:
        """The rows, best first."""
        return self.segment.rows.slice(self.begin, self.count)

    @property
    def count(self) -> int:
        """The number of rows."""
        return self.stop - self.begin

    @property
    def keys(self) -> set[Hashable]:
        """The keys of the segments that the rows came from."""
        return {part.segment.key for part in self.parts or (self,)}

    def moved(self, segment: Segment, begin: int) -> WindowSpan:
        """Return the same window with its rows in another segment."""
        found = copy(self)
        found.segment, found.begin, found.stop = segment, begin, begin + self.count
        return found


class JoinedWindow(WindowSpan):
    """A window joined from the parts in several segments."""

    __slots__ = ("is_whole", "parts")

    def __init__(self, segment: Segment, found: WindowSlice, parts: tuple[WindowSpan, ...], *, is_whole: bool) -> None:
        super().__init__(segment, found, parts[0].place)
        self.parts = parts
        self.is_whole = is_whole  # whether the parts still contain all rows


class Line:
    """The windows of one query and group, by moment.

    `dropped` has, for each window, the number of windows that the limits removed between it and the window before it.
    """

    __slots__ = ("arrived", "dropped", "group", "key", "moments", "place", "query", "windows")

    def __init__(self, query: str, group: Group, key: str, place: int) -> None:
        self.query, self.group, self.key, self.place = query, group, key, place
        self.moments: list[int] = []
        self.windows: list[WindowSpan] = []
        self.dropped: list[int] = []
        self.arrived = 0  # number of windows ever inserted

    def insert(self, place: int, window: WindowSpan) -> None:
        """Insert a window at an index."""
        self.moments.insert(place, window.moment)
        self.windows.insert(place, window)
        self.dropped.insert(place, 0)

    def remove(self, place: int, *, is_dropped: bool) -> None:
        """Remove the window at an index; with `is_dropped`, it exists, but the limits leave no room for it."""
        del self.moments[place], self.windows[place]
        gone = self.dropped.pop(place) + is_dropped
        if place < len(self.dropped):
            self.dropped[place] += gone

    def thin(self) -> list[WindowSpan]:
        """Remove every second window of the older half, except the first; return the removed windows."""
        gone = range(1, len(self.windows) // 2, 2)
        found = [self.windows[place] for place in gone]
        for place in gone:
            self.dropped[place + 1] += self.dropped[place] + 1
        stop = len(self.windows) // 2
        for held in (self.moments, self.windows, self.dropped):
            del held[1:stop:2]
        return found

    def at(self, moment: int) -> int | None:
        """Return the index of the window of a moment; None if there is none."""
        place = bisect_left(self.moments, moment)
        return place if place < len(self.moments) and self.moments[place] == moment else None


class QueryWindows:
    """All stored windows of one query."""

    __slots__ = ("columns", "dropped", "leader", "lines", "newest", "opened", "stream", "version", "windows")

    def __init__(self, stream: str) -> None:
        self.stream = stream
        self.columns: tuple[str, ...] = ()  # of its newest answers
        self.lines: dict[str, Line] = {}
        self.opened = 0  # number of lines ever created
        self.newest: int | None = None
        self.leader: Line | None = None  # the oldest of the lines that have the newest moment
        self.windows = 0
        self.dropped = 0  # windows that the limits removed
        self.version = 0

    def lead(self, line: Line, moment: int) -> None:
        """Update the leader after a line got a window: it has the newest moment, and on a tie it is the oldest line."""
        if self.newest is None or moment > self.newest:
            self.newest, self.leader = moment, line
        elif moment == self.newest and (self.leader is None or line.place < self.leader.place):
            self.leader = line

    def thin(self, lines: Iterable[Line]) -> None:
        """Remove empty lines after windows were removed, then choose the leader again if necessary."""
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
