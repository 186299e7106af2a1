"""Plans: when queries that must be answered at least so often are run, and which of them together.

A run for k answers every query with a smaller k as well, at no extra cost; its own cost grows with k. So queries that
may be answered more often than they ask are run together with those that must be.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from skyband.errors import InvalidQueryError, UnsupportedError
from skyband.queries.fields import checked_k, is_integer

__all__ = [
    "METHODS",
    "Execution",
    "Group",
    "Schedule",
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

MOST = 4_000_000  # executions that are listed one by one
_FEW = 1024  # runs of a cycle that are worth being kept while one goes through them again and again


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
    cost: int  # the sum of their k


@dataclass(frozen=True, eq=False)
class Schedule:
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
        return float(sum(Fraction(track.cost, track.period) for track in self.tracks))

    @cached_property
    def executions(self) -> list[Execution]:
        """The runs of one cycle, by time."""
        runs = sum(self.cycle // track.period * len(track.runs) for track in self.tracks)
        if runs > MOST:
            raise UnsupportedError(
                f"the plan repeats after {self.cycle} units only, with {runs} executions until then; they do not fit "
                "into a list. Take them one by one, with upcoming()."
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
    runs = track.runs
    base = after // track.period * track.period
    place = bisect_right(runs, after - base, key=lambda run: run.time)
    while True:
        for at in range(place, len(runs)):
            time, k_max, queries = runs[at]
            yield Execution(base + time, k_max, queries)
        place, base = 0, base + track.period
        runs = list(runs) if len(runs) <= _FEW else runs


class _Steps(Sequence[Execution]):
    """Runs at the multiples of one period, of groups whose periods are multiples of one another; none is stored."""

    def __init__(self, groups: Sequence[Group], answered: Sequence[tuple[int, ...]], periods: Sequence[int]) -> None:
        self._first = periods[0]
        self._count = periods[-1] // periods[0]
        self._groups = [
            (period // periods[0], group.k, mine) for group, mine, period in zip(groups, answered, periods, strict=True)
        ]

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[place] for place in range(*at.indices(self._count))]
        number = (at if at >= 0 else self._count + at) + 1
        if not 1 <= number <= self._count:
            raise IndexError(at)
        for multiple, k, mine in reversed(self._groups):
            if number % multiple == 0:
                return Execution(number * self._first, k, mine)
        raise AssertionError("the first group is run every time")

    def __iter__(self) -> Iterator[Execution]:
        due = [0] * self._count
        for place, (multiple, _, _) in enumerate(self._groups):
            due[multiple - 1 :: multiple] = [place] * (self._count // multiple)
        for number, place in enumerate(due, 1):
            _, k, mine = self._groups[place]
            yield Execution(number * self._first, k, mine)


def checked_requests(requests: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Pairs of `every` and `k`."""
    found = []
    for place, request in enumerate(requests if isinstance(requests, Iterable) else [requests]):
        pair = tuple(request) if isinstance(request, Iterable) else ()
        if len(pair) != 2 or not is_integer(pair[0]) or int(pair[0]) < 1:
            raise InvalidQueryError(
                f"queries[{place}] must be a pair (every, k) of whole numbers, every at least 1; a plan answers the "
                f"query at least once in so many units of time. Got {request!r}."
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


def apart(method: str, requests: tuple[tuple[int, int], ...], groups: Sequence[Group]) -> Schedule:
    """The plan that runs each group by itself, as often as it asks for."""
    tracks = [Track(group.every, [Execution(group.every, group.k, group.queries)], group.k) for group in groups]
    return Schedule(method, requests, tuple(groups), tuple(tracks))


def stepwise(
    method: str,
    requests: tuple[tuple[int, int], ...],
    groups: tuple[Group, ...],
    cycle: int,
    steps: Iterable[tuple[int, int]],
) -> Schedule:
    """The plan that at each (time, group) runs this group and all more frequent ones."""
    answered = _answered(groups)
    runs = [Execution(time, groups[group].k, answered[group]) for time, group in steps]
    return Schedule(method, requests, groups, (Track(cycle, runs, sum(run.k_max for run in runs)),))


def _answered(groups: Sequence[Group]) -> list[tuple[int, ...]]:
    """The queries that a run of each group answers: its own, and those of all groups before it."""
    found: list[tuple[int, ...]] = []
    for group in groups:
        found.append(tuple(sorted((*(found[-1] if found else ()), *group.queries))))
    return found


def greedy(requests: tuple[tuple[int, int], ...]) -> Schedule:
    """Each group at the last run of the group before it that is in time: the periods are multiples of one another.

    A group's run then costs only what its k is larger, and is as late as that allows. The period is more than half of
    what the group asks for, which is why the plan costs at most twice as much as the cheapest.
    """
    groups = combined(grouped(requests))
    periods = [groups[0].every]
    for group in groups[1:]:
        periods.append(group.every // periods[-1] * periods[-1])
    cycle = periods[-1]
    # A run counts for the last group that is due: those of a group's period are fewer by those of the next one's.
    following = [*(cycle // period for period in periods[1:]), 0]
    cost = sum(
        group.k * (cycle // period - later) for group, period, later in zip(groups, periods, following, strict=True)
    )
    return Schedule("greedy", requests, groups, (Track(cycle, _Steps(groups, _answered(groups), periods), cost),))
