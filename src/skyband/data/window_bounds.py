"""Window starts and the distance to the next window end, for many windows at once, given by query and end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from skyband.kernels.stream import Ints
from skyband.windows import NEVER, IrregularWindows, SlidingWindow

__all__ = ["all_sliding", "cells_between", "irregular_of", "last_ends", "next_bounds", "starts_of", "steps_after"]

_STEPS = 8192  # positions so many slides apart are looked up in different pages: a long silence needs no memory


def all_sliding(queries: Sequence[Any]) -> bool:
    """Whether all these queries have sliding windows."""
    return all(isinstance(query.window, SlidingWindow) for query in queries)


def irregular_of(queries: Sequence[Any]) -> list[IrregularWindows]:
    """The distinct irregular windows of these queries."""
    return list(dict.fromkeys(query.window for query in queries if isinstance(query.window, IrregularWindows)))


def last_ends(queries: Sequence[Any], newest: int) -> Ints:
    """Per query: the largest end that a stream finished after `newest` reports.

    >>> import skyband as sb
    >>> ends = last_ends([sb.TopK(k=1, size="1 day"), sb.TopK(k=1, size=None, slide="1 minute")], 5)
    >>> (ends == NEVER).tolist(), int(ends[1])
    ([True, False], 60000000)
    """
    return np.array([query.window.last_end(newest) for query in queries], np.int64)


def starts_of(queries: Sequence[Any], places: Ints, ends: Ints) -> Ints:
    """Return the starts of windows that end at `ends`; `places` contains the index of each window's query.

    >>> import skyband as sb
    >>> starts_of([sb.TopK(k=1, size=10), sb.TopK(k=1, size=4)], np.array([0, 1]), np.array([20, 20])).tolist()
    [10, 16]
    """
    lengths = np.array([query.window.longest for query in queries], np.int64)
    starts: Ints = ends - lengths[places]
    for place, query in enumerate(queries):
        if isinstance(query.window, IrregularWindows):
            mine = np.flatnonzero(places == place)
            for some, listed_starts, listed_ends in _by_page(query.window, ends[mine]):
                starts[mine[some]] = listed_starts[np.searchsorted(listed_ends, ends[mine[some]])]
    return starts


def steps_after(queries: Sequence[Any], places: Ints, ends: Ints) -> Ints:
    """Distance to the next window end of the same query; 0 on a count axis, where no window is empty."""
    slides = [query.window.slide if isinstance(query.window, SlidingWindow) else 0 for query in queries]
    if queries[0].axis == "count":
        slides = [0] * len(queries)
    steps: Ints = np.array(slides, np.int64)[places]
    for place, query in enumerate(queries):
        if isinstance(query.window, IrregularWindows):
            mine = np.flatnonzero(places == place)
            for some, _, listed_ends in _by_page(query.window, ends[mine]):
                its_ends = ends[mine[some]]
                steps[mine[some]] = _next(listed_ends, its_ends, "right") - its_ends
    return steps


def cells_between(queries: Sequence[Any], positions: Ints, *, starts: bool = False) -> Ints:
    """A number per position that changes if an irregular window ends between two positions, or at the later one.

    With `starts`, it changes if a start is between them, or at the earlier one.
    """
    cells = np.zeros(positions.size, np.int64)
    for window in irregular_of(queries):
        bounds = np.empty_like(cells)
        for some, listed_starts, listed_ends in _by_page(window, positions):
            ordered = listed_starts if starts else listed_ends
            bounds[some] = _next(ordered, positions[some], "left" if starts else "right")
        cells += np.unique(bounds, return_inverse=True)[1].reshape(-1)
    return cells


def _by_page(window: IrregularWindows, positions: Ints) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Yield indexes of some of the positions, and the starts and ends of a page of windows for them."""
    order = np.argsort(positions, kind="stable")
    in_order, at = positions[order], 0
    while at < order.size:
        low = int(in_order[at])
        stop = int(np.searchsorted(in_order, low + _STEPS * window.step, side="right"))
        yield order[at:stop], *window.page(low - 1, int(in_order[stop - 1]))
        at = stop


def _next(ordered: Ints, positions: Ints, side: Any) -> Ints:
    """Return the first of these ascending numbers after each position (right), or at it (left)."""
    found: Ints = np.append(ordered, NEVER)[np.searchsorted(ordered, positions, side=side)]
    return found


def next_bounds(windows: Sequence[IrregularWindows], positions: Ints) -> Ints:
    """Return the first start or end of one of these windows after each position.

    >>> from skyband.calendar_windows import CumulativeWindows
    >>> next_bounds([CumulativeWindows(size=30, slide=10)], np.array([0, 9, 10, 29])).tolist()
    [10, 10, 20, 30]
    """
    found = np.full(positions.size, NEVER)
    for window in windows:
        for some, starts, ends in _by_page(window, positions):
            mine = positions[some]
            bounds = np.minimum(_next(starts, mine, "right"), _next(ends, mine, "right"))
            found[some] = np.minimum(found[some], bounds)
    return found
