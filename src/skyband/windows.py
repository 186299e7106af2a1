"""All window arithmetic: ends, starts, views and panes on one integer axis.

The axis is event time in microseconds or the sequence number of an object; the arithmetic is the same. Python's
integers floor towards minus infinity, so that positions before the origin (before 1970) need no special case.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from skyband.errors import InvalidQueryError

__all__ = ["ALWAYS", "AXIS_LIMIT", "NEVER", "SlidingWindow", "common_pane"]

# Kernels add a size to a position in int64; staying this far inside means that the sum never wraps.
AXIS_LIMIT = 2**62
ALWAYS = -(2**62)  # before every window
NEVER = 2**62  # after every window


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingWindow:
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
            raise InvalidQueryError(f"size={self.size} must be at least 1; an empty window holds no object.")
        if not 1 <= self.slide <= self.size:
            raise InvalidQueryError(
                f"slide={self.slide} must lie in 1..{self.size} (the window's size); "
                "a longer one would leave objects in no window at all, a shorter one would never move on."
            )
        if self.size >= AXIS_LIMIT or abs(self.origin) >= AXIS_LIMIT:
            raise InvalidQueryError(
                f"size={self.size} and origin={self.origin} must stay below 2**62; larger ones leave the integer axis."
            )

    def start(self, end: int) -> int:
        """The start of the window that ends at `end`."""
        return end - self.size

    def first_end_after(self, position: int) -> int:
        """The end of the oldest window that holds `position`: the smallest end beyond it."""
        return self.origin + ((position - self.origin) // self.slide + 1) * self.slide

    def last_end_at(self, position: int) -> int:
        """The largest end at or before `position`: the newest window that is final there."""
        return self.origin + (position - self.origin) // self.slide * self.slide

    def latest_start(self, position: int) -> int:
        """The start of the newest window that holds `position`: the youngest view it belongs to."""
        return self.last_end_at(position + self.size) - self.size

    def ends_holding(self, position: int) -> range:
        """The ends of all windows that hold `position`, oldest first."""
        return range(self.first_end_after(position), position + self.size + 1, self.slide)

    def views_alive(self, position: int) -> range:
        """The starts of the views that are open at `position`: begun at or before it and not yet answered."""
        ends = self.ends_holding(position)
        return range(ends.start - self.size, ends.stop - self.size, self.slide)

    def pane(self, position: int) -> tuple[int, int]:
        """The stretch ``[low, high)`` around `position` that no window's start or end cuts."""
        low = max(self.latest_start(position), self.last_end_at(position))
        high = min(self.latest_start(position) + self.slide, self.first_end_after(position))
        return low, high

    def panes(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        """The consecutive panes that cover ``[low, high)``."""
        while low < high:
            pane = self.pane(low)
            yield pane
            low = pane[1]

    @property
    def most_alive(self) -> int:
        """The largest number of windows that one object is in (the papers' C_nw)."""
        return -(-self.size // self.slide)


def common_pane(windows: Iterable[SlidingWindow]) -> tuple[int, int]:
    """The longest equal panes such that no window begins or ends inside one: their length, and where one begins.

    >>> common_pane([SlidingWindow(size=60, slide=20), SlidingWindow(size=90, slide=30, origin=15)])
    (5, 0)
    """
    found = list(windows)
    anchor = found[0].origin
    length = math.gcd(*(number for one in found for number in (one.origin - anchor, one.slide, one.size)))
    return length, anchor % length
