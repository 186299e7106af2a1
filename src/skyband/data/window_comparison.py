"""Windows of many owners (a query, or a group of one) compared each with the one before it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels import window_comparison as kernels
from skyband.kernels.stream import Ints

__all__ = ["Comparison", "WindowRows", "compare", "parts"]


class WindowRows(NamedTuple):
    """An entry for each window, in any order; the rows of the windows one after another, best first."""

    owners: Ints  # per window: tells query and group apart
    steps: Ints  # per window: how far the owner's next window ends after it; 0 where no window is ever empty
    ends: Ints
    known: Ints  # per window: 1 if it has been told already, and is only what the next one is compared with
    counts: Ints  # per window: its number of rows
    rows: Ints  # per row: who it is
    ranks: Ints


class Comparison(NamedTuple):
    """What changes, by window end and owner, and what the next comparison begins with."""

    windows: Ints  # per change: a window of the same owner
    ends: Ints  # per change: the end of the window in which it happens
    rows: Ints
    ranks: Ints  # 0: the row has left
    old_ranks: Ints  # 0: the row has entered
    kinds: Ints
    last: Ints  # the newest window of every owner, except where an empty one has followed


def compare(windows: WindowRows, reached: int, who: int) -> Comparison:
    """Compare each window with its owner's one before; `who` is more than the largest number in `rows`.

    Time has come to `reached`: windows that end by then and hold nothing count as empty.
    """
    order = np.lexsort([windows.ends, windows.owners])
    picked, begins = parts(windows.counts, order)
    sorted_ = kernels.ComparedWindows(
        owners=windows.owners[order],
        ends=windows.ends[order],
        steps=windows.steps[order],
        known=windows.known[order],
        begins=begins,
        rows=windows.rows[picked],
        ranks=windows.ranks[picked],
    )
    out = kernels.ChangeBuffers(*(np.empty(2 * windows.rows.size, np.int64) for _ in kernels.ChangeBuffers._fields))
    last = np.empty(order.size, np.int64)
    none = np.zeros(who, np.int64)
    size, kept = kernels.find_changes(sorted_, reached, none, none.copy(), out, last)
    out = kernels.ChangeBuffers._make(column[:size] for column in out)
    by_end = np.lexsort([sorted_.owners[out.windows], out.ends])  # stable: who left comes first, then by rank
    found = kernels.ChangeBuffers._make(column[by_end] for column in out)
    return Comparison(order[found.windows], *found[1:], last=order[last[:kept]])


def parts(counts: Ints, chosen: Ints) -> tuple[Ints, Ints]:
    """The places of the rows of the `chosen` windows, one window after another; and where each window's begin."""
    begins = np.cumsum(counts) - counts
    stops = np.cumsum(counts[chosen])
    places = np.arange(int(counts[chosen].sum())) + np.repeat(begins[chosen] - (stops - counts[chosen]), counts[chosen])
    return places, np.concatenate([[0], stops])
