"""One query over many groups with all rows in memory: few candidates per group, answers written where they belong.

Rows are given by group. The candidates of the current group are a short list, best first: the rows that fewer than k
better rows of the same or a later pane beat. A row that k better rows of the same pane beat is rejected by one
comparison. Windows are counted by end first, so that an answer is written directly to its place in the table, by end
and then by group, and nothing is sorted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import kernel
from skyband.kernels.stream import Floats, Ints, KernelQuery, end_after


class GroupedRows(NamedTuple):
    """Rows by group, in each group in stream order."""

    keys: Floats
    positions: Ints
    ids: Ints
    begins: Ints  # (groups + 1): where each group's rows begin
    finals: Ints  # per group: windows that end later are not reported


class Places(NamedTuple):
    """Where answers are written: for each end from `low` on, the next window and the next row."""

    windows: Ints
    rows: Ints
    low: Ints  # one number: the first end


class GroupBand(NamedTuple):
    """The candidates of a group, best first; with capacity for k of each pane of a window, and two more panes."""

    keys: Floats
    positions: Ints
    ids: Ints
    beaten: Ints  # number of better rows in the same pane or later


class GroupAnswers(NamedTuple):
    """Windows by end and group, and their rows."""

    counts: Ints  # per window
    keys: Floats  # per row
    ids: Ints


@kernel
def count_windows(rows: GroupedRows, query: KernelQuery, first: int, places: Places) -> None:
    """Count the windows of all groups and their rows by end; full-only windows begin at `first` or later."""
    for group in range(rows.begins.size - 1):
        low, high, stop = rows.begins[group], rows.begins[group], rows.begins[group + 1]
        while high < stop:
            end = end_after(query, rows.positions[high])
            at = (end - places.low[0]) // query.slide
            while end <= rows.finals[group]:
                start = end - query.size
                while high < stop and rows.positions[high] < end:
                    high += 1
                while low < high and rows.positions[low] < start:
                    low += 1
                if low == high:
                    break
                if not query.full_only or start >= first:
                    places.windows[at] += 1
                    places.rows[at] += min(query.k, high - low)
                end += query.slide
                at += 1
            if end > rows.finals[group]:
                break


@kernel
def add_row(band: GroupBand, size: int, key: float, position: int, id_: int, beaten: int, k: int) -> int:
    """Add the newest row; drop the rows that k better ones beat now; return the number of rows."""
    place = size
    while place > 0 and band.keys[place - 1] <= key:  # of equal keys, the newest is the best
        place -= 1
    to = place
    for i in range(place, size):
        if band.beaten[i] + 1 < k:
            band.keys[to], band.positions[to], band.ids[to] = band.keys[i], band.positions[i], band.ids[i]
            band.beaten[to] = band.beaten[i] + 1
            to += 1
    for i in range(to, place, -1):
        band.keys[i], band.positions[i], band.ids[i] = band.keys[i - 1], band.positions[i - 1], band.ids[i - 1]
        band.beaten[i] = band.beaten[i - 1]
    band.keys[place], band.positions[place], band.ids[place], band.beaten[place] = key, position, id_, beaten
    return to + 1


@kernel
def better_in_pane(band: GroupBand, size: int, key: float, pane: int) -> int:
    """Number of rows with a higher key at or after the start of the pane."""
    found, i = 0, 0
    while i < size and band.keys[i] > key:
        found += band.positions[i] >= pane
        i += 1
    return found


@kernel
def pane_bar(band: GroupBand, size: int, pane: int, k: int) -> float:
    """The lowest key of the pane's rows if there are k of them: no lower key can be in an answer."""
    found, bar = 0, -np.inf
    for i in range(size):
        if band.positions[i] >= pane:
            found += 1
            bar = band.keys[i]
    return bar if found == k else -np.inf


@kernel
def drop_expired(band: GroupBand, size: int, start: int) -> int:
    """Drop rows before `start`; return the number of rows."""
    to = 0
    while to < size and band.positions[to] >= start:
        to += 1
    for i in range(to + 1, size):
        if band.positions[i] >= start:
            band.keys[to], band.positions[to], band.ids[to] = band.keys[i], band.positions[i], band.ids[i]
            band.beaten[to] = band.beaten[i]
            to += 1
    return to


@kernel
def rank_groups(
    rows: GroupedRows, query: KernelQuery, first: int, band: GroupBand, places: Places, answers: GroupAnswers
) -> None:
    """Answer the windows that `count_windows` has counted; `places` has the next window and row of each end."""
    k, slide = query.k, query.slide
    for group in range(rows.begins.size - 1):
        row, stop = rows.begins[group], rows.begins[group + 1]
        while row < stop:
            size, pane, pane_end, taken, bar = 0, 0, rows.positions[row], 0, -np.inf
            end = end_after(query, rows.positions[row])
            at = (end - places.low[0]) // slide
            newest = rows.positions[row]
            while newest >= end - query.size and end <= rows.finals[group]:
                while row < stop and rows.positions[row] < end:
                    key, newest = rows.keys[row], rows.positions[row]
                    beaten = 0
                    if newest >= pane_end:
                        pane_end = end_after(query, newest + query.size) - query.size
                        pane, taken, bar = pane_end - slide, 0, -np.inf
                    elif key < bar:
                        row += 1
                        continue
                    else:
                        beaten = better_in_pane(band, size, key, pane)
                    size = add_row(band, size, key, newest, rows.ids[row], beaten, k)
                    taken += 1
                    if taken >= k:
                        bar = pane_bar(band, size, pane, k)
                    row += 1
                start = end - query.size
                size = drop_expired(band, size, start)
                if not query.full_only or start >= first:
                    count, to = min(k, size), places.rows[at]
                    for i in range(count):
                        answers.keys[to + i], answers.ids[to + i] = band.keys[i], band.ids[i]
                    answers.counts[places.windows[at]] = count
                    places.windows[at] += 1
                    places.rows[at] = to + count
                end += slide
                at += 1
            if end > rows.finals[group]:
                break
