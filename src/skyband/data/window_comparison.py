"""Compare each window with the previous one of its owner (a query, or a group of a query)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels import window_comparison as kernels
from skyband.kernels.stream import Ints

__all__ = ["Comparison", "WindowRows", "compare", "parts"]


class WindowRows(NamedTuple):
    """An entry for each window, in any order; the rows of all windows in sequence, best first."""

    owners: Ints  # per window: a number for its query and group
    steps: Ints  # per window: the distance to the owner's next window end; 0 if no window is ever empty
    ends: Ints
    known: Ints  # per window: 1 if it has been reported already and only serves for comparison
    counts: Ints  # per window: its number of rows
    rows: Ints  # per row: a number for its object
    ranks: Ints


class Comparison(NamedTuple):
    """The changes, by window end and owner, and the windows that the next comparison needs."""

    windows: Ints  # per change: a window of the same owner
    ends: Ints  # per change: the end of the window in which it happens
    rows: Ints
    ranks: Ints  # 0: the row has left
    old_ranks: Ints  # 0: the row has entered
    kinds: Ints
    before: Ints | None  # per change: the window that it is compared with; NONE for a row that entered
    last: Ints  # the newest window of every owner, unless an empty window followed


def compare(windows: WindowRows, reached: int, who: int, *, with_before: bool = False) -> Comparison:
    """Compare each window with the previous one of its owner; `who` is greater than all numbers in `rows`.

    `reached` is the current time: windows that end by then without rows are empty. `before` is None unless requested.
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
    by_end = np.lexsort([sorted_.owners[out.windows], out.ends])  # stable: rows that left come first, then by rank
    found = kernels.ChangeBuffers._make(column[by_end] for column in out)
    before = None
    if with_before:
        # A row that left is of the window before; another row is of the window after it, which follows in this order.
        before = found.windows - (found.kinds == kernels.MOVED)
        before = np.where(found.kinds == kernels.ENTERED, kernels.NONE, order[before] if order.size else before)
    return Comparison(order[found.windows], *found[1:], before=before, last=order[last[:kept]])


def parts(counts: Ints, chosen: Ints) -> tuple[Ints, Ints]:
    """Return the indices of the rows of the `chosen` windows, in sequence, and where each window begins."""
    begins = np.cumsum(counts) - counts
    stops = np.cumsum(counts[chosen])
    places = np.arange(int(counts[chosen].sum())) + np.repeat(begins[chosen] - (stops - counts[chosen]), counts[chosen])
    return places, np.concatenate([[0], stops])
