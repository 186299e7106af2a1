"""The timetable of runs: the schedule mapped to positions of the stream, while queries are added and removed.

All runs are at multiples of the *unit*, the greatest common divisor of all `every`, except for the run at the time at
which a query is added or removed by the user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from skyband.queries.workload import Workload
from skyband.uncertain.query import UncertainTopK, requests_of
from skyband.uncertain.schedules import Execution, Schedule, unit_of
from skyband.uncertain.scheduling import schedule

__all__ = ["Joining", "Timetable"]

FirstFrom = Callable[[int], int | None]  # returns the position of the oldest tuple at or after a position


class Joining(NamedTuple):
    """A query that will be added. Its first window begins at or after `since`."""

    query: UncertainTopK
    since: int


class Timetable:
    """Yield the runs that are due. Time 0 of the plan is the first position, rounded down to a multiple of the unit."""

    def __init__(
        self, workload: Workload[UncertainTopK], method: str, since: int | None = None, *, aligned: bool = False
    ) -> None:
        self.aligned = aligned  # time 0 is a multiple of the plan's cycle, so moments do not depend on the first tuple
        self.method = method  # one of `PLANS`; the plan has the published method that was used
        self.size = workload.queries[0].window.size
        self.since = since  # windows that begin before this position are not answered
        self.joining: list[Joining] = []
        self._adopt(workload)
        self._anchor: int | None = None  # position of time 0 of the plan
        self._done = 0  # all runs of the plan up to this time have been yielded
        self._again: int | None = None  # time of an additional run of all queries, before the plan continues
        self._answered: dict[str, int] = {}  # per query: time of the last answer

    def _adopt(self, workload: Workload[UncertainTopK]) -> None:
        self.workload = workload
        self.plan: Schedule = schedule(requests_of(workload), self.method)
        self.adopted = self.method  # the method that computed the plan

    @property
    def queries(self) -> tuple[UncertainTopK, ...]:
        """The active queries, in workload order."""
        return self.workload.queries

    @property
    def everyone(self) -> tuple[UncertainTopK, ...]:
        """The active queries, and those that will be added."""
        return (*self.queries, *(joining.query for joining in self.joining))

    @property
    def labelled_from(self) -> int | None:
        """The position from which every tuple must have a stream, None if no query ranks streams."""
        if any(query.stream is not None for query in self.queries):
            return -(2**62) if self.since is None else self.since
        return min((one.since for one in self.joining if one.query.stream is not None), default=None)

    @property
    def next_time(self) -> int | None:
        """Time of the next run, None before the first tuple."""
        if self._anchor is None:
            return None
        planned, moment = self._anchor + next(self.plan.upcoming(self._done)).time, self._next_moment
        return planned if moment is None else min(planned, moment)

    def answered_at(self, moment: int) -> list[str]:
        """Return the names of the queries whose last answer was at this moment."""
        return [name for name, time in self._answered.items() if time == moment]

    def begin(self, first: int | None) -> None:
        """Start the plan with the first tuple, if it has not started yet."""
        if self._anchor is None and first is not None:
            unit = unit_of(self.plan.requests)
            anchor = first // unit * unit
            if self.since is not None:
                anchor = max(anchor, _rounded_up(self.since + self.size, unit))
            self._begin_at(anchor)

    def _begin_at(self, anchor: int, done: int = 0) -> None:
        """Let the plan begin at a position; an aligned one begins within its cycle."""
        inside = anchor % self.plan.cycle if self.aligned else 0
        self._anchor, self._done = anchor - inside, done + inside

    def due(self, until: int, first_from: FirstFrom) -> Iterator[tuple[int, Execution]]:
        """Yield time and run for all runs up to `until` with a non-empty window. The caller must execute each."""
        if self._anchor is None:
            return
        while (moment := self._next_moment) is not None and moment <= until:
            if moment != self._again:
                yield from self._planned(moment, first_from)
            if run := self.change(self._let_in(moment), moment, first_from):
                yield moment, run
        yield from self._planned(until, first_from)

    def change(
        self, after: Workload[UncertainTopK], at: int, first_from: FirstFrom, *, later: bool = False
    ) -> Execution | None:
        """Replace the queries, and return the run that answers all of them at `at`, if it is necessary.

        With `later`, this run is postponed to the next multiple of the unit after `at`.
        """
        if after != self.workload or self.method != self.adopted:
            self._adopt(after)
        self._answered = {query.name: self._answered.get(query.name, at - 1) for query in after}
        if self._anchor is None:
            return None
        unit = unit_of(self.plan.requests)
        self._begin_at(at // unit * unit, at % unit)
        self._again = None
        if later:
            self._again = at // unit * unit + unit
            self._begin_at(self._again)
            return None
        due = tuple(place for place, query in enumerate(self.queries) if self._answered[query.name] != at)
        if not due or not self._holds_some(at, first_from):
            return None
        return self._made(Execution(0, max(self.plan.requests[place][1] for place in due), due), at)

    def renew(self, workload: Workload[UncertainTopK], since: int, first: int | None) -> None:
        """Restart with these queries, none of which was active before."""
        self._adopt(workload)
        self.since, self.joining = since, []
        self._anchor, self._done, self._again, self._answered = None, 0, None, {}
        self.begin(first)

    def _planned(self, until: int, first_from: FirstFrom) -> Iterator[tuple[int, Execution]]:
        """Yield the plan's runs up to `until`. Periods without tuples are skipped."""
        assert self._anchor is not None, "only called after the plan has started"
        runs = self.plan.upcoming(self._done)
        while True:
            run = next(runs)
            time = self._anchor + run.time
            if time > until:
                break
            if not self._holds_some(time, first_from):
                following = first_from(time)
                if following is None or following >= until:
                    break
                runs = self.plan.upcoming(following - self._anchor)
                continue
            yield time, self._made(run, time)
        self._done = max(self._done, until - self._anchor)

    def _made(self, run: Execution, time: int) -> Execution:
        for place in run.queries:
            self._answered[self.queries[place].name] = time
        return run

    def _holds_some(self, time: int, first_from: FirstFrom) -> bool:
        first = first_from(time - self.size)
        return first is not None and first < time

    @property
    def _next_moment(self) -> int | None:
        moments = [moment for moment in (self._again, self._next_joining) if moment is not None]
        return min(moments, default=None)

    @property
    def _next_joining(self) -> int | None:
        return min(map(self._moment_of, self.joining), default=None)

    def _moment_of(self, joining: Joining) -> int:
        """Return the first multiple of the unit whose window begins late enough. The unit is that of all queries."""
        unit = unit_of([*self.plan.requests, *requests_of([joining.query])])
        return _rounded_up(joining.since + self.size, unit)

    def _let_in(self, moment: int) -> Workload[UncertainTopK]:
        """Return the workload from this time on, and remove the added queries from `joining`."""
        here = [joining.query for joining in self.joining if self._moment_of(joining) == moment]
        self.joining = [joining for joining in self.joining if joining.query not in here]
        return Workload([*self.queries, *here]) if here else self.workload

    def state(self) -> dict[str, Any]:
        """Return the state for `load`, without the queries."""
        return {
            "plan": self.method,
            "since": self.since,
            "joining": [(query.to_dict(), since) for query, since in self.joining],
            "anchor": self._anchor,
            "done": self._done,
            "again": self._again,
            "answered": self._answered,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Restore the state that `state` returned. The queries must be the same."""
        self.since = state["since"]
        self.joining = [Joining(UncertainTopK(**fields), since) for fields, since in state["joining"]]
        self._anchor, self._done, self._again = state["anchor"], state["done"], state["again"]
        self._answered = dict(state["answered"])


def _rounded_up(position: int, unit: int) -> int:
    return -(-position // unit) * unit
