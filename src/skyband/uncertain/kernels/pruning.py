"""Tuples that k newer and better ones stand before in every window to come, surely or all but surely."""

from __future__ import annotations

import numpy as np

from skyband.kernels._jit import kernel
from skyband.kernels.stream import Floats, Ints


@kernel
def mark_hopeless(
    places: Ints,
    probabilities: Floats,
    rules: Ints,
    k: int,
    limit: float,
    sure: Ints,
    masses: Floats,
    bounds: Floats,
) -> None:
    """Write into `bounds` with what probability a tuple may ever be among the k best, 2 where it is to be kept.

    Tuples come oldest first, `places` are their ranks, 0 for the best. All newer ones are in every window to come that
    holds the tuple. With k sure ones among those that are better too, the bound is 0. Otherwise, if the tuple exists,
    its better and newer ones have a mean m, without its own rule at least m - 1, and Chernoff's bound says how unlikely
    it is that fewer than k of them exist. `sure` and `masses` (all 0) are sums over ranks, as Fenwick trees.
    """
    n = places.size
    for i in range(n - 1, -1, -1):
        count, mass = 0, 0.0
        at = places[i]
        while at > 0:
            count += sure[at]
            mass += masses[at]
            at -= at & -at
        mean = mass - (1.0 if rules[i] >= 0 else 0.0)
        bounds[i] = 2.0
        if count >= k:
            bounds[i] = 0.0
        elif limit > 0.0 and mean > k:
            fewer = k - 1.0
            bound = np.exp(fewer - mean + (fewer * np.log(mean / fewer) if fewer > 0.0 else 0.0))
            if bound <= limit:
                bounds[i] = bound
        at = places[i] + 1
        while at <= n:
            masses[at] += probabilities[i]
            if probabilities[i] >= 1.0:
                sure[at] += 1
            at += at & -at
