"""The windows of a history, by query and group, with their limits and memory accounting.

Not thread-safe; `History` holds the lock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress

import pyarrow as pa

from skyband.dashboard.change_log import ChangeLog, NewWindow
from skyband.dashboard.query_info import QueryInfo
from skyband.dashboard.window_spans import JoinedWindow, Line, QueryWindows, Segment, WindowSlice, WindowSpan, cut
from skyband.sharding.emission import marks_of

__all__ = ["WindowStore"]

MOST_CONTESTED = 10_000  # limit of remembered keys
OVERHEAD = 400  # approximate bytes per window in addition to its rows
FIRST_STRIDE = 4  # of the windows that the byte limit removes, the first of every so many stays
THINNED_SHARE = 4  # these windows have 1/4 of the bytes; with more, the stride doubles


class WindowStore:
    """Windows of all queries, within limits of windows and bytes."""

    def __init__(self, most_windows: int, most_bytes: int) -> None:
        self._most_windows, self._most_bytes = most_windows, most_bytes
        self._segments: dict[Hashable, Segment] = {}  # oldest first
        self._spared: dict[Hashable, Segment] = {}  # by key: the newest windows of a removed segment
        self._filled: Segment | None = None  # the segment being cut
        self._joined = 0
        self._stride = FIRST_STRIDE
        self._most_spared = most_bytes // THINNED_SHARE
        self.bytes = 0  # approximate total size
        self.queries: dict[str, QueryWindows] = {}
        self.changed: dict[str, int] = {}  # by name: the version of the last change, in the order of changes
        self.newest: dict[str, int] = {}  # by stream
        self.log = ChangeLog()
        self.shape = 0  # number of changes of queries' columns
        self.contested: set[Hashable] = set()  # segments with different rows for the same rank of a window
        self.contested_queries: set[str] = set()  # the queries of these windows
        self.version = 0
        self.has_dropped = False  # whether the limits ever removed a window
        self.has_lost_lines = False  # whether they ever removed all windows of a query and group

    def replace(self, key: Hashable, stream: str, rows: pa.Table | None, info: Callable[[str], QueryInfo]) -> None:
        """Replace the windows of a key by the windows of these rows. None only removes them."""
        for before in (self._segments.get(key), self._spared.get(key)):
            if before is not None:
                self._forget(before)
        if rows is None or not rows.num_rows:
            return
        segment = self._filled = Segment(key, rows)
        self._segments[key] = segment
        self.bytes += segment.bytes
        columns = tuple(rows.column_names)
        try:
            for found in cut(rows, info):
                self._hold(segment, stream, columns, found)
        finally:
            self._filled = None
        if not segment.held:  # all its windows are older than the retained ones
            self._release(segment)

    def drop(self, name: str) -> None:
        """Remove all windows of a query."""
        for line in self.queries.pop(name).lines.values():
            for window in line.windows:
                self._let_go(window)
        self.changed.pop(name, None)

    def trim(self) -> None:
        """Remove the oldest windows until the rest fits into the byte limit. A sample of them stays."""
        while self.bytes > self._most_bytes and len(self._segments) > 1:
            self._forget(next(iter(self._segments.values())), spare=True)
            while self._spared_bytes() > self._most_spared:
                self._thin_spared()
        while self.bytes > self._most_bytes and self._spared:
            self.has_dropped = self.has_lost_lines = True
            self._forget(next(iter(self._spared.values())))

    def _spared_bytes(self) -> int:
        return sum(segment.bytes + OVERHEAD * len(segment.held) for segment in self._spared.values())

    def _thin_spared(self) -> None:
        """Double the stride and remove windows from the sample. If all are needed, allow the sample more bytes."""
        self._stride *= 2
        before = self._spared_bytes()
        for segment in list(self._spared.values()):
            self._forget(segment, spare=True)
        if self._spared_bytes() >= before:
            self._most_spared = 2 * before

    def _hold(self, segment: Segment, stream: str, columns: tuple[str, ...], found: WindowSlice) -> None:
        answered = self.queries.get(found.query)
        if answered is None:
            answered = self.queries[found.query] = QueryWindows(stream)
        if answered.columns is not columns and answered.columns != columns:
            answered.columns = columns
            self.shape += 1
        line = answered.lines.get(found.key)
        if line is None:
            line = answered.lines[found.key] = Line(found.query, found.group, found.key, answered.opened)
            answered.opened += 1
        window = WindowSpan(segment, found, line.arrived)
        line.arrived += 1
        segment.held[window] = line
        self.bytes += OVERHEAD
        moment, moments = found.moment, line.moments
        if not moments or moment > moments[-1]:
            line.insert(len(moments), window)
            answered.windows += 1
        else:
            place = bisect_left(moments, moment)
            if moments[place] == moment:
                line.windows[place] = self._together(line, line.windows[place], window)
            else:
                line.insert(place, window)
                answered.windows += 1
        if len(line.windows) > self._most_windows:
            for old in line.thin():
                self._let_go(old)
                answered.windows -= 1
                answered.dropped += 1
                self.has_dropped = True
        if moment > self.newest.get(stream, moment - 1):
            self.newest[stream] = moment
        answered.lead(line, moment)
        self.log.note(NewWindow(found.query, found.key, moment))
        self._note(found.query)

    def _together(self, line: Line, old: WindowSpan, new: WindowSpan) -> WindowSpan:
        """Combine two slices of one window: join them if their ranks are disjoint, else replace the old one.

        A provisional answer does not replace a final one, and a final one not its correction, whatever comes first.
        """
        marks = [tuple(marks_of(window.rows).values()) for window in (old, new)]
        if marks[0] != marks[1]:
            kept, gone = (old, new) if marks[0] > marks[1] else (new, old)
            self._let_go(gone)
            return kept
        ranks = [window.rows["rank"].to_pylist() for window in (old, new)]
        if set(ranks[0]).isdisjoint(ranks[1]):
            with suppress(pa.ArrowException):  # columns with the same name but incompatible types
                joined = self._join(line, (*(old.parts or (old,)), new), is_whole=old.is_whole)
                if old.parts:
                    self._let_go(old, parts=False)
                return joined
        is_contested = not marks[0] and old.keys.isdisjoint(new.keys)
        if is_contested and len(self.contested) < MOST_CONTESTED and _differ(old, new):
            self.contested |= old.keys | new.keys
            self.contested_queries.add(line.query)
        self._let_go(old)
        return new

    def _join(self, line: Line, parts: tuple[WindowSpan, ...], *, is_whole: bool = True) -> WindowSpan:
        """Return one window made of parts with disjoint ranks."""
        if len(parts) == 1:
            return parts[0]
        ordered = sorted(parts, key=lambda part: part.rows["rank"][0].as_py())
        rows = pa.concat_tables([part.rows for part in ordered], promote_options="permissive").sort_by("rank")
        self._joined += 1
        segment = Segment(("joined", self._joined), rows.combine_chunks())
        self._segments[segment.key] = segment
        self.bytes += segment.bytes
        moment, start = parts[-1].moment, parts[-1].start
        edges = ordered[0].first, ordered[-1].last
        found = WindowSlice(line.query, line.group, line.key, moment, start, 0, rows.num_rows, *edges)
        window = JoinedWindow(segment, found, parts, is_whole=is_whole)
        self._keep(window, line)
        return window

    def _note(self, name: str) -> None:
        self.changed.pop(name, None)
        self.changed[name] = self.queries[name].version = self.version

    def _keep(self, window: WindowSpan, line: Line) -> None:
        window.segment.held[window] = line
        self.bytes += OVERHEAD

    def _let_go(self, window: WindowSpan, *, parts: bool = True) -> None:
        """Remove a window, and the rows of its segment if it was the last window in it."""
        for part in window.parts if parts else ():
            self._let_go(part)
        segment = window.segment
        if segment.held.pop(window, None) is None:
            return
        self.bytes -= OVERHEAD
        if not segment.held and segment is not self._filled:
            self._release(segment)

    def _release(self, segment: Segment) -> None:
        """Remove a segment's rows."""
        for kept in (self._segments, self._spared):
            if kept.get(segment.key) is segment:
                del kept[segment.key]
                self.bytes -= segment.bytes

    def _forget(self, segment: Segment, *, spare: bool = False) -> None:
        """Remove a segment. With `spare`, retain the windows that are the newest of their query and group."""
        spared: list[tuple[WindowSpan, Line]] = []
        thinned: dict[str, dict[int, Line]] = {}
        held, segment.held = segment.held, {}
        self.bytes -= OVERHEAD * len(held)
        self._release(segment)
        for window, line in held.items():
            place = line.at(window.moment)
            if place is None:
                continue
            now = line.windows[place]
            if now is not window and (window not in now.parts or self._is_left(line, place, window, spare=spare)):
                continue
            is_newest = place == len(line.windows) - 1
            if now is window and spare and (is_newest or window.place % self._stride == 0):
                spared.append((window, line))
                continue
            self._let_go(now)
            line.remove(place, is_dropped=spare)
            self.queries[line.query].windows -= 1
            self.queries[line.query].dropped += spare
            self.has_dropped |= spare
            thinned.setdefault(line.query, {})[id(line)] = line
        if spared:
            self._move(segment.key, spared)
        for name, lines in thinned.items():
            self.queries[name].thin(lines.values())
            if not self.queries[name].lines:
                del self.queries[name]
                self.changed.pop(name, None)
            elif not spare:
                self._note(name)

    def _is_left(self, line: Line, place: int, gone: WindowSpan, *, spare: bool) -> bool:
        """Update a joined window after one of its parts was removed; return whether the window stays.

        With `spare`, the window retains the rows of the removed part. Such a window cannot be joined again, so it is
        removed together with the next part.
        """
        window = line.windows[place]
        left = tuple(part for part in window.parts if part is not gone)
        if spare and isinstance(window, JoinedWindow):
            window.parts, window.is_whole = left, False
            return True
        if not window.is_whole:
            return False
        line.windows[place] = self._join(line, left)
        self._let_go(window, parts=False)
        self._note(line.query)
        return True

    def _move(self, key: Hashable, spared: Iterable[tuple[WindowSpan, Line]]) -> None:
        """Copy the spared windows into a new segment, which is removed when the key is replaced."""
        found = list(spared)
        rows = pa.concat_tables([window.rows for window, _ in found]).combine_chunks()
        # Slices share the buffers of their table; `take` copies the rows, so that the buffers can be freed.
        fresh = Segment(key, rows.take(pa.array(range(rows.num_rows))))
        begin = 0
        for window, line in found:
            moved = window.moved(fresh, begin)
            place = line.at(window.moment)
            assert place is not None
            line.windows[place] = moved
            self._keep(moved, line)
            begin += window.count
        self._spared[key] = fresh
        self.bytes += fresh.bytes


def _differ(old: WindowSpan, new: WindowSpan) -> bool:
    """Return whether two windows of one query, group and moment differ in their ranks or scores."""
    pairs = [list(zip(*(_values(window, name) for name in ("rank", "score")), strict=True)) for window in (old, new)]
    return pairs[0] != pairs[1]


def _values(window: WindowSpan, name: str) -> list[object]:
    rows = window.rows
    return list(map(str, rows[name].to_pylist())) if name in rows.column_names else [None] * rows.num_rows
