"""The plan for a set of queries, by any of the published methods."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from skyband.errors import UnsupportedError
from skyband.queries.fields import checked_choice
from skyband.uncertain.kernels import schedule_search
from skyband.uncertain.schedules import (
    METHODS,
    Group,
    Schedule,
    apart,
    checked_requests,
    combined,
    greedy,
    grouped,
    stepwise,
    unit_of,
)

__all__ = ["schedule"]

_MOST_STEPS = 10**12  # that the cheapest plan is searched in: about a quarter of an hour
_MOST_ROOM = 10**9


def schedule(queries: Iterable[tuple[int, int]], method: str = "greedy") -> Schedule:
    """When to run queries that must be answered at least once in `every`, at the least cost.

    Parameters
    ----------
    queries
        Pairs ``(every, k)`` of whole numbers. A run for k costs k and answers all queries with this or a smaller k.
    method
        ``"none"``: every query by itself. ``"in"``: queries with the same `every` together. ``"inco"``: these, and with
        them all that ask for less and less often. ``"dp"``: the cheapest plan of all, by dynamic programming.
        ``"greedy"``: each group at the last run of the more frequent one that is in time for it; mostly as cheap, at
        most twice as dear, and found at once.

    Returns
    -------
    Plan
        With `cycle`, `executions` (time, k_max and queries of each run in one cycle), `cost_per_unit`, `groups` and
        `upcoming`. Time counts from the start, in the units of the input; queries are named by their place in it.

    Examples
    --------
    >>> import skyband as sb
    >>> sb.uncertain.schedule([(30, 2), (51, 3), (60, 4)], method="dp").executions
    [Execution(time=30, k_max=3, queries=(0, 1)), Execution(time=60, k_max=4, queries=(0, 1, 2))]
    """
    chosen = checked_choice("method", method, METHODS)
    requests = checked_requests(queries)
    if chosen == "none":
        return apart("none", requests, [Group(every, k, (place,)) for place, (every, k) in enumerate(requests)])
    if chosen == "in":
        return apart("in", requests, grouped(requests))
    if chosen == "inco":
        return apart("inco", requests, combined(grouped(requests)))
    return greedy(requests) if chosen == "greedy" else _cheapest(requests)


def _cheapest(requests: tuple[tuple[int, int], ...]) -> Schedule:
    """The least frequent group runs once a cycle; how long that is, and when the others run, is what is searched."""
    groups = combined(grouped(requests))
    unit = unit_of(requests)
    everys = np.array([group.every // unit for group in groups], np.int64)
    ks = np.array([group.k for group in groups], np.int64)
    if len(groups) == 1:
        return stepwise("dp", requests, groups, groups[0].every, [(groups[0].every, 0)])
    longest = int(everys[-1])
    steps, room = longest * int(everys[1:-1].sum()), (len(groups) - 1) * longest
    if steps > _MOST_STEPS or room > _MOST_ROOM:
        raise UnsupportedError(
            f"the longest every is {longest} units of {unit} (the greatest common divisor of all), in {len(groups)} "
            f"groups; finding the cheapest plan would take {steps} steps and room for {room} numbers. "
            "Use method='greedy', or make the values of every multiples of a longer unit."
        )
    costs, lasts = schedule_search.room_for(len(groups) - 1, longest)
    schedule_search.fill_costs(everys, ks, costs, lasts)
    totals = [int(cost) + groups[-1].k for cost in costs[-1]]  # of a cycle of 1, 2, … units
    best = 1
    for cycle in range(2, longest + 1):
        if totals[cycle - 1] * best <= totals[best - 1] * cycle:
            best = cycle
    runs = schedule_search.walked_back(everys, lasts, len(groups) - 2, best - 1)
    runs.append((best, len(groups) - 1))
    return stepwise("dp", requests, groups, best * unit, [(time * unit, group) for time, group in runs])
