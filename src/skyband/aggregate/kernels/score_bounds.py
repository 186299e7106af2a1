"""Bounds of the scores of keys in windows: the sums of their bounds in the panes of the window."""

from __future__ import annotations

from typing import NamedTuple

from skyband.aggregate.kernels.space_saving import sum_down, sum_up
from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.stream import Floats, Ints


class ClosedPanes(NamedTuple):
    """The counters of panes, oldest pane first. Those of pane p are between ``stops[p - 1]`` and ``stops[p]``."""

    stops: Ints
    slots: Ints  # of the keys; ascending within a pane
    highs: Floats
    lows: Floats
    offset_stops: Ints
    groups: Ints  # the groups with evicted keys; ascending within a pane
    offsets: Floats  # the largest total that a key without a counter can have


class BoundedWindows(NamedTuple):
    """Windows with their rows, and where the bounds are written."""

    firsts: Ints  # per window: its first pane
    lasts: Ints  # per window: the pane after its last one
    groups: Ints  # per window
    stops: Ints  # per window: end of its rows
    offsets: Floats  # per window: the largest score that a key without a counter can have
    slots: Ints  # per row
    highs: Floats  # per row
    lows: Floats  # per row


@inner_kernel
def find(numbers: Ints, low: int, high: int, wanted: int) -> int:
    """Return the index of a number in ``numbers[low:high]``, which ascend; `high` if it is not there."""
    end = high
    while low < high:
        middle = (low + high) // 2
        if numbers[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low if low < end and numbers[low] == wanted else end


@kernel
def bound_rows(panes: ClosedPanes, windows: BoundedWindows) -> None:
    """Write the bounds of all rows, and of keys without a counter."""
    begin = 0
    for w in range(windows.groups.size):
        total = 0.0
        for row in range(begin, windows.stops[w]):
            windows.highs[row] = windows.lows[row] = 0.0
        for pane in range(windows.firsts[w], windows.lasts[w]):
            low, high = panes.offset_stops[pane - 1] if pane else 0, panes.offset_stops[pane]
            at = find(panes.groups, low, high, windows.groups[w])
            offset = panes.offsets[at] if at < high else 0.0
            total = sum_up(total, offset)
            low, high = panes.stops[pane - 1] if pane else 0, panes.stops[pane]
            for row in range(begin, windows.stops[w]):
                at = find(panes.slots, low, high, windows.slots[row])
                if at < high:
                    windows.highs[row] = sum_up(windows.highs[row], panes.highs[at])
                    windows.lows[row] = sum_down(windows.lows[row], panes.lows[at])
                else:
                    windows.highs[row] = sum_up(windows.highs[row], offset)
        windows.offsets[w] = total
        begin = windows.stops[w]
