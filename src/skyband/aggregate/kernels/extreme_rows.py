"""The best row of each key and pane, for extremes whose row is returned or compared by time."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.aggregate.kernels.partials import BY_VALUE, NONE, OLDEST
from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.stream import Floats, Ints


@inner_kernel
def difference(value: float, other: float) -> int:
    """Return 1 if a row with this value is the last of two at one time, -1 if it is the first. NaN, a delete, is last.

    >>> difference(1.0, 2.0), difference(float("nan"), 2.0), difference(2.0, float("nan")), difference(0.0, -0.0)
    (-1, 1, -1, 0)
    """
    is_delete, is_other_delete = np.isnan(value), np.isnan(other)
    if is_delete or is_other_delete:
        return int(is_delete) - int(is_other_delete)
    return int(value > other) - int(value < other)


@kernel
def choose_rows(
    codes: Ints, positions: Ints, values: Floats, compared: int, by_id: bool, best: Ints, tied: Any
) -> None:
    """Write the best row of each code to `best`, and whether another row equals it to `tied`.

    `values` are signed. With `by_id`, rows with the same time are ordered by id first, and are tied here.
    """
    for i in range(codes.size):
        code = codes[i]
        j = best[code]
        if j == NONE:
            best[code] = i
            continue
        # The sign of the first difference: 1 if row i is better.
        found = 0
        if compared == BY_VALUE and values[i] != values[j]:
            found = 1 if values[i] > values[j] else -1
        elif positions[i] != positions[j]:
            found = 1 if positions[i] > positions[j] else -1
        elif not by_id:
            found = difference(values[i], values[j])
        if compared == OLDEST:
            found = -found
        if found > 0:
            best[code], tied[code] = i, False
        elif found == 0:
            tied[code] = True
