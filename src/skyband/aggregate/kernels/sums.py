"""Sum rows in any order into partials per key and pane."""

from __future__ import annotations

from typing import Any

from skyband.aggregate.kernels.partials import COUNT, add_value
from skyband.kernels._jit import kernel
from skyband.kernels.stream import Floats, Ints


@kernel
def sum_up(
    codes: Ints,
    positions: Ints,
    values: Floats,
    bits: Ints,
    low: int,
    powers: int,
    signs: Floats,
    adds: Any,
    lasts: Ints,
    extremes: Any,
) -> None:
    """Add every row to the partial with its code. Limbs start with `low`."""
    for i in range(codes.size):
        at = codes[i]
        adds[at, COUNT] += 1
        lasts[at] = max(lasts[at], positions[i])
        for e in range(signs.size):
            extremes[at, e] = max(extremes[at, e], signs[e] * values[i])
        if powers:
            add_value(adds[at], low, powers, values[i], bits[i])
