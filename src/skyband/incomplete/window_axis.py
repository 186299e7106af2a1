"""Windows of calendars and cumulative windows as sliding windows, on another axis.

Engines over incomplete streams need windows of one length: they compare how long objects can still be in windows. What
they compute depends only on the order of positions and on which windows contain them. So positions are moved, in their
order, to an axis on which the windows have one length and one distance.

*Windows that consist of whole panes* (two days every day, three months every month): pane `i` begins at ``i * UNIT``
there, where the unit is longer than every pane. A window of m panes is ``m * UNIT`` long, and ends every unit, whatever
the lengths of days and months.

*Cumulative windows*: a cycle with at most n panes begins every ``2n`` units, and windows are n units long. A window
that ends after the i-th pane of a cycle contains its first i panes, and nothing of the cycle before, which is at least
n units away. Windows that end in the gap between two cycles do not exist, and their answers are dropped.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from skyband.calendar_windows import HOUR, CalendarWindows, CumulativeWindows, local_time, moment_of
from skyband.kernels.stream import Bools, Ints
from skyband.windows import SlidingWindow, Windows

__all__ = ["MOST_PANES", "WindowAxis", "axis_of", "has_whole_panes", "most_panes", "sliding_of"]

MOST_PANES = 100_000  # of a cumulative window: the bounds of two windows are in memory
_SHIFT = 26 * HOUR  # more than clocks are moved by


class WindowAxis:
    """The axis of windows that consist of whole panes, or of cumulative windows.

    >>> from skyband.calendar_windows import CumulativeWindows
    >>> axis = WindowAxis(CumulativeWindows(size=30, slide=10))
    >>> axis.window
    SlidingWindow(size=30, slide=10, origin=0)
    >>> moved = axis.moved(np.array([0, 29, 30])).tolist()
    >>> moved, [a.tolist() for a in axis.ends(np.array([10, 20, 30, 40, 50, 60, 70]))]
    ([0, 29, 60], [[10, 20, 30, 30, 30, 30, 40], [True, True, True, False, False, False, True]])
    """

    def __init__(self, window: CalendarWindows | CumulativeWindows) -> None:
        self._window = window
        if isinstance(window, CumulativeWindows):
            self._unit, self._panes, self._apart = window.slide, window.size // window.slide, 2
        elif window.cumulative:
            assert window.size is not None
            part = window.slide.unit == "tick"
            # Parts of days: a pane in which a clock is set back, or forward, is at most twice as long as the others.
            self._unit = 2 * window.slide.count if part else window.slide.most + _SHIFT
            # A repeated hour has its own ends; a month of days has at most so many.
            self._panes = -(-(window.size.most + _SHIFT) // window.slide.least) + 2
            self._apart = 2
        else:
            assert window.size is not None
            self._unit = window.slide.most + _SHIFT
            self._panes, self._apart = window.size.count // window.slide.count, 1
        self.window = SlidingWindow(size=self._panes * self._unit, slide=self._unit)

    def moved(self, positions: Ints) -> Ints:
        """Return the places of positions, which are in their order."""
        found = np.empty(positions.size, np.int64)
        rest = np.arange(positions.size)
        while rest.size:
            at = int(positions[rest[0]])
            number = self._number(at)
            bounds = self._bounds(number)
            assert np.diff(bounds).max() <= self._unit  # else positions of two panes would be mixed
            mine = (positions[rest] >= bounds[0]) & (positions[rest] < bounds[-1])
            here = positions[rest[mine]]
            panes = np.searchsorted(bounds, here, side="right") - 1
            found[rest[mine]] = self._begin(number) + panes * self._unit + here - bounds[panes]
            rest = rest[~mine]
        return found

    def place(self, position: int) -> int:
        """Return the place of one position."""
        return int(self.moved(np.array([position]))[0])

    def ends(self, places: Ints) -> tuple[Ints, Bools]:
        """Return the ends of windows that end at these places, and which of them exist."""
        found, exist = np.empty(places.size, np.int64), np.ones(places.size, bool)
        numbers = (places - 1) // self._length if self._apart == 2 else places // self._unit - 1
        for number in np.unique(numbers).tolist():
            mine, bounds = numbers == number, self._bounds(number)
            panes = (places[mine] - self._begin(number)) // self._unit
            exist[mine] = panes < bounds.size
            last = np.minimum(panes, bounds.size - 1)
            found[mine] = bounds[last]
            exist[mine] &= bounds[last] > bounds[np.maximum(last - 1, 0)]  # not if its last pane is empty
        return found, exist

    @property
    def _length(self) -> int:
        """The length of a cycle, or of a pane, on this axis."""
        return self._unit if self._apart == 1 else 2 * self._panes * self._unit

    def _begin(self, number: int) -> int:
        return number * self._length

    def _number(self, position: int) -> int:
        """Return the number of the cycle or pane that contains a position."""
        window = self._window
        if isinstance(window, CumulativeWindows):
            return (position - window.origin) // window.size
        span = window.size if window.cumulative else window.slide
        assert span is not None
        found = span.index(window.anchor, local_time(window.zone, position))
        while self._bounds(found)[0] > position:
            found -= 1
        while self._bounds(found)[-1] <= position:
            found += 1
        return found

    def _bounds(self, number: int) -> Ints:
        """Return the start of a cycle and its ends, or the start and the end of a pane."""
        return _bounds(self._window, number)


@lru_cache(maxsize=512)
def _bounds(window: CalendarWindows | CumulativeWindows, number: int) -> Ints:
    if isinstance(window, CumulativeWindows):
        begin = window.origin + number * window.size
        return np.arange(begin, begin + window.size + 1, window.slide, dtype=np.int64)
    span = window.size if window.cumulative else window.slide
    assert span is not None
    begin, end = (moment_of(window.zone, span.after(window.anchor, number + more)) for more in (0, 1))
    if not window.cumulative or begin >= end:
        return np.array([begin, end], np.int64)
    starts, ends = window.page(begin, end)
    return np.concatenate([[begin], ends[(starts == begin) & (ends > begin) & (ends <= end)]])


@lru_cache(maxsize=256)
def axis_of(window: Windows) -> WindowAxis | None:
    """Return the axis on which windows have one length; None if they have one on their own axis.

    >>> axis_of(SlidingWindow(size=30, slide=10)) is None
    True
    """
    if isinstance(window, SlidingWindow):
        return None
    assert isinstance(window, CalendarWindows | CumulativeWindows)
    return WindowAxis(window)


def sliding_of(window: Windows) -> SlidingWindow:
    """Return windows as engines see them."""
    axis = axis_of(window)
    if axis is not None:
        return axis.window
    assert isinstance(window, SlidingWindow)
    return window


def has_whole_panes(window: Windows) -> bool:
    """Return whether all windows have one number of panes, or are cumulative.

    >>> from skyband.calendar_windows import Span
    >>> month, day = Span(1, "month"), Span(1, "day")
    >>> [has_whole_panes(CalendarWindows(zone="UTC", size=month, slide=slide)) for slide in (month, day)]
    [True, False]
    """
    if isinstance(window, CumulativeWindows):
        return True
    assert isinstance(window, CalendarWindows)
    assert window.size is not None
    return window.cumulative or (window.size.unit == window.slide.unit and window.size.count % window.slide.count == 0)


def most_panes(window: Windows) -> int:
    """Return the number of answers while a window is open.

    >>> most_panes(CumulativeWindows(size=30, slide=10))
    3
    """
    return int(window.most_alive)
