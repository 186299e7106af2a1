"""Compute the schedule of a set of queries with one of the published methods."""

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

_MOST_STEPS = 10**12  # maximum search steps for method="dp": about 15 minutes
_MOST_ROOM = 10**9  # maximum table entries for method="dp"


def schedule(queries: Iterable[tuple[int, int]], method: str = "greedy") -> Schedule:
    """Return a low-cost schedule that answers each query at least once per its `every`.

    Parameters
    ----------
    queries
        Pairs ``(every, k)`` of integers. A run for k costs k and answers all queries with the same or a smaller k.
    method
        ``"none"``: each query runs separately. ``"in"``: queries with the same `every` run together. ``"inco"``: like
        ``"in"``, and a run also answers queries with a longer `every` and no larger k. ``"dp"``: the cheapest plan,
        found by dynamic programming. ``"greedy"``: each group joins the last run of the more frequent group that is in
        time; usually the cheapest plan, at most twice its cost, and found immediately.

    Returns
    -------
    Schedule
        Has `cycle`, `executions` (time, k_max and queries of each run in one cycle), `cost_per_unit`, `groups` and
        `upcoming`. Time counts from the start, in the units of the input. Queries are identified by their index.

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
    """Return the cheapest plan. The least frequent group runs once per cycle; search the cycle and the other runs."""
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
            f"method='dp' would need {steps} steps and a table of {room} entries: the longest every is {longest} units "
            f"of {unit} (the greatest common divisor of all), in {len(groups)} groups. "
            "Use method='greedy', or make all values of every multiples of a longer unit."
        )
    costs, lasts = schedule_search.room_for(len(groups) - 1, longest)
    schedule_search.fill_costs(everys, ks, costs, lasts)
    totals = [int(cost) + groups[-1].k for cost in costs[-1]]  # for cycles of 1, 2, … units
    best = 1
    for cycle in range(2, longest + 1):
        if totals[cycle - 1] * best <= totals[best - 1] * cycle:
            best = cycle
    runs = schedule_search.walked_back(everys, lasts, len(groups) - 2, best - 1)
    runs.append((best, len(groups) - 1))
    return stepwise("dp", requests, groups, best * unit, [(time * unit, group) for time, group in runs])
