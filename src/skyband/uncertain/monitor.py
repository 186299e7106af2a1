"""Continuous ranking of uncertain tuples by a shared plan, in this process: arrays in, Arrow tables out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.arrow import from_bytes, to_bytes
from skyband.columns import position_column, score_column
from skyband.errors import InvalidInputError, InvalidQueryError, SnapshotError, UnknownNameError, UnsupportedError
from skyband.intake import Batch, Intake
from skyband.kernels.stream import Floats, Ints
from skyband.plans import Execution, Plan, unit_of
from skyband.queries import UncertainTopK
from skyband.snapshot import decode, encode, refuse_other_family, resuming
from skyband.uncertain.columns import check_lengths, probability_column
from skyband.uncertain.planning import schedule
from skyband.uncertain.rulebook import RuleBook
from skyband.uncertain.semantics import Asked, ranked
from skyband.uncertain.store import Rows, Store, ids_of
from skyband.uncertain.table import Part, answer_table, schema
from skyband.workload import Workload, of_family

__all__ = ["Monitor", "replay"]


class Monitor:
    """Answers queries over uncertain tuples that are pushed to it, at the times of a shared plan.

    Time 0 of the plan is the first tuple's position, rounded down to a whole unit (the greatest common divisor of all
    `every`). At each of its times t the queries that are due are answered from the tuples in ``[t - size, t)``, all of
    them from one pass.

    Parameters
    ----------
    queries
        One `UncertainTopK`, several, or a `Workload` of them, all with one `size`.
    plan
        How runs are shared, see `schedule`: ``"greedy"``, ``"dp"``, ``"inco"``, ``"in"`` or ``"none"``.
    epsilon
        Tuples that can be in no answer any more are dropped. With an `epsilon` above 0 also those that are in one with
        a small chance only: no probability in an answer is then off by more than this. No tuple is dropped while a
        query asks for expected ranks, in which all tuples count.

    Examples
    --------
    >>> import skyband as sb
    >>> monitor = sb.uncertain.Monitor(sb.UncertainTopK(k=1, size="20 seconds", every="10 seconds"))
    >>> monitor.push([1_000_000, 5_000_000], [80.0, 65.0], [0.3, 0.9])
    >>> monitor.advance_to(10_000_000)
    >>> monitor.answers().to_pylist()
    [{'query': 'topk', 'time': 10000000, 'rank': 1, 'id': 1, 'score': 65.0, 'probability': 0.63}]
    """

    def __init__(
        self,
        queries: UncertainTopK | Iterable[UncertainTopK] | Workload[UncertainTopK],
        *,
        plan: str = "greedy",
        epsilon: float = 0.0,
    ) -> None:
        self._workload = _checked(of_family(queries, UncertainTopK, "skyband.uncertain.Monitor"))
        self._epsilon = _checked_epsilon(epsilon)
        self._method = plan
        self._plan = _planned(self._workload, plan)
        self._size = self._workload.queries[0].window.size
        self._intake = Intake(self._workload.axis)
        self._store = Store()
        self._rules = RuleBook(self._size, lambda: self._store.rules_in_use)
        self._anchor: int | None = None  # time 0 of the plan
        self._done = 0  # the plan's runs up to this time have been made
        self._answered: dict[str, int] = {}  # by query: when last
        self._expected = _has_expected(self._workload)
        self._fresh: list[Part] = []
        self._pending: list[pa.Table] = []
        self._runs = self._cost = self._windows = 0
        self._finished = False

    @property
    def queries(self) -> tuple[UncertainTopK, ...]:
        """The queries, in workload order."""
        return self._workload.queries

    @property
    def plan(self) -> Plan:
        """When which queries are run; its time 0 is the first tuple's, or that of the last change of the queries."""
        return self._plan

    @property
    def next_time(self) -> int | None:
        """When the next run is due; None while no tuple is held that it could be about.

        >>> import skyband as sb
        >>> monitor = sb.uncertain.Monitor(sb.UncertainTopK(k=1, size="20 seconds", every="10 seconds"))
        >>> monitor.push([13_000_000], [80.0], [0.3])
        >>> monitor.next_time
        20000000
        """
        if self._anchor is None or not len(self._store):
            return None
        return self._anchor + next(self._plan.upcoming(self._done)).time

    @property
    def candidates(self) -> int:
        """How many tuples are held."""
        return len(self._store)

    def push(self, positions: Any, scores: Any, probabilities: Any, rules: Any = None, ids: Any = None) -> None:
        """Take in the next tuples. A push that is refused changes nothing.

        Parameters
        ----------
        positions
            int64 microseconds or timestamps that do not go backwards; None for count windows.
        scores
            Numbers, higher is better; a tuple with a null or NaN is left out.
        probabilities
            Numbers in (0, 1].
        rules
            A label for each tuple, null or -1 for none. Tuples of one rule exclude each other; in no window may their
            probabilities add up to more than 1.
        ids
            Anything that has an order; the row number by default.
        """
        self._refuse_after_end()
        keys = score_column(scores)
        check_lengths(keys.size, positions=positions, probabilities=probabilities, rules=rules, ids=ids)
        checked = self._intake.check(positions, keys, ids, None)
        kept = _kept(keys, checked, positions)
        there = None
        if kept is not None:
            there = np.zeros(keys.size, bool)
            there[kept] = True
        chances = probability_column(probabilities, there)
        chances = chances if kept is None else chances[kept]
        places = checked.positions if self._intake.axis == "time" else _numbers(self._intake.objects, checked)
        codes = self._rules.enter(rules, kept, places, chances, checked.position_kind)
        self._intake.adopt(checked)
        self._begin()
        rows = Rows(places, checked.scores, chances, codes, _ids(checked))
        self._store.add(rows, in_order=ids is None or self._intake.axis == "count")
        self._move_on()

    def advance_to(self, position: Any) -> None:
        """Move time forward without a tuple: answers due at or before `position` become final.

        >>> import skyband as sb
        >>> monitor = sb.uncertain.Monitor(sb.UncertainTopK(k=1, size="10 seconds"))
        >>> monitor.push([1_000_000], [5.0], [0.5])
        >>> monitor.advance_to(11_000_000)
        >>> monitor.answers()["time"].to_pylist()
        [10000000]
        """
        self._refuse_after_end()
        self._intake.newest, kind = self._intake.check_time(position)
        self._intake.position_kind = self._intake.position_kind or kind
        self._move_on()

    def finish(self) -> None:
        """End the stream: on a time axis every run whose window holds a tuple is made. Fetch them with `answers`."""
        if self._finished:
            return
        self._finished = True
        if self._intake.axis == "time" and self._intake.newest is not None:
            self._run_until(self._intake.newest + self._size)

    def add(self, query: UncertainTopK) -> None:
        """Take in another query; the plan is made anew, and no query waits longer than its `every` for it.

        All queries are answered at the newest position, which becomes time 0 of the new plan.

        >>> import skyband as sb
        >>> monitor = sb.uncertain.Monitor(sb.UncertainTopK(name="a", k=1, size=4, every=2))
        >>> monitor.push(None, [5.0, 4.0, 3.0], [0.5, 0.5, 0.5])
        >>> monitor.add(sb.UncertainTopK(name="b", k=2, size=4, every=4))
        >>> monitor.answers().select(["query", "time"]).to_pylist()[-2:]
        [{'query': 'b', 'time': 3}, {'query': 'b', 'time': 3}]
        """
        self._refuse_after_end()
        after = _checked(of_family([*self.queries, query], UncertainTopK, "skyband.uncertain.Monitor"))
        self._refuse_dropped(query)
        self._change(after)

    def remove(self, name: str) -> None:
        """Let go of a query; the plan is made anew, as for `add`.

        >>> import skyband as sb
        >>> queries = [sb.UncertainTopK(name="a", k=1, size=4), sb.UncertainTopK(name="b", k=2, size=4)]
        >>> monitor = sb.uncertain.Monitor(queries)
        >>> monitor.remove("a")
        >>> [query.name for query in monitor.queries]
        ['b']
        """
        self._refuse_after_end()
        if name not in [query.name for query in self.queries]:
            raise UnknownNameError.among("query", name, (query.name for query in self.queries))
        rest = [query for query in self.queries if query.name != name]
        if not rest:
            raise InvalidQueryError(f"query {name!r} is the last one; a monitor without queries answers nothing.")
        self._change(Workload(rest))

    def answers(self) -> pa.Table:
        """What has become final since the last call, by time, query and rank."""
        self._settle()
        pending, self._pending = self._pending, []
        wanted = self._schema()
        tables = [_widened(table, wanted) for table in pending]
        return pa.concat_tables([wanted.empty_table(), *tables]).combine_chunks()

    def metrics(self) -> dict[str, Any]:
        """Counts so far: rows, left out, runs and their cost, answers given, tuples held, dropped, ….

        ``remembered`` is the number of tuples known only for what their rules come to, ``error_bound`` says by how much
        a probability in the next answer can be off for tuples that were dropped.

        >>> import skyband as sb
        >>> monitor = sb.uncertain.Monitor(sb.UncertainTopK(k=3, size=10, every=2))
        >>> monitor.push(None, [5.0, None, 3.0], [0.5, 0.5, 0.5])
        >>> found = monitor.metrics()
        >>> found["left_out"], found["runs"], found["cost"], found["error_bound"]
        (1, 1, 3, 0.0)
        """
        return {
            "rows": self._intake.rows,
            "left_out": self._intake.left_out,
            "late": 0,  # positions never go backwards here: a late tuple is refused, not dropped
            "tuples": self._intake.objects,
            "runs": self._runs,
            "cost": self._cost,
            "windows": self._windows,
            "candidates": self.candidates,
            "remembered": len(self._rules),
            "dropped": self._store.dropped,
            "error_bound": self._store.error_bound,
        }

    def snapshot(self) -> bytes:
        """The monitor as bytes, answers not yet fetched included.

        >>> import skyband as sb
        >>> monitor = sb.uncertain.Monitor(sb.UncertainTopK(k=1, size=2))
        >>> monitor.push(None, [5.0], [0.5])
        >>> again = sb.uncertain.Monitor.resume(monitor.snapshot())
        >>> again.push(None, [4.0], [1.0])
        >>> again.answers()["probability"].to_pylist()
        [0.5]
        """
        self._settle()
        return encode(
            {
                "family": UncertainTopK.family,
                "queries": [query.to_dict() for query in self.queries],
                "plan": self._method,
                "epsilon": self._epsilon,
                "anchor": self._anchor,
                "done": self._done,
                "answered": self._answered,
                "expected": self._expected,
                "counts": [self._runs, self._cost, self._windows],
                "finished": self._finished,
                "intake": self._intake.state(),
                "store": self._store.state(self._intake.id_kind or pa.int64()),
                "rules": self._rules.state(),
                "pending": [to_bytes(table) for table in self._pending],
            }
        )

    @classmethod
    def resume(
        cls, blob: bytes, queries: UncertainTopK | Iterable[UncertainTopK] | Workload[UncertainTopK] | None = None
    ) -> Monitor:
        """The monitor that `snapshot` was taken of; with `queries`, refused unless they are the snapshot's own."""
        asked = None if queries is None else Workload(queries)
        with resuming():
            monitor = cls._load(decode(blob))
        if asked is not None and asked != monitor._workload:
            raise SnapshotError(
                f"the snapshot is of {monitor._workload!r} and was resumed under {asked!r}; its plan and what it holds "
                "are made for the former. Resume it without queries, then add and remove some."
            )
        return monitor

    @classmethod
    def _load(cls, saved: dict[str, Any]) -> Monitor:
        refuse_other_family(saved, UncertainTopK.family)
        found = [UncertainTopK(**fields) for fields in saved["queries"]]
        monitor = cls(found, plan=saved["plan"], epsilon=saved["epsilon"])
        monitor._anchor, monitor._done, monitor._finished = saved["anchor"], saved["done"], saved["finished"]
        monitor._answered, monitor._expected = dict(saved["answered"]), saved["expected"]
        monitor._runs, monitor._cost, monitor._windows = saved["counts"]
        monitor._intake = Intake.load(saved["intake"], None)
        monitor._store.load(saved["store"])
        monitor._rules.load(saved["rules"])
        monitor._pending = [from_bytes(table) for table in saved["pending"]]
        return monitor

    def _begin(self) -> None:
        """Time 0 of the plan is where the first tuple is, rounded down to a whole unit."""
        if self._anchor is None and self._intake.first is not None:
            unit = unit_of(self._plan.requests)
            self._anchor = self._intake.first // unit * unit

    @property
    def _now(self) -> int | None:
        return self._intake.newest if self._intake.axis == "time" else self._intake.objects

    def _move_on(self) -> None:
        """Make the runs that are due, then forget what no later run looks at."""
        now = self._now
        if now is None:
            return
        self._run_until(now)
        self._store.forget_before(now - self._size)
        if not _has_expected(self._workload):
            edge = now if self._intake.axis == "time" else now + 1
            self._store.drop_hopeless(max(query.k for query in self.queries), self._epsilon, edge)

    def _run_until(self, until: int) -> None:
        """Make the plan's runs up to `until`; stretches without a tuple are passed over at once."""
        if self._anchor is None:
            return
        runs = self._plan.upcoming(self._done)
        while True:
            run = next(runs)
            time = self._anchor + run.time
            if time > until:
                break
            rows = self._store.window(time - self._size, time)
            if not rows.positions.size:
                following = self._store.first_from(time)
                if following is None or following >= until:
                    break
                runs = self._plan.upcoming(following - self._anchor)
                continue
            self._answer(run, time, rows)
        self._done = max(self._done, until - self._anchor)

    def _answer(self, run: Execution, time: int, rows: Rows) -> None:
        """Answer the queries of a run from the tuples of its window."""
        mine = [self.queries[place] for place in run.queries]
        asked = [Asked(query.k, query.semantics, query.threshold) for query in mine]
        found = ranked(rows.scores, rows.probabilities, rows.rules, asked)
        for place, query, answer in zip(run.queries, mine, found, strict=True):
            chosen = answer.places
            self._fresh.append(
                Part(
                    time,
                    place,
                    query.name,
                    rows.ids[chosen],
                    rows.scores[chosen],
                    answer.probabilities,
                    answer.expected_ranks,
                )
            )
            self._answered[query.name] = time
        self._runs += 1
        self._cost += run.k_max
        self._windows += len(found)

    def _change(self, after: Workload[UncertainTopK]) -> None:
        """Go on with other queries: answer all of them now, and plan anew from here."""
        plan = _planned(after, self._method)
        if self._anchor is not None:
            self._settle()  # with the names and columns of the queries that gave these answers
        self._workload, self._plan = after, plan
        self._expected = self._expected or _has_expected(after)
        self._answered = {query.name: self._answered.get(query.name, -1) for query in after}
        if self._anchor is None or self._now is None:
            return
        now = self._now
        self._anchor, self._done = now, 0
        due = tuple(place for place, query in enumerate(self.queries) if self._answered[query.name] != now)
        rows = self._store.window(now - self._size, now)
        if due and rows.positions.size:
            self._answer(Execution(0, max(self.queries[place].k for place in due), due), now, rows)

    def _settle(self) -> None:
        if self._fresh:
            self._pending.append(answer_table(self._fresh, self._schema()))
            self._fresh = []

    def _schema(self) -> pa.Schema:
        return schema(self._intake.position_kind, self._intake.id_kind, self._expected)

    def _refuse_after_end(self) -> None:
        if self._finished:
            raise InvalidInputError("the stream was finished; nothing can follow its end. Start another monitor.")

    def _refuse_dropped(self, query: UncertainTopK) -> None:
        """Tuples of the window that were dropped for a smaller k could be in the answers of this query."""
        dropped = self._store.least_dropped
        if dropped is not None and (query.semantics == "expected-rank" or query.k > dropped[0]):
            raise UnsupportedError(
                f"query {query.name!r} has k={query.k} and semantics={query.semantics!r}, and tuples up to position "
                f"{dropped[1]} were dropped because they are in no answer for k={dropped[0]}; its first answers would "
                f"lack them. Add it when they have left the window, after {dropped[1] + self._size}, or start with it."
            )


