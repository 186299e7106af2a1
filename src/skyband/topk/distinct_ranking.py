"""Rank rows with at most one row of each entity in an answer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skyband.data.answer_log import RankedWindows
from skyband.data.window_bounds import cells_between, irregular_of
from skyband.kernels.stream import Bools, Floats, Ints
from skyband.sharding.rows import Grouping, by_group_and_position
from skyband.topk.kernels import distinct as kernels
from skyband.topk.query import TopK
from skyband.windows import ALWAYS, IrregularWindows, SlidingWindow

__all__ = ["rank_distinct", "unbeaten_entities"]


def rank_distinct(
    query: TopK, keys: Floats, positions: Ints, entities: Ints, begins: Ints, answered: Ints, final: Ints
) -> tuple[RankedWindows, Ints]:
    """Return all windows up to `final` and to each group's newest row, and the rows that later ones need."""
    spans = zip(begins[:-1].tolist(), begins[1:].tolist(), strict=True)
    newest = np.array([positions[stop - 1] if stop > begin else ALWAYS for begin, stop in spans], np.int64)
    until = np.maximum(newest, np.minimum(final, newest + query.window.longest)).astype(np.int64)
    starts, ends = _windows(query, positions, answered, until)
    groups, windows, counts, rows, needed = kernels.rank_windows(
        np.ascontiguousarray(keys),
        np.ascontiguousarray(positions),
        np.ascontiguousarray(entities),
        np.ascontiguousarray(begins, np.int64),
        starts,
        ends,
        query.k,
        np.ascontiguousarray(answered, np.int64),
        until,
    )
    found = RankedWindows(np.zeros(groups.size, np.int64), groups, ends[windows], counts, keys[rows], rows)
    return found, needed


def _windows(query: TopK, positions: Ints, answered: Ints, until: Ints) -> tuple[Ints, Ints]:
    """Return starts and ends of all windows that contain a row and matter, oldest first."""
    if not positions.size:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    if isinstance(query.window, IrregularWindows):
        return query.window.page(max(int(positions.min()), int(answered.min())), int(until.max()))
    window, at = query.sliding, np.unique(positions)
    low = (at - window.origin) // window.slide + 1
    high = (at + window.size - window.origin) // window.slide
    gaps = low[1:] > high[:-1]
    firsts, lasts = low[np.append(True, gaps)], high[np.append(gaps, True)]
    spans = [np.arange(first, last + 1) for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True)]
    ends = window.origin + np.concatenate(spans).astype(np.int64) * window.slide
    return ends - window.size, ends


def unbeaten_entities(
    queries: Sequence[TopK], positions: Ints, keys: Floats, entities: Ints, grouping: Grouping
) -> Bools:
    """Return a mask of rows that can be in an answer, also if rows may be late: only later rows beat a row."""
    order, begins = by_group_and_position(positions, grouping)
    order = np.arange(positions.size) if order is None else order
    keys = -keys if queries[0].order == "asc" else keys
    cuts = [begins]
    sliding = [query.window for query in queries if isinstance(query.window, SlidingWindow)]
    for slide, origin in {(window.slide, window.origin) for window in sliding}:
        cuts.append(np.flatnonzero(np.diff((positions[order] - origin) // slide)) + 1)
    if irregular_of(queries):
        cuts.append(np.flatnonzero(np.diff(cells_between(queries, positions[order]))) + 1)
    marks = np.zeros(order.size, np.int64)
    k = min(max(query.k for query in queries), max(1, order.size))
    kernels.mark_unbeaten(keys[order], entities[order], np.unique(np.concatenate(cuts)), k, marks)
    kept = np.zeros(order.size, bool)
    kept[order[marks > 0]] = True
    return kept
