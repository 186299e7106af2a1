"""Rows in any order, summed into partials: what is added up of each key and pane."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.aggregate.kernels.exact_sum import add_double
from skyband.aggregate.kernels.partials import COUNT, FIRST_LIMB, INFINITE, MINUS
from skyband.kernels._jit import kernel
from skyband.kernels.stream import Floats, Ints


@kernel
def sum_up(
    codes: Ints,
    positions: Ints,
    values: Floats,
    bits: Ints,
    low: int,
    signs: Floats,
    adds: Any,
    lasts: Ints,
    extremes: Any,
) -> None:
    """Add every row to the partial that its code names; limbs stand from `low` on, where there are any."""
    for i in range(codes.size):
        at = codes[i]
        adds[at, COUNT] += 1
        lasts[at] = max(lasts[at], positions[i])
        for e in range(signs.size):
            extremes[at, e] = max(extremes[at, e], signs[e] * values[i])
        if adds.shape[1] == 1:
            continue
        if np.isfinite(values[i]):
            add_double(adds[at], FIRST_LIMB, low, bits[i])
        else:
            adds[at, INFINITE] += 1 if values[i] > 0 else MINUS
