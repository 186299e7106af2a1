"""Pruning: find tuples that have k newer and better existing tuples in every later window, (almost) certainly."""

from __future__ import annotations

import numpy as np

from skyband.kernels._jit import kernel
from skyband.kernels.stream import Floats, Ints


@kernel
def bound_probabilities(
    places: Ints,
    probabilities: Floats,
    rules: Ints,
    k: int,
    limit: float,
    sure: Ints,
    masses: Floats,
    bounds: Floats,
) -> None:
    """Write to `bounds` the maximum probability that a tuple is ever in the top k, or 2 if the tuple must be kept.

    Tuples are sorted oldest first. `places` are their ranks, 0 for the best. Every later window that contains a tuple
    also contains all newer tuples. If k of these are better and certain, the bound is 0. Otherwise, if the tuple
    exists, the expected number of better and newer tuples is m, or at least m - 1 without its own rule. Chernoff's
    bound then limits the probability that fewer than k of them exist. `sure` and `masses` (all 0) are Fenwick trees
    over ranks.
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


@kernel
def sum_newer_better(places: Ints, weights: Floats, masses: Floats, sums: Floats) -> None:
    """Write to `sums`, per tuple, the sum of the weights of all newer and better tuples.

    Tuples are sorted oldest first. `places` are their ranks, 0 for the best. `masses` (all 0) is a Fenwick tree.
    """
    n = places.size
    for i in range(n - 1, -1, -1):
        total = 0.0
        at = places[i]
        while at > 0:
            total += masses[at]
            at -= at & -at
        sums[i] = total
        at = places[i] + 1
        while at <= n:
            masses[at] += weights[i]
            at += at & -at
