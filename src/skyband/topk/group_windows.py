"""The windows of one query over many groups, with all rows in memory."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.data.answer_log import RankedWindows
from skyband.kernels.stream import Ints, KernelQuery, end_after
from skyband.topk.algorithms.base import kernel_query
from skyband.topk.kernels import group_windows as kernels
from skyband.topk.kernels.group_windows import GroupAnswers, GroupBand, GroupedRows, Places
from skyband.topk.query import TopK
from skyband.topk.window_ranking import Lined
from skyband.windows import SlidingWindow

__all__ = ["rank_group_windows"]

MOST_CANDIDATES = 1024  # of a group: beyond, merging blocks of rows is faster than adding them one by one
ROOM = 4  # places for at most this many times as many ends as there are rows
MANY_ROWS = 1 << 16  # with fewer rows, a second thread takes longer to start than to run


def rank_group_windows(query: TopK, rows: Lined, ids: Ints, finals: Ints, first: int) -> RankedWindows | None:
    """Return the windows of all groups that end at or before the group's entry in `finals`, by end and group.

    `ids` are those that answers contain. With `full_only`, windows begin at `first` or later. None: the query or the
    stream needs another executor, because a group may have many candidates, or the stream has few rows for its length.
    """
    window, groups = query.window, rows.begins.size - 1
    if groups < 2 or query.ties == "rank" or not isinstance(window, SlidingWindow):
        return None
    room = query.k * (-(-window.size // window.slide) + 3)
    asked = kernel_query(query)
    low = int(end_after(asked, int(rows.positions.min())))
    ends = (int(rows.positions.max()) + window.size - low) // window.slide + 2
    if room > MOST_CANDIDATES or ends > ROOM * (rows.scores.size + 1024):
        return None
    parts = _parts(query, rows, ids, finals)
    counted = [_places(ends, low) for _ in parts]
    _each(lambda part, places: kernels.count_windows(part, asked, first, places), parts, counted)
    return _ranked(asked, first, room, parts, counted)


def _ranked(
    query: KernelQuery, first: int, room: int, parts: list[GroupedRows], counted: list[Places]
) -> RankedWindows:
    low, ends = counted[0].low, counted[0].windows.size
    windows, rows = (np.array([getattr(one, name) for one in counted]) for name in ("windows", "rows"))
    by_end = windows.sum(axis=0)
    answers = GroupAnswers(
        np.empty(int(by_end.sum()), np.int64), np.empty(int(rows.sum())), np.empty(int(rows.sum()), np.int64)
    )
    # Each part writes behind the parts with smaller groups, end by end.
    begins = [np.cumsum(counts.T).reshape(ends, -1).T - counts for counts in (windows, rows)]
    places = [
        Places(np.ascontiguousarray(begins[0][at]), np.ascontiguousarray(begins[1][at]), low)
        for at in range(len(parts))
    ]
    _each(
        lambda part, mine: kernels.rank_groups(part, query, first, _band(room), mine, answers),
        parts,
        places,
    )
    none = np.zeros(answers.counts.size, np.int64)
    moments = np.repeat(int(low[0]) + np.arange(ends) * query.slide, by_end)
    return RankedWindows(none, none, moments, answers.counts, answers.keys, answers.ids)


def _parts(query: TopK, rows: Lined, ids: Ints, finals: Ints) -> list[GroupedRows]:
    """Cut the groups into parts with about as many rows each, one for each thread."""
    keys = -rows.scores if query.order == "asc" else rows.scores
    many = pa.cpu_count() if keys.size >= MANY_ROWS else 1
    cuts = np.unique(np.searchsorted(rows.begins, np.linspace(0, keys.size, many + 1)))
    return [
        GroupedRows(keys, rows.positions, ids, rows.begins[low : high + 1], finals[low:high])
        for low, high in pairwise(cuts)
    ]


def _each(call: Any, *arguments: list[Any]) -> None:
    """Call a function with the arguments of each part, in as many threads."""
    if len(arguments[0]) == 1:
        call(*(one[0] for one in arguments))
        return
    with ThreadPoolExecutor(len(arguments[0])) as pool:
        list(pool.map(call, *arguments))


def _places(ends: int, low: int) -> Places:
    return Places(np.zeros(ends, np.int64), np.zeros(ends, np.int64), np.array([low], np.int64))


def _band(room: int) -> GroupBand:
    return GroupBand(np.empty(room), *(np.empty(room, np.int64) for _ in range(3)))
