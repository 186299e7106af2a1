"""The score of an object from its value in each stream. All methods share it, so their results are bit-identical."""

from __future__ import annotations

from skyband.kernels._jit import inner_kernel
from skyband.kernels.stream import Floats

# Codes of aggregates.
SUM = 0
AVG = 1
MIN = 2
MAX = 3


@inner_kernel
def score_of(values: Floats, weights: Floats, aggregate: int) -> float:
    """Return the aggregate of one value per stream, in stream order. Weights apply to sums and means only."""
    if aggregate <= AVG:
        total = 0.0
        for stream in range(values.size):
            total += weights[stream] * values[stream]
        return total / values.size if aggregate == AVG else total
    best = values[0]
    for stream in range(1, values.size):
        best = min(best, values[stream]) if aggregate == MIN else max(best, values[stream])
    return best
