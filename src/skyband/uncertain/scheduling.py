"""Compute the schedule of a set of queries with one of the published methods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    run_costs,
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
        ``"auto"``: the plan with the shortest estimated time, of those that cost no more than ``"none"``. It compares
        all others (``"dp"`` only if it is found quickly), and the cheapest plan for the estimated times of runs.

        The published methods: ``"none"``: each query runs separately. ``"in"``: queries with the same `every` run
        together. ``"inco"``: like ``"in"``, and a run also answers queries with a longer `every` and no larger k.
        ``"dp"``: the cheapest plan, found by dynamic programming. ``"greedy"``: each group joins the last run of the
        more frequent group that is in time; usually the cheapest plan, at most twice its cost, and found immediately.
        It can cost more than no sharing.

    Returns
    -------
    Schedule
        Has `method` (the published one), `cycle`, `executions` (time, k_max and queries of each run in one cycle),
        `cost_per_unit`, `seconds_per_unit` (estimated), `groups` and `upcoming`. Time counts from the start, in the
        units of the input. Queries are identified by their index.

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
    """Return the plan with the shortest estimated time, of those that cost no more than no sharing.

    The cost that the paper charges, the sum of all k, ignores that a run has a fixed cost. So if the search is short,
    it is made for both costs. The plan without sharing is a candidate too: it answers each query as rarely as possible.
    """
    search = _Search.of(requests)
    found = [schedule(requests, method) for method in ("greedy", "inco", "in", "none")]
    if search.steps <= _QUICK_STEPS and search.room <= _QUICK_ROOM:
        found = [_cheapest(requests, run_costs(search.groups)), _cheapest(requests), *found]
    limit = found[-1].exact_cost
    return min(
        (plan for plan in found if plan.exact_cost <= limit), key=lambda plan: (plan.exact_nanoseconds, plan.exact_cost)
    )


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


def _cheapest(requests: tuple[tuple[int, int], ...], costs: Sequence[int] | None = None) -> Schedule:
    """Return the cheapest plan. The least frequent group runs once per cycle; search the cycle and the other runs.

    `costs` are those of a run of each group, which must increase; by default, the k of the group.
    """
    search = _Search.of(requests)
    groups, unit, longest = search.groups, search.unit, search.longest
    each = [group.k for group in groups] if costs is None else costs
    if len(groups) == 1:
        return stepwise("dp", requests, groups, groups[0].every, [(groups[0].every, 0)])
    if len(groups) == 2:
        return two_groups(requests, (groups[0], groups[1]), (each[0], each[1]))
    _refuse_long_search(search)
    from skyband.uncertain.kernels import schedule_search

    everys = np.array([group.every // unit for group in groups], np.int64)
    table, lasts = schedule_search.room_for(len(groups) - 1, longest)
    schedule_search.fill_costs(everys, np.array(each, np.int64), table, lasts)
    totals = [int(cost) + each[-1] for cost in table[-1]]  # for cycles of 1, 2, … units
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
