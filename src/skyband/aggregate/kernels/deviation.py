"""Standard deviation from exact sums. The cancelling difference is computed exactly and rounded once."""

from __future__ import annotations

import math

import numpy as np

from skyband.aggregate.kernels.exact_sum import BITS, UNIT, carried, nearest
from skyband.kernels._jit import kernel
from skyband.kernels.stream import Ints

_HALF = BITS // 2
_DIGIT = 2**_HALF - 1


@kernel
def deviation(total: Ints, squares: Ints, limbs: int, low: int, count: int, freedom: int) -> float:
    """Return the standard deviation of `count` values from the limbs of their sum and of their squares.

    ``count * squares - total**2`` is computed exactly and rounded once, then divided by ``count * freedom``. The
    result is the square root. `freedom` is ``count - 1`` for a sample and `count` for a population, at least 1.
    Both arrays are overwritten. `total` must have space for ``limbs + 2`` limbs, `squares` for ``2 * limbs + 4``.
    """
    carried(total, limbs)
    carried(squares, 2 * limbs)
    for i in range(2 * limbs + 1):
        squares[i] *= count  # below 2**62: a limb has 32 bits now, and a window has fewer than 2**30 values
    # Multiply 16-bit digits, so that the sum of all products in one limb fits into 64 bits.
    for i in range(2 * limbs + 2):
        mine = (total[i >> 1] >> (_HALF * (i & 1))) & _DIGIT
        if mine == 0:
            continue
        for j in range(2 * limbs + 2):
            other = (total[j >> 1] >> (_HALF * (j & 1))) & _DIGIT
            squares[(i + j) >> 1] -= (mine * other) << (_HALF * ((i + j) & 1))
    carried(squares, 2 * limbs + 2)
    whole, exponent = nearest(squares, 2 * limbs + 3, 0)
    spread = np.float64(whole)
    if exponent & 1:
        spread, exponent = 2.0 * spread, exponent - 1
    root = math.sqrt(spread / np.float64(count * freedom))
    return math.ldexp(root, exponent // 2 + BITS * low - UNIT)
