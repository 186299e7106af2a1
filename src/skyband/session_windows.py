"""Session windows: the rows of a group that follow each other closely.

A session starts with a row. It contains every later row of its group that is less than `gap` after the row before it,
and less than `max_length` after its first row. The next row starts the next session. Therefore sessions of a group do
not overlap, and they depend on the times of rows only, not on the order in which rows arrive.
"""

from __future__ import annotations

from dataclasses import dataclass

from skyband.windows import AXIS_LIMIT, Windows

__all__ = ["SessionWindows"]

_ENDLESS = AXIS_LIMIT // 2  # sums with positions do not overflow


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionWindows(Windows):
    """Windows ``[first, last + gap)`` around rows, which end at ``first + max_length`` at the latest.

    Their bounds follow from the rows, so this class only has bounds of bounds.

    >>> visits = SessionWindows(gap=30, max_length=100)
    >>> visits.end(5, 40), visits.end(5, 90), visits.first_end_from(5)
    (70, 105, 35)
    """

    gap: int
    max_length: int | None = None

    def end(self, first: int, last: int) -> int:
        """Return the end of the session with these first and last rows."""
        return min(last + self.gap, first + self.limit)

    @property
    def limit(self) -> int:
        """The maximal length; without one, a length that is never reached."""
        return _ENDLESS if self.max_length is None else self.max_length

    @property
    def longest(self) -> int:
        return self.limit

    @property
    def most_alive(self) -> int:
        return 1

    @property
    def step(self) -> int:
        return self.gap

    @property
    def tail(self) -> int:
        return self.gap

    def first_end_after(self, position: int) -> int:
        """Return the smallest end after `position` that a session can have."""
        return position + 1

    def start(self, end: int) -> int:
        """Return the smallest start that a session with this end can have."""
        return end - self.longest

    def first_end_from(self, start: int) -> int:
        """Return the smallest end of a session that starts at `start` or later."""
        return start + min(self.gap, self.limit)
