"""The score of an object from its value in each stream: one order of operations, so that all methods agree exactly."""

from __future__ import annotations

from skyband.kernels._jit import inner_kernel
from skyband.kernels.stream import Floats

# What becomes of the values of an object.
SUM = 0
AVG = 1
MIN = 2
MAX = 3


@inner_kernel
def score_of(values: Floats, weights: Floats, aggregate: int) -> float:
    """The aggregate of one value a stream, in the order of the streams; weights count for sums and means only."""
    if aggregate <= AVG:
        total = 0.0
        for stream in range(values.size):
            total += weights[stream] * values[stream]
        return total / values.size if aggregate == AVG else total
    best = values[0]
    for stream in range(1, values.size):
        best = min(best, values[stream]) if aggregate == MIN else max(best, values[stream])
    return best
