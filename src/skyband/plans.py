"""Plans: when queries that must be answered at least so often are run, and which of them together.

A run for k answers every query with a smaller k as well, at no extra cost; its own cost grows with k. So queries that
may be answered more often than they ask are run together with those that must be.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from skyband.errors import InvalidQueryError, UnsupportedError
from skyband.queries.fields import checked_k, is_integer

__all__ = [
    "METHODS",
    "Execution",
    "Group",
    "Plan",
    "Track",
    "apart",
    "checked_requests",
    "combined",
    "greedy",
    "grouped",
    "stepwise",
    "unit_of",
]

METHODS = {
    "none": "every query by itself",
    "in": "queries with the same `every` together",
    "inco": "these, and with them all that ask for less and less often",
    "dp": "the cheapest plan there is, found in time that grows with the square of the longest `every`",
    "greedy": "each group at the last run of the one before it: at most twice the cheapest plan, mostly as cheap",
}

MOST = 10_000_000  # executions that are listed one by one


class Execution(NamedTuple):
    """One run: when, for which k, and the queries that it answers, by their places in the input."""

    time: int
    k_max: int
    queries: tuple[int, ...]


class Group(NamedTuple):
    """Queries that are run together: at least once in every `every`, for the largest of their k."""

    every: int
    k: int
    queries: tuple[int, ...]


class Track(NamedTuple):
    """Runs that repeat after `period`; their times lie in (0, period]."""

    period: int
    runs: Sequence[Execution]


@dataclass(frozen=True, eq=False)
class Plan:
    """When to run which queries, over and over again: time counts from the start, and each cycle is like the first.

    >>> import skyband as sb
    >>> plan = sb.uncertain.schedule([(2, 3), (3, 4), (5, 5)])
    >>> plan.cycle, plan.cost_per_unit
    (4, 2.25)
    >>> plan.executions[0]
    Execution(time=2, k_max=4, queries=(0, 1))
    """

    method: str
    requests: tuple[tuple[int, int], ...]  # (every, k) of each query
    groups: tuple[Group, ...]
    tracks: tuple[Track, ...]

    @cached_property
    def cycle(self) -> int:
        """After so many units the plan begins anew."""
        return math.lcm(*(track.period for track in self.tracks))

    @cached_property
    def cost_per_unit(self) -> float:
        """The sum of the k of all runs, per unit of time."""
        return float(sum(Fraction(sum(run.k_max for run in track.runs), track.period) for track in self.tracks))

    @cached_property
    def executions(self) -> list[Execution]:
        """The runs of one cycle, by time."""
        runs = sum(self.cycle // track.period * len(track.runs) for track in self.tracks)
        if runs > MOST:
            raise UnsupportedError(
                f"the plan repeats after {self.cycle} units only, with {runs} executions until then; they do not fit "
                "into a list. Take them one by one, with upcoming(), or share the runs with method='greedy'."
            )
        if len(self.tracks) == 1:
            return list(self.tracks[0].runs)
        found = []
        for run in self.upcoming(0):
            if run.time > self.cycle:
                break
            found.append(run)
        return found

    def upcoming(self, after: int) -> Iterator[Execution]:
        """All runs later than `after`, by time, without an end.

        >>> import skyband as sb
        >>> next(sb.uncertain.schedule([(2, 3), (3, 4), (5, 5)]).upcoming(1000)).time
        1002
        """
        return heapq.merge(*(_runs(track, after) for track in self.tracks), key=lambda run: run.time)

    def __repr__(self) -> str:
        return (
            f"Plan(method={self.method!r}, queries={len(self.requests)}, cycle={self.cycle}, "
            f"cost_per_unit={self.cost_per_unit:g})"
        )


def _runs(track: Track, after: int) -> Iterator[Execution]:
    cycle = after // track.period
    while True:
        base = cycle * track.period
        for run in track.runs:
            if base + run.time > after:
                yield run._replace(time=base + run.time)
        cycle += 1


def checked_requests(requests: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Pairs of `every` and `k`."""
    found = []
    try:
        pairs = [tuple(pair) for pair in requests]
    except TypeError:
        pairs = [()]
    for place, pair in enumerate(pairs):
        if len(pair) != 2 or not is_integer(pair[0]) or int(pair[0]) < 1:
            raise InvalidQueryError(
                f"queries[{place}] must be a pair (every, k) of whole numbers, every at least 1; a plan answers the "
                f"query at least once in so many units of time. Got {pair!r}."
            )
        found.append((int(pair[0]), checked_k(pair[1])))
    if not found:
        raise InvalidQueryError("a plan needs at least one query; with none there is nothing to run.")
    return tuple(found)


