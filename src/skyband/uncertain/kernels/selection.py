"""Select the k most probable tuples of a pass. If probabilities are equal within rounding, the better tuple wins."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.kernels._jit import kernel
from skyband.kernels.select import empty_waiting, highest, sort_best_first
from skyband.kernels.stream import Floats, Ints


class SelectionScratch(NamedTuple):
    """Scratch arrays for repeated selections from the tuples of one pass."""

    keys: Floats
    rows: Ints  # negative: of equal keys the first row comes first
    ids: Ints  # all 0
    waiting: Ints


def room_for(tuples: int) -> SelectionScratch:
    """Return scratch arrays for `tuples` tuples."""
    return SelectionScratch(np.empty(tuples), np.empty(tuples, np.int64), np.zeros(tuples, np.int64), empty_waiting())


@kernel
def choose(tops: Any, column: int, k: int, close: float, room: SelectionScratch) -> int:
    """Write the rows with the k highest probabilities to the front of `room`, highest first. Return their number.

    Rows with probability 0 are never selected. Neighbours with a relative difference below `close` are equal.
    """
    keys, rows = room.keys, room.rows
    n, count = tops.shape[0], 0
    for row in range(n):
        keys[count] = tops[row, column]
        count += tops[row, column] > 0.0
    least = 0.0
    if count > k:
        # Slightly below the k-th, to include all that are equal to it.
        least = highest(keys, count, k) * (1.0 - 10.0 * close)
    count = 0
    for row in range(n):
        keys[count], rows[count] = tops[row, column], -row
        count += (tops[row, column] > 0.0) & (tops[row, column] >= least)
    sort_best_first(keys, rows, room.ids, 0, count, room.waiting)
    begin = 0
    for end in range(1, count + 1):
        if end < count and keys[end - 1] - keys[end] <= close * keys[end]:
            continue
        if end - begin > 1:
            keys[begin:end] = keys[begin]
            sort_best_first(keys, rows, room.ids, begin, end, room.waiting)
        begin = end
    return min(count, k)
