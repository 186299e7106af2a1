"""Compute the schedule of a set of queries with one of the published methods."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from skyband.errors import UnsupportedError
from skyband.queries.fields import checked_choice
from skyband.uncertain.schedules import (
    PLANS,
    Group,
    Schedule,
    apart,
    checked_requests,
    combined,
    greedy,
    grouped,
    stepwise,
    two_groups,
    unit_of,
)

__all__ = ["schedule"]

_MOST_STEPS = 10**12  # maximum search steps for method="dp": about 15 minutes
_MOST_ROOM = 10**9  # maximum table entries for method="dp"
# The limits for method="auto": a search of about 0.1 s in 12 MB.
_QUICK_STEPS = 10**8
_QUICK_ROOM = 10**6


def schedule(queries: Iterable[tuple[int, int]], method: str = "auto") -> Schedule:
    """Return a low-cost schedule that answers each query at least once per its `every`.

    Parameters
    ----------
    queries
        Pairs ``(every, k)`` of integers. A run for k costs k and answers all queries with the same or a smaller k.
    method
        ``"auto"``: the cheapest plan if it is found quickly, otherwise the cheaper one of ``"greedy"`` and ``"inco"``.
        It never costs more than ``"none"``.

        The published methods: ``"none"``: each query runs separately. ``"in"``: queries with the same `every` run
        together. ``"inco"``: like ``"in"``, and a run also answers queries with a longer `every` and no larger k.
        ``"dp"``: the cheapest plan, found by dynamic programming. ``"greedy"``: each group joins the last run of the
        more frequent group that is in time; usually the cheapest plan, at most twice its cost, and found immediately.
        It can cost more than no sharing.

    Returns
    -------
    Schedule
        Has `method` (the published one), `cycle`, `executions` (time, k_max and queries of each run in one cycle),
        `cost_per_unit`, `groups` and `upcoming`. Time counts from the start, in the units of the input. Queries are
        identified by their index.

    Examples
    --------
    >>> import skyband as sb
    >>> sb.uncertain.schedule([(30, 2), (51, 3), (60, 4)], method="dp").executions
    [Execution(time=30, k_max=3, queries=(0, 1)), Execution(time=60, k_max=4, queries=(0, 1, 2))]
    """
    chosen = checked_choice("method", method, PLANS)
    requests = checked_requests(queries)
    if chosen == "none":
        return apart("none", requests, [Group(every, k, (place,)) for place, (every, k) in enumerate(requests)])
    if chosen == "in":
        return apart("in", requests, grouped(requests))
    if chosen == "inco":
        return apart("inco", requests, combined(grouped(requests)))
    if chosen == "greedy":
        return greedy(requests)
    return _automatic(requests) if chosen == "auto" else _cheapest(requests)


def _automatic(requests: tuple[tuple[int, int], ...]) -> Schedule:
    """Return the cheapest plan if the search is short, otherwise the cheaper one of greedy and inco.

    Greedy can cost more than no sharing. Inco never does: it omits runs, and leaves the others as they are.
    """
    search = _Search.of(requests)
    if search.steps <= _QUICK_STEPS and search.room <= _QUICK_ROOM:
        return _cheapest(requests)
    return min(greedy(requests), apart("inco", requests, search.groups), key=lambda plan: plan.exact_cost)


class _Search(NamedTuple):
    """The groups that a search for the cheapest plan combines, and its size."""

    groups: tuple[Group, ...]
    unit: int
    longest: int  # units
    steps: int
    room: int  # entries of the table

    @classmethod
    def of(cls, requests: tuple[tuple[int, int], ...]) -> _Search:
        """Return the search for these requests. Up to two groups need none."""
        groups, unit = combined(grouped(requests)), unit_of(requests)
        everys = [group.every // unit for group in groups]
        if len(groups) <= 2:
            return cls(groups, unit, everys[-1], 0, 0)
        return cls(groups, unit, everys[-1], everys[-1] * sum(everys[1:-1]), (len(groups) - 1) * everys[-1])


def _cheapest(requests: tuple[tuple[int, int], ...]) -> Schedule:
    """Return the cheapest plan. The least frequent group runs once per cycle; search the cycle and the other runs."""
    search = _Search.of(requests)
    groups, unit, longest = search.groups, search.unit, search.longest
    if len(groups) == 1:
        return stepwise("dp", requests, groups, groups[0].every, [(groups[0].every, 0)])
    if len(groups) == 2:
        return two_groups(requests, (groups[0], groups[1]))
    _refuse_long_search(search)
    from skyband.uncertain.kernels import schedule_search

    everys = np.array([group.every // unit for group in groups], np.int64)
    ks = np.array([group.k for group in groups], np.int64)
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


def _refuse_long_search(search: _Search) -> None:
    limits = (search.steps, _MOST_STEPS, "steps"), (search.room, _MOST_ROOM, "table entries")
    over = [f"{needed} {what} (at most {most})" for needed, most, what in limits if needed > most]
    if over:
        raise UnsupportedError(
            f"method='dp' would need {' and '.join(over)}: {len(search.groups)} groups, and a longest every of "
            f"{search.longest} units of {search.unit} (the greatest common divisor of all). Use method='auto', or make "
            "all values of every multiples of a longer unit."
        )
