"""Bounds of irregular windows for kernels: arrays for a range of positions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from skyband.kernels.stream import Ints
from skyband.windows import ALWAYS, NEVER, IrregularWindows

__all__ = ["EVERYWHERE", "NOWHERE", "WindowPage", "page_at"]


class WindowPage(NamedTuple):
    """Windows by their index: those of window w are between ``begins[w]`` and ``begins[w + 1]``, oldest first.

    Positions from `low` to `high` can be looked up, and ends after `low`.
    """

    low: int
    high: int
    begins: Ints
    starts: Ints
    ends: Ints
    cuts: Ints  # all bounds, ascending


EVERYWHERE = WindowPage(ALWAYS, NEVER, np.zeros(1, np.int64), *(np.empty(0, np.int64) for _ in range(3)))
NOWHERE = EVERYWHERE._replace(low=1, high=0)  # before the first page is requested


def page_at(windows: Sequence[IrregularWindows], position: int) -> WindowPage:
    """Return a page that begins with `position`.

    >>> from skyband.calendar_windows import CumulativeWindows
    >>> page = page_at([CumulativeWindows(size=30, slide=10)], 12)
    >>> page.low, page.starts[:4].tolist(), page.ends[:4].tolist()
    (12, [0, 0, 30, 30], [20, 30, 40, 50])
    """
    return _page(tuple(windows), position)


@lru_cache(maxsize=64)
def _page(windows: tuple[IrregularWindows, ...], low: int) -> WindowPage:
    high = low + min(window.grid for window in windows)
    pages = [window.page(low, high) for window in windows]
    # A page of a window may begin earlier, at a multiple of its grid.
    mine = [(starts[ends > low], ends[ends > low]) for starts, ends in pages]
    starts, ends = (np.concatenate([pair[which] for pair in mine]) for which in (0, 1))
    begins = np.cumsum([0, *(len(pair[1]) for pair in mine)])
    return WindowPage(low, high, begins, starts, ends, np.unique(np.concatenate([starts, ends])))
