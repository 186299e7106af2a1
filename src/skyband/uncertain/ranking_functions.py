"""Parameterised ranking functions: rank tuples by a weighted sum of the probabilities of their ranks.

``PRF(T)`` is the sum over all ranks i of ``w(i) Pr(T has rank i)``, see J. Li, B. Saha, A. Deshpande: *A Unified
Approach to Ranking in Probabilistic Databases*, VLDB 2009. They rank by the absolute value, and so does this module.
Weights are given for the first ranks (``PRF^w``, computed in the pass over the window), or as ``w(i) = alpha ** i``
(``PRF^e``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skyband.kernels.stream import Floats, Ints
from skyband.uncertain.kernels.possible_worlds import CLOSE, Ruled
from skyband.uncertain.single_pass import lowest_first

__all__ = ["LEAST", "geometric", "highest", "matrix"]

LEAST = 1e-100  # values below this times the highest weight are not ranked


def matrix(weights: Sequence[tuple[float, ...]], tuples: int) -> Any:
    """Return two rows per list of weights: the weights of the ranks that `tuples` tuples can have, and their sizes."""
    longest = min(tuples, max(map(len, weights), default=0))
    found = np.zeros((2 * len(weights), longest))
    for number, mine in enumerate(weights):
        some = np.array(mine[:longest])
        found[2 * number, : some.size] = some
        found[2 * number + 1, : some.size] = np.abs(some)
    return found


def highest(k: int, weights: tuple[float, ...], values: Floats, sizes: Floats) -> tuple[Ints, Floats]:
    """Return the rows of the k highest absolute values, and the values. Ties keep the order of the rows.

    `sizes` are the values with the absolute weights. A value that is tiny beside it is 0 up to rounding.
    """
    found = np.abs(values)
    there = np.flatnonzero((found >= LEAST * max(map(abs, weights))) & (found > CLOSE * sizes))
    rows = there[lowest_first(-found[there], k)]
    return rows, values[rows]


def geometric(k: int, alpha: float, ruled: Ruled) -> tuple[Ints, Floats]:
    """Return the rows of the k highest values for the weights ``alpha ** i``, and the values.

    The number of better tuples of T is a sum of independent variables, one per rule: 1 with the probability q that a
    better tuple of the rule exists. The mean of ``alpha ** number`` is the product of ``1 - q (1 - alpha)``. So the
    value of T is ``p alpha`` times this product over all rules but T's own. The products are sums of logarithms: each
    tuple replaces the factor of its rule, and T's own factor is subtracted.
    """

    def factor(q: Floats) -> Floats:
        return np.log1p(-q * (1 - alpha)) if alpha < 1 else np.zeros_like(q)

    own = factor(ruled.before)
    steps = factor(ruled.sums) - own
    better = np.cumsum(steps) - steps
    logs = np.log(ruled.probabilities) + (better - own)  # relative to alpha
    there = np.flatnonzero(logs >= np.log(LEAST))
    rows = there[lowest_first(1 - logs[there], k)]  # 1: keys are compared by relative difference
    return rows, alpha * np.exp(logs[rows])
