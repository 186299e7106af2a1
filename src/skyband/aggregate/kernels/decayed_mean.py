"""The mean of rows that decay: an exact sum of weighted values divided by an exact sum of weights."""

from __future__ import annotations

import math

import numpy as np

from skyband.aggregate.kernels.exact_sum import carried, nearest
from skyband.kernels._jit import kernel
from skyband.kernels.stream import Ints

_NO_LIMIT = -(2**40)  # of exponents: sums of old rows have 53 bits, too, however small they are


@kernel
def decayed_mean(total: Ints, weights: Ints, limbs: int) -> float:
    """Return the quotient of two sums with the same first limb. The sum of weights is positive.

    Both sums are rounded to 53 bits, their quotient to a double, half to even. No step depends on the first limb,
    so a mean does not change while no row enters or leaves. Both arrays are overwritten, and must have space for
    ``limbs + 2`` limbs.
    """
    negative = carried(total, limbs)
    carried(weights, limbs)
    whole, exponent = nearest(total, limbs + 1, _NO_LIMIT)
    weight, below = nearest(weights, limbs + 1, _NO_LIMIT)
    if whole == 0:
        return 0.0
    mean = math.ldexp(np.float64(whole) / np.float64(weight), exponent - below)
    return -mean if negative else mean
