"""Window arithmetic: ends, starts, views and panes on one integer axis.

The axis is event time in microseconds or the sequence number of an object; the arithmetic is the same. Python's
integer division rounds towards minus infinity, so positions before the origin (before 1970) need no special case.

`Windows` is the interface that engines and shards use. `SlidingWindow` computes windows. `IrregularWindows` lie on no
lattice, and engines read them as pages of two sorted arrays: `ListedWindows` are given by lists, and
`skyband.calendar_windows` computes the windows of calendars.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from skyband.errors import InvalidQueryError

if TYPE_CHECKING:
    from numpy import int64
    from numpy.typing import NDArray

__all__ = [
    "ALWAYS",
    "AXIS_LIMIT",
    "NEVER",
    "IrregularWindows",
    "ListedWindows",
    "SlidingWindow",
    "Windows",
    "common_pane",
]

# Kernels add a size to a position in int64; below this limit the sum cannot overflow.
AXIS_LIMIT = 2**62
ALWAYS = -(2**62)  # before every window
NEVER = 2**62  # after every window


class Windows(ABC):
    """The windows ``[start, end)`` of one query.

    No two windows have the same end, and a window does not start before one that ends earlier. So open windows are
    identified by their starts (views), and objects before the oldest open start are not needed any more.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def longest(self) -> int:
        """The length of the longest window: a window that contains a position ends at most this much later."""

    @property
    @abstractmethod
    def most_alive(self) -> int:
        """The largest number of windows that contain one object (the papers' C_nw)."""

    @property
    def most_views(self) -> int:
        """The largest number of distinct starts of windows that contain one object."""
        return self.most_alive

    @property
    @abstractmethod
    def step(self) -> int:
        """The usual distance between the ends of two windows, in ticks."""

    @property
    def tail(self) -> int:
        """How far after its newest object a finished stream reports windows, at most."""
        return self.longest

    def last_end(self, newest: int) -> int:
        """Return the largest end that a stream finished after `newest` reports; `NEVER` if every window may be."""
        return NEVER

    @abstractmethod
    def first_end_after(self, position: int) -> int:
        """Return the smallest end after `position`; `NEVER` if no window ends later."""

    @abstractmethod
    def start(self, end: int) -> int:
        """Return the start of the window that ends at `end`; `NEVER` for the end `NEVER`."""

    @abstractmethod
    def first_end_from(self, start: int) -> int:
        """Return the end of the oldest window that starts at `start` or later; `NEVER` if none does."""

    def ends_between(self, low: int, high: int) -> Iterator[int]:
        """Yield the ends in ``(low, high]``, oldest first.

        >>> list(SlidingWindow(size=5, slide=2).ends_between(2, 8))
        [4, 6, 8]
        """
        while (low := self.first_end_after(low)) <= high:
            yield low


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingWindow(Windows):
    """Windows ``[end - size, end)`` with ``end = origin + i * slide``, in ticks of the stream's axis.

    ```text
    size 5, slide 2, origin 0            0 1 2 3 4 5 6 7 8
    window ending at 6                     [ - - - - )
    window ending at 8                         [ - - - - )
    panes (no boundary cuts them)        |-|-|-|-|-|-|-|-|      starts are odd, ends are even
    ```

    >>> w = SlidingWindow(size=5, slide=2)
    >>> list(w.ends_holding(3)), w.latest_start(3), w.pane(3)
    ([4, 6, 8], 3, (3, 4))
    """

    size: int
    slide: int
    origin: int = 0

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InvalidQueryError(f"size must be at least 1, got {self.size}.")
        if not 1 <= self.slide <= self.size:
            raise InvalidQueryError(
                f"slide must be between 1 and {self.size} (the window size), got {self.slide}. "
                "With a longer one, some objects would be in no window."
            )
        if self.size >= AXIS_LIMIT or abs(self.origin) >= AXIS_LIMIT:
            raise InvalidQueryError(
                f"size={self.size} and origin={self.origin} must be below 2**62. Larger values overflow 64-bit "
                "integers."
            )

    @property
    def longest(self) -> int:
        return self.size

    @property
    def step(self) -> int:
        return self.slide

    def start(self, end: int) -> int:
        return end - self.size

    def first_end_from(self, start: int) -> int:
        return self.first_end_after(start + self.size - 1)

    def first_end_after(self, position: int) -> int:
        return self.origin + ((position - self.origin) // self.slide + 1) * self.slide

    def last_end_at(self, position: int) -> int:
        """Return the largest end at or before `position`: the newest window that is final there."""
        return self.origin + (position - self.origin) // self.slide * self.slide

    def latest_start(self, position: int) -> int:
        """Return the start of the newest window that contains `position`: its newest view."""
        return self.last_end_at(position + self.size) - self.size

    def ends_holding(self, position: int) -> range:
        """Return the ends of all windows that contain `position`, oldest first."""
        return range(self.first_end_after(position), position + self.size + 1, self.slide)

    def views_alive(self, position: int) -> range:
        """Return the starts of the views open at `position`: started at or before it and not yet answered."""
        ends = self.ends_holding(position)
        return range(ends.start - self.size, ends.stop - self.size, self.slide)

    def pane(self, position: int) -> tuple[int, int]:
        """Return the pane ``[low, high)`` that contains `position`: no window starts or ends inside it."""
        low = max(self.latest_start(position), self.last_end_at(position))
        high = min(self.latest_start(position) + self.slide, self.first_end_after(position))
        return low, high

    def panes(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        """Yield the consecutive panes that cover ``[low, high)``."""
        while low < high:
            pane = self.pane(low)
            yield pane
            low = pane[1]

    @property
    def most_alive(self) -> int:
        return -(-self.size // self.slide)


class IrregularWindows(Windows):
    """Windows that do not lie on one lattice. They are read as pages: arrays of starts and ends, oldest first.

    The sequence of windows may be endless, so a page covers a range of positions.
    """

    __slots__ = ()

    @abstractmethod
    def arrays(self, low: int, high: int) -> tuple[NDArray[int64], NDArray[int64]]:
        """Return starts and ends of the windows that positions in ``(low, high]`` need, oldest first.

        They contain every window that ends after `low` and not after the first end after `high`; one window for each
        start up to `high`, if a window with this start ends later; and the first window that starts after `high`.
        """

    @property
    def begin(self) -> int:
        """The position at which the first window starts; every later one is in a window, except of listed windows."""
        return ALWAYS

    @property
    def grid(self) -> int:
        """Pages begin and end at multiples of this, so that many readers share few of them."""
        return 512 * self.step

    def page(self, low: int, high: int) -> tuple[NDArray[int64], NDArray[int64]]:
        """Return at least the arrays for ``(low, high]``. They are cached, and must not be changed.

        >>> starts, ends = ListedWindows([0, 0], [10, 20]).page(5, 15)
        >>> starts.tolist(), ends.tolist()
        ([0, 0], [10, 20])
        """
        return _page(self, low // self.grid * self.grid, -(-high // self.grid) * self.grid)

    def reported(self, oldest: int, newest: int) -> tuple[NDArray[int64], NDArray[int64]]:
        """Return all windows that a finished stream with objects from `oldest` to `newest` may report."""
        starts, ends = self.page(oldest, newest + self.tail)
        mine = (ends > oldest) & (starts <= newest) & (ends <= self.last_end(newest))
        return starts[mine], ends[mine]

    def first_end_after(self, position: int) -> int:
        _, ends = self.page(position, position)
        return _first(ends, ends, position, "right")

    def start(self, end: int) -> int:
        starts, ends = self.page(end - 1, end)
        return NEVER if end >= NEVER else _first(starts, ends, end, "left")

    def first_end_from(self, start: int) -> int:
        starts, ends = self.page(start - 1, start)
        return _first(ends, starts, start, "left")


def _first(values: NDArray[int64], ordered: NDArray[int64], position: int, side: Any) -> int:
    place = int(ordered.searchsorted(position, side=side))
    return int(values[place]) if place < values.size else NEVER


@lru_cache(maxsize=64)
def _page(window: IrregularWindows, low: int, high: int) -> tuple[NDArray[int64], NDArray[int64]]:
    return window.arrays(low, high)


@dataclass(frozen=True, slots=True, repr=False)
class ListedWindows(IrregularWindows):
    """Windows of any lengths and distances, given by their starts and ends, oldest first.

    Several windows may have the same start (cumulative windows), lengths may differ (calendar days with daylight
    saving), and there may be gaps between windows. Objects in a gap are in no window.

    >>> cumulative = ListedWindows([0, 0, 0, 30, 30, 30], [10, 20, 30, 40, 50, 60])
    >>> cumulative.first_end_after(30), cumulative.start(30), cumulative.start(40), cumulative.longest
    (40, 0, 30, 30)
    """

    starts: tuple[int, ...]
    ends: tuple[int, ...]
    _hash: int = field(init=False, compare=False)  # computed once: the lists are long, and queries are dictionary keys

    def __init__(self, starts: Iterable[int], ends: Iterable[int]) -> None:
        found = tuple(map(int, starts)), tuple(map(int, ends))
        _check_listed(*found)
        for name, value in (("starts", found[0]), ("ends", found[1]), ("_hash", hash(found))):
            object.__setattr__(self, name, value)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        spans = f"[{self.starts[0]}, {self.ends[0]}) … [{self.starts[-1]}, {self.ends[-1]})"
        return f"<ListedWindows: {len(self.ends)} from {spans}>"

    @property
    def longest(self) -> int:
        return max(end - start for start, end in zip(self.starts, self.ends, strict=True))

    @property
    def most_alive(self) -> int:
        # The maximum is reached at some window's start: count the windows up to it that end later.
        open_at = (place - bisect_right(self.ends, start) for place, start in enumerate(self.starts, 1))
        return max(open_at)

    @property
    def step(self) -> int:
        return max(1, (self.ends[-1] - self.ends[0]) // len(self.ends))

    def arrays(self, low: int, high: int) -> tuple[NDArray[int64], NDArray[int64]]:
        import numpy as np  # noqa: PLC0415 - queries are read without it

        return np.array(self.starts, np.int64), np.array(self.ends, np.int64)

    def page(self, low: int, high: int) -> tuple[NDArray[int64], NDArray[int64]]:
        return _page(self, 0, 0)  # always the whole list

    def first_end_after(self, position: int) -> int:
        place = bisect_right(self.ends, position)
        return self.ends[place] if place < len(self.ends) else NEVER

    def start(self, end: int) -> int:
        place = bisect_left(self.ends, end)
        return self.starts[place] if place < len(self.ends) else NEVER

    def first_end_from(self, start: int) -> int:
        place = bisect_left(self.starts, start)
        return self.ends[place] if place < len(self.ends) else NEVER


def _check_listed(starts: tuple[int, ...], ends: tuple[int, ...]) -> None:
    if not starts or len(starts) != len(ends):
        raise InvalidQueryError(
            f"starts and ends must have the same length of at least 1, got {len(starts)} starts and {len(ends)} ends."
        )
    for start, end in zip(starts, ends, strict=True):
        if not -AXIS_LIMIT < start < end < AXIS_LIMIT:
            raise InvalidQueryError(
                f"a window must end after its start, and both must be between -2**62 and 2**62, got [{start}, {end})."
            )
    for before, after in pairwise(zip(starts, ends, strict=True)):
        if after[0] < before[0] or after[1] <= before[1]:
            raise InvalidQueryError(
                f"ends must increase and starts must not decrease, but window [{after[0]}, {after[1]}) follows "
                f"[{before[0]}, {before[1]}). Answers are identified by the window end."
            )


def common_pane(windows: Iterable[SlidingWindow]) -> tuple[int, int]:
    """Return the length of the longest equal panes that no window boundary cuts, and where one begins.

    >>> common_pane([SlidingWindow(size=60, slide=20), SlidingWindow(size=90, slide=30, origin=15)])
    (5, 0)
    """
    found = list(windows)
    anchor = found[0].origin
    length = math.gcd(*(number for one in found for number in (one.origin - anchor, one.slide, one.size)))
    return length, anchor % length