def unit_of(requests: Iterable[tuple[int, int]]) -> int:
    """The longest unit that every `every` is a whole number of: plans run at multiples of it."""
    return math.gcd(*(every for every, _ in requests))


def grouped(requests: Sequence[tuple[int, int]]) -> tuple[Group, ...]:
    """Queries with the same `every`, the most frequent first."""
    places: dict[int, list[int]] = {}
    for place, (every, _) in enumerate(requests):
        places.setdefault(every, []).append(place)
    return tuple(
        Group(every, max(requests[place][1] for place in mine), tuple(mine)) for every, mine in sorted(places.items())
    )


def combined(groups: Sequence[Group]) -> tuple[Group, ...]:
    """Groups such that a less frequent one has a larger k: all others are answered by a more frequent one for nothing.

    >>> [group[:2] for group in combined(grouped([(2, 3), (2, 2), (3, 4), (5, 3), (5, 5), (7, 2)]))]
    [(2, 3), (3, 4), (5, 5)]
    """
    found: list[Group] = []
    for group in groups:
        if found and found[-1].k >= group.k:
            found[-1] = found[-1]._replace(queries=(*found[-1].queries, *group.queries))
        else:
            found.append(group)
    return tuple(found)


def apart(method: str, requests: tuple[tuple[int, int], ...], groups: Sequence[Group]) -> Plan:
    """The plan that runs each group by itself, as often as it asks for."""
    tracks = [Track(group.every, [Execution(group.every, group.k, group.queries)]) for group in groups]
    return Plan(method, requests, tuple(groups), tuple(tracks))


def stepwise(
    method: str,
    requests: tuple[tuple[int, int], ...],
    groups: tuple[Group, ...],
    cycle: int,
    steps: Iterable[tuple[int, int]],
) -> Plan:
    """The plan that at each (time, group) runs this group and all more frequent ones."""
    answered: list[tuple[int, ...]] = []
    for group in groups:
        answered.append(tuple(sorted((*(answered[-1] if answered else ()), *group.queries))))
    ks = [group.k for group in groups]
    runs = [Execution(time, ks[group], answered[group]) for time, group in steps]
    return Plan(method, requests, groups, (Track(cycle, runs),))


def greedy(requests: tuple[tuple[int, int], ...]) -> Plan:
    """Each group at the last run of the group before it that is in time: the periods are multiples of one another.

    A group's run then costs only what its k is larger, and is as late as that allows. The period is more than half of
    what the group asks for, which is why the plan costs at most twice as much as the cheapest.
    """
    groups = combined(grouped(requests))
    periods = [groups[0].every]
    for group in groups[1:]:
        periods.append(group.every // periods[-1] * periods[-1])
    first, cycle = periods[0], periods[-1]
    runs = cycle // first
    if runs > MOST:
        raise UnsupportedError(
            f"every={groups[0].every} and every={groups[-1].every} make a plan of {runs} executions until it repeats; "
            f"at most {MOST} are planned. Run queries that far apart in two workloads."
        )
    due = [0] * runs
    for place, period in enumerate(periods[1:], 1):
        step = period // first
        due[step - 1 :: step] = [place] * (runs // step)
    return stepwise("greedy", requests, groups, cycle, zip(range(first, cycle + 1, first), due, strict=True))
