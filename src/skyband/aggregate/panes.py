"""Panes of a set of queries: the longest intervals that no bound of a window cuts.

Sliding windows have panes of one length. Bounds of irregular windows (of calendars, cumulative, landmarks) lie on no
lattice, so their panes are found among the bounds themselves. A pane has a number, which tasks and shards agree on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from skyband.data.window_bounds import next_bounds
from skyband.kernels.stream import Ints
from skyband.windows import IrregularWindows, SlidingWindow, Windows, common_pane

__all__ = ["IrregularPanes", "LatticePanes", "panes_for"]


class LatticePanes(NamedTuple):
    """Panes of one length. Pane i begins at ``i * length + offset``.

    >>> panes = LatticePanes(10, 3)
    >>> panes.numbers(np.array([2, 3, 12])).tolist(), panes.ends_of(np.array([2, 3])).tolist()
    ([-1, 0, 0], [3, 13])
    """

    length: int
    offset: int

    def numbers(self, positions: Ints) -> Ints:
        """Return the number of each position's pane."""
        found: Ints = (positions - self.offset) // self.length
        return found

    def ends(self, numbers: Ints) -> Ints:
        """Return the ends of panes with these numbers."""
        found: Ints = (numbers + 1) * self.length + self.offset
        return found

    def marks(self, numbers: Ints) -> Ints:
        """Return the position that stands for each pane in tables of partials: its start."""
        found: Ints = numbers * self.length + self.offset
        return found

    def ends_of(self, positions: Ints) -> Ints:
        """Return the end of each position's pane."""
        found: Ints = positions - (positions - self.offset) % self.length + self.length
        return found

    def marks_of(self, positions: Ints) -> Ints:
        """Return the mark of each position's pane."""
        return self.ends_of(positions) - self.length


class IrregularPanes(NamedTuple):
    """Panes between the bounds of irregular windows, and of a lattice if some windows are sliding.

    The number of a pane is its end. Its last position stands for it, because its start may be far away.

    >>> from skyband.calendar_windows import CumulativeWindows
    >>> panes = IrregularPanes((CumulativeWindows(size=30, slide=10),), LatticePanes(15, 0))
    >>> panes.ends_of(np.array([0, 9, 10, 14, 15, 29])).tolist()
    [10, 10, 15, 15, 20, 30]
    """

    windows: tuple[IrregularWindows, ...]
    lattice: LatticePanes | None

    def numbers(self, positions: Ints) -> Ints:
        """Return the number of each position's pane."""
        return self.ends_of(positions)

    def ends(self, numbers: Ints) -> Ints:
        """Return the ends of panes with these numbers."""
        return numbers

    def marks(self, numbers: Ints) -> Ints:
        """Return the position that stands for each pane in tables of partials: its last one."""
        found: Ints = numbers - 1
        return found

    def ends_of(self, positions: Ints) -> Ints:
        """Return the end of each position's pane."""
        found = next_bounds(self.windows, positions)
        if self.lattice is not None:
            np.minimum(found, self.lattice.ends_of(positions), out=found)
        return found

    def marks_of(self, positions: Ints) -> Ints:
        """Return the mark of each position's pane."""
        return self.marks(self.ends_of(positions))


def panes_for(windows: Iterable[Windows]) -> LatticePanes | IrregularPanes:
    """Return the panes of these windows, which must be sliding or irregular."""
    found = list(dict.fromkeys(windows))
    sliding = [window for window in found if isinstance(window, SlidingWindow)]
    irregular = tuple(window for window in found if isinstance(window, IrregularWindows))
    lattice = LatticePanes(*common_pane(sliding)) if sliding else None
    if lattice is not None and not irregular:
        return lattice
    return IrregularPanes(irregular, lattice)