def replay(
    queries: UncertainTopK | Iterable[UncertainTopK] | Workload[UncertainTopK],
    positions: Any,
    scores: Any,
    probabilities: Any,
    rules: Any = None,
    ids: Any = None,
    plan: str = "greedy",
) -> pa.Table:
    """All answers over a stream that is there as a whole, as ``query, time, rank, id, score, probability``.

    The arguments are those of `Monitor.push`; `plan` says how runs are shared. Where a query asks for expected ranks,
    there is a column ``expected_rank``.

    >>> import skyband as sb
    >>> fast = sb.UncertainTopK(name="fast", k=2, size="20 minutes")
    >>> minutes = [5, 10, 10, 15, 19, 19]
    >>> table = sb.uncertain.replay(fast, [60_000_000 * m for m in minutes], [80, 65, 45, 30, 50, 25],
    ...                             [0.3, 0.4, 0.5, 1.0, 0.8, 0.2], rules=[-1, 1, 1, -1, 2, 2])
    >>> [(row["score"], round(row["probability"], 3)) for row in table.to_pylist()][:2]
    [(50.0, 0.704), (65.0, 0.4)]
    """
    monitor = Monitor(queries, plan=plan)
    monitor.push(positions, scores, probabilities, rules, ids)
    monitor.finish()
    return monitor.answers()


