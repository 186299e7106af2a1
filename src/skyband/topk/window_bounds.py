"""Window starts and the distance to the next window end, for many windows at once, given by query and end."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from skyband.kernels.stream import Ints
from skyband.topk.query import TopK
from skyband.windows import NEVER, ListedWindows, SlidingWindow

__all__ = ["all_sliding", "cells_between", "listed_of", "starts_of", "steps_after"]


def all_sliding(queries: Sequence[TopK]) -> bool:
    """Whether all these queries have sliding windows."""
    return all(isinstance(query.window, SlidingWindow) for query in queries)


def listed_of(queries: Sequence[TopK]) -> list[ListedWindows]:
    """The distinct window lists of these queries."""
    return list(dict.fromkeys(query.window for query in queries if isinstance(query.window, ListedWindows)))


def starts_of(queries: Sequence[TopK], places: Ints, ends: Ints) -> Ints:
    """Return the starts of windows that end at `ends`; `places` contains the index of each window's query.

    >>> import skyband as sb
    >>> starts_of([sb.TopK(k=1, size=10), sb.TopK(k=1, size=4)], np.array([0, 1]), np.array([20, 20])).tolist()
    [10, 16]
    """
    lengths = np.array([query.window.longest for query in queries], np.int64)
    starts: Ints = ends - lengths[places]
    for place, query in enumerate(queries):
        if isinstance(query.window, ListedWindows):
            mine = places == place
            listed_starts, listed_ends = _arrays(query.window)
            starts[mine] = listed_starts[np.searchsorted(listed_ends, ends[mine])]
    return starts


def steps_after(queries: Sequence[TopK], places: Ints, ends: Ints) -> Ints:
    """Distance to the next window end of the same query; 0 on a count axis, where no window is empty."""
    slides = [query.window.slide if isinstance(query.window, SlidingWindow) else 0 for query in queries]
    if queries[0].axis == "count":
        slides = [0] * len(queries)
    steps: Ints = np.array(slides, np.int64)[places]
    for place, query in enumerate(queries):
        if isinstance(query.window, ListedWindows):
            mine = places == place
            listed_ends = np.append(_arrays(query.window)[1], NEVER)
            steps[mine] = listed_ends[np.searchsorted(listed_ends, ends[mine], side="right")] - ends[mine]
    return steps


def cells_between(queries: Sequence[TopK], positions: Ints, *, starts: bool = False) -> Ints:
    """A number per position that changes if the end of a listed window is between two positions, or at the later one.

    With `starts`, it changes if a start is between them, or at the earlier one.
    """
    cells = np.zeros(positions.size, np.int64)
    for window in listed_of(queries):
        bounds = np.unique(_arrays(window)[0]) if starts else _arrays(window)[1]
        cells += np.searchsorted(bounds, positions, side="left" if starts else "right")
    return cells


@lru_cache(maxsize=64)
def _arrays(window: ListedWindows) -> tuple[Ints, Ints]:
    return np.array(window.starts, np.int64), np.array(window.ends, np.int64)
