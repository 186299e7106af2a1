"""Find the cheapest shared plan by dynamic programming over groups of queries and time."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.kernels._jit import kernel
from skyband.kernels.stream import Ints


@kernel
def fill_costs(everys: Ints, ks: Ints, costs: Any, lasts: Any) -> None:
    """Fill ``costs[i, t]``: the minimum cost of running the groups 0..i in the t units after a run of all of them.

    Group i is due every `everys[i]` units. Its last run is at t - j with j < `everys[i]`; only the previous groups run
    in the j units after it. The cost is that of both parts and of the run. ``lasts[i, t]`` is the time of the last run.
    If t is less than `everys[i]`, the group does not run at all. `everys` and `ks` both increase with i.
    """
    units = costs.shape[1]
    for t in range(units):
        costs[0, t] = t // everys[0] * ks[0]
    for i in range(1, costs.shape[0]):
        every, k = everys[i], ks[i]
        before, mine = costs[i - 1], costs[i]
        for t in range(min(every, units)):
            mine[t] = before[t]
        for t in range(every, units):
            best, last = mine[t - 1] + before[0], t
            stretch = mine[t - every : t]
            for j in range(1, every):
                cost = stretch[every - 1 - j] + before[j]
                if cost < best:
                    best, last = cost, t - j
            mine[t] = best + k
            lasts[i, t] = last


def walked_back(everys: Ints, lasts: Any, group: int, units: int) -> list[tuple[int, int]]:
    """Return the runs (time, group) of the minimum-cost plan of the groups 0..`group` in `units` units."""
    found, waiting = [], [(group, units, 0)]
    while waiting:
        i, t, start = waiting.pop()
        while i > 0 and t < everys[i]:
            i -= 1
        if i == 0:
            every = int(everys[0])
            found += [(start + time, 0) for time in range(every, t + 1, every)]
            continue
        last = int(lasts[i, t])
        found.append((start + last, i))
        waiting += [(i, last - 1, start), (i - 1, t - last, start + last)]
    return sorted(found)


def room_for(groups: int, units: int) -> tuple[Any, Any]:
    """Return the tables of costs and of last runs for `groups` groups and `units` units."""
    return np.zeros((groups, units), np.int64), np.zeros((groups, units), np.int32)
