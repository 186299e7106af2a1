"""Schedules: when to run queries that have a minimum frequency, and which of them to run together.

A run for k also answers every query with a smaller k at no extra cost. Its cost grows with k. So a schedule runs
queries together, and answers some of them more often than required.
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
from skyband.uncertain.run_cost import MEASURED

__all__ = [
    "METHODS",
    "PLANS",
    "Execution",
    "Group",
    "Schedule",
    "Track",
    "apart",
    "checked_requests",
    "combined",
    "greedy",
    "grouped",
    "run_costs",
    "stepwise",
    "two_groups",
    "unit_of",
]

METHODS = {
    "none": "each query runs separately",
    "in": "queries with the same `every` run together",
    "inco": "like 'in', and a run also answers queries with a longer `every` and no larger k",
    "dp": "the cheapest plan, found in time quadratic in the longest `every`",
    "greedy": "each group joins runs of the more frequent group: usually the cheapest plan, at most twice its cost",
}
PLANS = {"auto": "the plan that is estimated to take the least time, and costs no more than no sharing", **METHODS}

MOST = 4_000_000  # maximum length of the list of executions
_FEW = 1024  # cycles with at most so many runs are stored as a list for repeated iteration


class Execution(NamedTuple):
    """One run: its time, its k, and the queries that it answers, by their index in the input."""

    time: int
    k_max: int
    queries: tuple[int, ...]


class Group(NamedTuple):
    """Queries that run together at least once per `every`, for the largest of their k."""

    every: int
    k: int
    queries: tuple[int, ...]


class Track(NamedTuple):
    """Runs that repeat after `period`. Their times are in (0, period]."""

    period: int
    runs: Sequence[Execution]
    cost: int  # sum of the k of all runs
    nanoseconds: int  # estimated, of all runs

    @classmethod
    def of(cls, period: int, runs: Sequence[Execution], counts: Iterable[tuple[int, int, int]]) -> Track:
        """Return the track of these runs. `counts` has how many of them there are by k and number of answers."""
        counts = list(counts)
        cost = sum(count * k for count, k, _ in counts)
        return cls(period, runs, cost, sum(count * MEASURED.of(k, answers) for count, k, answers in counts))


@dataclass(frozen=True, eq=False)
class Schedule:
    """A repeating schedule of runs. Time counts from the start, and all cycles are equal.

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
        """Number of units after which the plan repeats."""
        return math.lcm(*(track.period for track in self.tracks))

    @cached_property
    def exact_cost(self) -> Fraction:
        """The sum of the k of all runs, per unit of time, without rounding."""
        return sum((Fraction(track.cost, track.period) for track in self.tracks), Fraction())

    @property
    def cost_per_unit(self) -> float:
        """The sum of the k of all runs, per unit of time."""
        return float(self.exact_cost)

    @cached_property
    def executions(self) -> list[Execution]:
        """The runs of one cycle, by time."""
        runs = sum(self.cycle // track.period * len(track.runs) for track in self.tracks)
        if runs > MOST:
            raise UnsupportedError(
                f"one cycle of the plan has {self.cycle} units and {runs} executions, more than the maximum of {MOST} "
                "for a list. Iterate over upcoming() instead."
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
        """Return an endless iterator over the runs later than `after`, by time.

        >>> import skyband as sb
        >>> next(sb.uncertain.schedule([(2, 3), (3, 4), (5, 5)]).upcoming(1000)).time
        1002
        """
        return heapq.merge(*(_runs(track, after) for track in self.tracks), key=lambda run: run.time)

    @cached_property
    def exact_nanoseconds(self) -> Fraction:
        """The estimated time of all runs, per unit of time, without rounding."""
        return sum((Fraction(track.nanoseconds, track.period) for track in self.tracks), Fraction())

    @property
    def seconds_per_unit(self) -> float:
        """The estimated time that runs over 10,000 tuples take, per unit of time. See `skyband.uncertain.run_cost`."""
        return float(self.exact_nanoseconds) / 1e9

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
    """Runs at the multiples of one period, computed on access, for groups whose periods are multiples of each other."""

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
        raise AssertionError("the first group must be due at every run")

    def __iter__(self) -> Iterator[Execution]:
        due = [0] * self._count
        for place, (multiple, _, _) in enumerate(self._groups):
            due[multiple - 1 :: multiple] = [place] * (self._count // multiple)
        for number, place in enumerate(due, 1):
            _, k, mine = self._groups[place]
            yield Execution(number * self._first, k, mine)


class _Repeated(Sequence[Execution]):
    """Runs of a first group at the multiples of its `every`, computed on access, and one run of all at the end."""

    def __init__(self, every: int, count: int, first: tuple[int, tuple[int, ...]], last: Execution) -> None:
        self._every, self._count, self._first, self._last = every, count, first, last

    def __len__(self) -> int:
        return self._count + 1

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[place] for place in range(*at.indices(len(self)))]
        place = at if at >= 0 else len(self) + at
        if not 0 <= place <= self._count:
            raise IndexError(at)
        return self._last if place == self._count else Execution((place + 1) * self._every, *self._first)


def checked_requests(requests: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return validated pairs ``(every, k)``."""
    found = []
    for place, request in enumerate(requests if isinstance(requests, Iterable) else [requests]):
        pair = tuple(request) if isinstance(request, Iterable) else ()
        if len(pair) != 2 or not is_integer(pair[0]) or int(pair[0]) < 1:
            raise InvalidQueryError(
                f"queries[{place}] must be a pair (every, k) of integers with every at least 1, got {request!r}. A "
                "plan answers the query at least once per `every` units of time."
            )
        found.append((int(pair[0]), checked_k(pair[1])))
    if not found:
        raise InvalidQueryError("queries=[] is empty. A plan needs at least one query.")
    return tuple(found)


def unit_of(requests: Iterable[tuple[int, int]]) -> int:
    """Return the greatest common divisor of all `every`. Plans run at multiples of it."""
    return math.gcd(*(every for every, _ in requests))


def grouped(requests: Sequence[tuple[int, int]]) -> tuple[Group, ...]:
    """Group queries by `every`, the most frequent group first."""
    places: dict[int, list[int]] = {}
    for place, (every, _) in enumerate(requests):
        places.setdefault(every, []).append(place)
    return tuple(
        Group(every, max(requests[place][1] for place in mine), tuple(mine)) for every, mine in sorted(places.items())
    )


def combined(groups: Sequence[Group]) -> tuple[Group, ...]:
    """Merge each group into a more frequent one with at least its k, which answers it at no cost.

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
    """Return the plan that runs each group separately, once per its `every`."""
    tracks = [
        Track.of(group.every, [Execution(group.every, group.k, group.queries)], [(1, group.k, len(group.queries))])
        for group in groups
    ]
    return Schedule(method, requests, tuple(groups), tuple(tracks))


def stepwise(
    method: str,
    requests: tuple[tuple[int, int], ...],
    groups: tuple[Group, ...],
    cycle: int,
    steps: Iterable[tuple[int, int]],
) -> Schedule:
    """Return the plan that at each (time, group) runs this group and all more frequent ones."""
    answered = _answered(groups)
    runs = [Execution(time, groups[group].k, answered[group]) for time, group in steps]
    counts = ((1, run.k_max, len(run.queries)) for run in runs)
    return Schedule(method, requests, groups, (Track.of(cycle, runs, counts),))


def two_groups(requests: tuple[tuple[int, int], ...], groups: tuple[Group, Group], costs: tuple[int, int]) -> Schedule:
    """Return the cheapest plan of two groups: both run at the end of a cycle, the first also at its multiples before.

    Let f < g be the values of `every`, and k < l the costs of a run of the first group and of a run of both. A cycle of
    c <= g units has ceil(c / f) - 1 runs at the cost k, and one at l. Of all cycles with the same number of runs the
    longest is the cheapest: c is a multiple of f, or g. A multiple m f costs ``k / f + (l - k) / (m f)`` per unit,
    which falls with m. So only two cycles can be the cheapest: the last multiple of f that is at most g, and g. Of
    equal ones, the longer is chosen.
    """
    (f, first, _), (g, last, _) = groups
    k, both = costs
    answered = _answered(groups)
    cycle = g // f * f
    if (g // f * k + both) * cycle <= ((g // f - 1) * k + both) * g:
        cycle = g
    count = -(-cycle // f) - 1
    runs = _Repeated(f, count, (first, answered[0]), Execution(cycle, last, answered[1]))
    counts = (count, first, len(answered[0])), (1, last, len(answered[1]))
    return Schedule("dp", requests, groups, (Track.of(cycle, runs, counts),))


def run_costs(groups: Sequence[Group]) -> list[int]:
    """Return the estimated cost of a run of each group, which also answers all previous groups."""
    return [MEASURED.of(group.k, len(mine)) for group, mine in zip(groups, _answered(groups), strict=True)]


def _answered(groups: Sequence[Group]) -> list[tuple[int, ...]]:
    """Return the queries that a run of each group answers: its own, and those of all previous groups."""
    found: list[tuple[int, ...]] = []
    for group in groups:
        found.append(tuple(sorted((*(found[-1] if found else ()), *group.queries))))
    return found


def greedy(requests: tuple[tuple[int, int], ...]) -> Schedule:
    """Return the greedy plan: each group runs with the last run of the previous group that is in time.

    The periods are multiples of each other. A group's run costs only the difference to the k of the previous group, and
    is as late as possible under this constraint. Its period is more than half of its `every`, so the plan costs at most
    twice as much as the cheapest one.
    """
    groups = combined(grouped(requests))
    periods = [groups[0].every]
    for group in groups[1:]:
        periods.append(group.every // periods[-1] * periods[-1])
    cycle = periods[-1]
    # A run is charged to the last group that is due: subtract the runs of the next group from those of each group.
    following = [*(cycle // period for period in periods[1:]), 0]
    answered = _answered(groups)
    counts = [
        (cycle // period - later, group.k, len(mine))
        for group, period, later, mine in zip(groups, periods, following, answered, strict=True)
    ]
    return Schedule("greedy", requests, groups, (Track.of(cycle, _Steps(groups, answered, periods), counts),))