def _checked(workload: Workload[UncertainTopK]) -> Workload[UncertainTopK]:
    """Queries that can be answered from the same arrays."""
    first = workload.queries[0]
    for query in workload:
        if query.where is not None:
            raise InvalidQueryError(
                f"query {query.name!r}: where={query.where!r} cannot be evaluated on arrays, which have no columns; "
                "filter them first."
            )
        if query.window.size != first.window.size:
            raise InvalidQueryError(
                f"queries {first.name!r} and {query.name!r} have different sizes ({first.size!r} and {query.size!r}); "
                "a run answers all queries from the tuples of one window. Make two workloads of them."
            )
    return workload


def _checked_epsilon(epsilon: object) -> float:
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 <= epsilon < 1:
        raise InvalidQueryError(
            f"epsilon={epsilon!r} must be a number in [0, 1); by so much probabilities may be off, 0 for not at all."
        )
    return float(epsilon)


def _planned(workload: Workload[UncertainTopK], method: str) -> Plan:
    return schedule([(query.window.slide, query.k) for query in workload], method)


def _has_expected(workload: Workload[UncertainTopK]) -> bool:
    return any(query.semantics == "expected-rank" for query in workload)


def _kept(keys: Floats, checked: Batch, positions: Any) -> Ints | None:
    """The rows that count, None for all of them."""
    if checked.scores.size == keys.size:
        return None
    there = ~np.isnan(keys)
    valid = None if positions is None else position_column(positions).valid
    return np.flatnonzero(there if valid is None else there & valid)


def _numbers(first: int, checked: Batch) -> Ints:
    return np.arange(first, first + checked.scores.size)


def _ids(checked: Batch) -> Any:
    if checked.named_ids is not None:
        return ids_of(checked.named_ids)
    if checked.ids.size or not checked.scores.size:
        return checked.ids
    return np.arange(checked.first_id, checked.first_id + checked.scores.size)


def _widened(table: pa.Table, wanted: pa.Schema) -> pa.Table:
    """The table with a column that was not asked for when it was made."""
    for name in wanted.names:
        if name not in table.column_names:
            table = table.append_column(name, pa.nulls(table.num_rows, wanted.field(name).type))
    return table.cast(wanted)
