"""When which queries are run: the plan on the stream's axis, while queries come and go.

All runs are at whole multiples of the *unit*, the greatest common divisor of all `every`, but for those at the very
moment at which a query was added or removed by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from skyband.queries.workload import Workload
from skyband.uncertain.query import UncertainTopK
from skyband.uncertain.schedules import Execution, Schedule, unit_of
from skyband.uncertain.scheduling import schedule

__all__ = ["Joining", "Timetable"]

FirstFrom = Callable[[int], int | None]  # the position of the oldest tuple at or after another


class Joining(NamedTuple):
    """A query that will be answered from the first window on that begins at or after `since`."""

    query: UncertainTopK
    since: int


class Timetable:
    """Knows the runs that are due. Time 0 of the plan is the first tuple's position, rounded down to a whole unit."""

    def __init__(self, workload: Workload[UncertainTopK], method: str, since: int | None = None) -> None:
        self.method = method
        self.size = workload.queries[0].window.size
        self.since = since  # windows that begin before this are not answered
        self.joining: list[Joining] = []
        self._adopt(workload)
        self._anchor: int | None = None  # time 0 of the plan
        self._done = 0  # the plan's runs up to this time have been made
        self._again: int | None = None  # when all queries are to be run once more, before the plan goes on
        self._answered: dict[str, int] = {}  # by query: when last

    def _adopt(self, workload: Workload[UncertainTopK]) -> None:
        self.workload = workload
        self.plan: Schedule = schedule([(query.window.slide, query.k) for query in workload], self.method)

    @property
    def queries(self) -> tuple[UncertainTopK, ...]:
        """Those that are run, in workload order."""
        return self.workload.queries

    @property
    def everyone(self) -> tuple[UncertainTopK, ...]:
        """These, and those that are yet to join."""
        return (*self.queries, *(joining.query for joining in self.joining))

    @property
    def labelled_from(self) -> int | None:
        """The position from which on every tuple must tell its stream; None: nobody asks."""
        if any(query.stream is not None for query in self.queries):
            return -(2**62) if self.since is None else self.since
        return min((one.since for one in self.joining if one.query.stream is not None), default=None)

    @property
    def next_time(self) -> int | None:
        """When the next run is due; None before the first tuple."""
        if self._anchor is None:
            return None
        planned, moment = self._anchor + next(self.plan.upcoming(self._done)).time, self._next_moment
        return planned if moment is None else min(planned, moment)

    def begin(self, first: int | None) -> None:
        """Let the plan begin with the first tuple, if it has not begun yet."""
        if self._anchor is None and first is not None:
            unit = unit_of(self.plan.requests)
            self._anchor = first // unit * unit
            if self.since is not None:
                self._anchor = max(self._anchor, _rounded_up(self.since + self.size, unit))

    def due(self, until: int, first_from: FirstFrom) -> Iterator[tuple[int, Execution]]:
        """The runs up to `until` whose windows hold a tuple, and when they are; each of them is made."""
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
        """Go on with other queries, and return the run that answers all of them at `at`, if there is one to be made.

        With `later` this run is not made now, but as soon as time has come to a whole unit after `at`.
        """
        if after != self.workload or self.method != self.plan.method:
            self._adopt(after)
        self._answered = {query.name: self._answered.get(query.name, at - 1) for query in after}
        if self._anchor is None:
            return None
        unit = unit_of(self.plan.requests)
        self._anchor, self._done, self._again = at // unit * unit, at % unit, None
        if later:
            self._anchor = self._again = self._anchor + unit
            self._done = 0
            return None
        due = tuple(place for place, query in enumerate(self.queries) if self._answered[query.name] != at)
        if not due or not self._holds_some(at, first_from):
            return None
        return self._made(Execution(0, max(self.queries[place].k for place in due), due), at)

    def renew(self, workload: Workload[UncertainTopK], since: int, first: int | None) -> None:
        """Begin anew with these queries, none of which has been here before."""
        self._adopt(workload)
        self.since, self.joining = since, []
        self._anchor, self._done, self._again, self._answered = None, 0, None, {}
        self.begin(first)

    def _planned(self, until: int, first_from: FirstFrom) -> Iterator[tuple[int, Execution]]:
        """The plan's runs up to `until`; stretches without a tuple are passed over at once."""
        assert self._anchor is not None, "asked for when it has begun"
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
        """The first whole unit whose window begins late enough; the unit is that of all queries together."""
        unit = unit_of([*self.plan.requests, (joining.query.window.slide, joining.query.k)])
        return _rounded_up(joining.since + self.size, unit)

    def _let_in(self, moment: int) -> Workload[UncertainTopK]:
        """The queries from this moment on; those that join now are not waited for any more."""
        here = [joining.query for joining in self.joining if self._moment_of(joining) == moment]
        self.joining = [joining for joining in self.joining if joining.query not in here]
        return Workload([*self.queries, *here]) if here else self.workload

    def state(self) -> dict[str, Any]:
        """Everything that `load` needs, the queries apart."""
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
        """Go on from what `state` returned, with the same queries."""
        self.since = state["since"]
        self.joining = [Joining(UncertainTopK(**fields), since) for fields, since in state["joining"]]
        self._anchor, self._done, self._again = state["anchor"], state["done"], state["again"]
        self._answered = dict(state["answered"])


def _rounded_up(position: int, unit: int) -> int:
    return -(-position // unit) * unit
