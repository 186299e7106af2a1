"""Rank uncertain tuples continuously by a shared plan, in process: arrays in, Arrow tables out."""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.answer_table import answer_table, arrow_schema
from skyband.data.arrow import from_bytes, to_bytes
from skyband.data.columns import position_column, refuse_other_lengths, score_column
from skyband.data.key_dictionary import key_column
from skyband.data.validation import Batch
from skyband.errors import InvalidInputError, UnsupportedError
from skyband.kernels.stream import Floats, Ints
from skyband.local.frames import refuse_missing_arrays
from skyband.local.replay import replayed
from skyband.monitor import MonitorBase
from skyband.queries.families import FAMILIES
from skyband.queries.fields import checked_choice
from skyband.queries.workload import Workload
from skyband.snapshot import StateFormat
from skyband.uncertain.columns import probability_column
from skyband.uncertain.group_tuples import GroupTuples
from skyband.uncertain.label_dictionaries import RuleDictionary, StreamDictionary
from skyband.uncertain.query import (
    UncertainTopK,
    checked_epsilon,
    require_one_grouping,
    require_one_order,
    require_one_size,
)
from skyband.uncertain.retention import negligible_for, retention_of
from skyband.uncertain.run_clock import RunClock
from skyband.uncertain.schedules import PLANS, Execution, Schedule
from skyband.uncertain.semantics import SemanticsRequest, ranked
from skyband.uncertain.stream_ranking import Streams
from skyband.uncertain.table import Part, answer_rows
from skyband.uncertain.timetable import Joining, Timetable
from skyband.uncertain.tuple_store import TupleRows, TupleStore, ids_of

__all__ = ["Monitor", "replay"]

_SCHEMA = FAMILIES["uncertain"].answers


def _from_version_1(saved: dict[str, Any]) -> dict[str, Any]:
    *counts, windows = saved["counts"]
    common = {"queries": saved["times"]["queries"], "windows": windows, "groups": None, "valid_from": {}, "ready": []}
    return {**saved, **common, "computed": True, "counts": counts}


def _from_version_2(saved: dict[str, Any]) -> dict[str, Any]:
    """No query of version 2 has a column of ranking functions."""
    return {**saved, "extra": [*saved["extra"], False]}


class Monitor(MonitorBase[UncertainTopK, pa.Table]):
    """Answer queries over pushed uncertain tuples, at the times of a shared plan.

    Time 0 of the plan is the first tuple's position, rounded down to a multiple of the unit (the greatest common
    divisor of all `every`). At each planned time t, one pass over the tuples in ``[t - size, t)`` answers all queries
    that are due.

    Parameters
    ----------
    queries
        One `UncertainTopK`, several, or a `Workload` of them, all with the same `size`.
    plan
        How runs are shared, see `schedule`: ``"auto"``, ``"dp"``, ``"greedy"``, ``"inco"``, ``"in"`` or ``"none"``.
    epsilon
        Tuples that can no longer be in an answer are dropped. With `epsilon` above 0, tuples that can only be in an
        answer with a small probability are dropped too; the error of each probability in an answer, and of each sum of
        a ranked stream, is at most `epsilon`, and that of a ``prf`` at most `epsilon` times the sum of the sizes of its
        weights. No tuple is dropped while a query has ``semantics="expected-rank"``, which depends on all tuples.
    since
        Windows that begin before this position are not answered, because earlier tuples were not pushed.
    computed
        True if the caller has already applied `where` and the expressions of the queries. Otherwise a query that has
        any of them is rejected.
    time, id
        For data frames instead of arrays: the columns with the event time and the id, as in `skyband.Monitor`.

    Examples
    --------
    >>> import skyband as sb
    >>> monitor = sb.uncertain.Monitor(sb.UncertainTopK(k=1, size="20 seconds", every="10 seconds"))
    >>> monitor.push([1_000_000, 5_000_000], [80.0, 65.0], [0.3, 0.9])
    >>> monitor.advance_to(10_000_000)
    >>> monitor.answers().to_pylist()
    [{'query': 'topk', 'time': 10000000, 'rank': 1, 'id': 1, 'score': 65.0, 'probability': 0.63}]
    """

    asks = UncertainTopK
    counts = "tuples"
    state_format = StateFormat("uncertain monitor", [_from_version_1, _from_version_2])

    def __init__(
        self,
        queries: UncertainTopK | Iterable[UncertainTopK] | Workload[UncertainTopK],
        *,
        plan: str = "auto",
        epsilon: float = 0.0,
        since: int | None = None,
        computed: bool = False,
        time: str | None = None,
        id: str | None = None,  # noqa: A002 - the name that Spark's calls have for it
    ) -> None:
        self._refuse_id_without_time(id)
        workload = self._checked(queries, computed)
        super().__init__(workload.axis, computed=computed)
        self._epsilon = checked_epsilon(epsilon)
        grouped = any(query.groups for query in workload)
        self._times = Timetable(workload, checked_choice("plan", plan, PLANS), since, aligned=grouped)
        self._groups: dict[int, GroupTuples] = {}  # by code; without groups, the store has all tuples
        self._past = {"dropped": 0}  # what removed groups have counted
        self._size = self._times.size
        self._store = TupleStore()
        self._rules = RuleDictionary(self._size, lambda: self._store.rules_in_use)
        self._streams = StreamDictionary(self._streams_in_use)
        self._expected = self._valued = self._ranks_streams = False  # whether answers have these columns
        self._widen()
        self._fresh: list[Part] = []
        self._runs = self._cost = 0
        self._clock = RunClock()  # since the monitor was created or resumed

    @property
    def _workload(self) -> Workload[UncertainTopK]:  # type: ignore[override]  # the timetable adds queries
        return self._times.workload

    @property
    def _ascending(self) -> bool:
        """Whether lower scores are better. The store has the negated scores then."""
        return self.queries[0].ascending

    @property
    def plan(self) -> Schedule:
        """The schedule of runs. Its time 0 is that of the first tuple, or of the last change of the queries."""
        return self._times.plan

    @property
    def plan_method(self) -> str:
        """The method that `plan` was given, such as ``"auto"``. The schedule has the published method that it uses."""
        return self._times.method

    @property
    def next_time(self) -> int | None:
        """Time of the next run, None while no tuple is held.

        >>> import skyband as sb
        >>> monitor = sb.uncertain.Monitor(sb.UncertainTopK(k=1, size="20 seconds", every="10 seconds"))
        >>> monitor.push([13_000_000], [80.0], [0.3])
        >>> monitor.next_time
        20000000
        """
        if self._intake.axis == "count" and self._is_grouped:
            return None  # each group has its own numbers
        return self._times.next_time if self.candidates else None

    @property
    def candidates(self) -> int:
        """Number of tuples held."""
        return len(self._store) + sum(len(group.store) for group in self._groups.values())

    def push(
        self,
        positions: Any,
        scores: Any = None,
        probabilities: Any = None,
        rules: Any = None,
        ids: Any = None,
        streams: Any = None,
        *,
        groups: Any = None,
    ) -> None:
        """Process the next tuples. A rejected push changes nothing.

        Parameters
        ----------
        positions
            int64 microseconds or timestamps that do not go backwards; None for count windows.
        scores
            Numbers, higher is better. Tuples with a null or NaN score are dropped.
        probabilities
            Numbers in (0, 1].
        rules
            A label per tuple, null or -1 for none. Tuples of one rule exclude each other. Their probabilities must not
            add up to more than 1 in any window.
        ids
            Values of any ordered type. The default is the row number.
        streams
            The stream label of each tuple. Required while a query ranks streams.
        groups
            One value per tuple. Each group has separate windows, rules and answers. Null and NaN are one group.
        """
        self._refuse_after_end()
        refuse_missing_arrays(positions, scores=scores, probabilities=probabilities)
        self._refuse_missing_groups(groups)
        keys = score_column(scores)
        keys = 0.0 - keys if self._ascending else keys  # without -0.0
        given = {"positions": positions, "probabilities": probabilities, "rules": rules, "ids": ids, "streams": streams}
        refuse_other_lengths(keys.size, "scores", groups=groups, **given)
        checked = self._intake.check(positions, keys, ids, groups)
        kept = _kept(keys, checked, positions)
        there = None
        if kept is not None:
            there = np.zeros(keys.size, bool)
            there[kept] = True
        chances = probability_column(probabilities, there)
        chances = chances if kept is None else chances[kept]
        places = checked.positions if self._intake.axis == "time" else _numbers(self._intake.objects, checked)
        if checked.groups is not None:
            self._push_groups(checked, checked.groups.codes, kept, places, chances, rules, streams, ids is None)
            return
        labels = self._streams.check(streams, self._needs_stream(keys.size, kept, places))
        codes = self._rules.enter(rules, kept, places, chances, checked.position_kind)
        self._intake.adopt(checked)
        self._times.begin(self._intake.first)
        rows = TupleRows(
            places, checked.scores, chances, codes, self._streams.enter(labels, kept, places), _ids(checked)
        )
        self._store.add(rows, in_order=ids is None or self._intake.axis == "count")
        self._move_time()

    def _push_groups(
        self,
        checked: Batch,
        codes: Ints,
        kept: Ints | None,
        places: Ints,
        chances: Floats,
        rules: Any,
        streams: Any,
        unnamed: bool,
    ) -> None:
        """Take in valid tuples of several groups. The rules of all groups are checked before a tuple is stored."""
        labels = self._streams.check(streams, self._needs_stream(checked.rows, kept, places))
        order = np.argsort(codes, kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1) if codes.size else []
        found = {int(codes[part[0]]): part for part in parts}
        fresh = {code: self._new_group() for code in found if code not in self._groups}
        mine = {code: (fresh.get(code) or self._groups[code], part) for code, part in found.items()}
        on_time = self._intake.axis == "time"
        for group, part in () if on_time else mine.values():
            places[part] = np.arange(group.objects, group.objects + part.size)
        ruled = _entered(mine.values(), rules, kept, places, chances, checked.position_kind)
        if not self._is_grouped:  # no query has partition_by, so the groups apply to all of them
            self._times = Timetable(self._workload, self._times.method, self._times.since, aligned=True)
        self._intake.adopt(checked)
        self._groups |= fresh
        if on_time:
            self._times.begin(self._intake.first)
        columns = TupleRows(
            places, checked.scores, chances, ruled, self._streams.enter(labels, kept, places), _ids(checked)
        )
        for group, part in mine.values():
            group.store.add(TupleRows._make(column[part] for column in columns), in_order=unnamed or not on_time)
            group.objects += part.size
            group.newest = int(places[part[-1]])
            if group.times is not None:
                group.times.begin(0)
        self._move_time()
        if self._intake.groups is not None and self._intake.groups.has_grown:
            self._forget_groups()

    @property
    def _is_grouped(self) -> bool:
        return self._times.aligned

    def _new_group(self) -> GroupTuples:
        times = None
        if self._intake.axis == "count":
            times = Timetable(self._workload, self._times.method, aligned=True)
        return GroupTuples(self._size, times)

    def _streams_in_use(self) -> Ints:
        stores = [self._store, *(group.store for group in self._groups.values())]
        return np.concatenate([store.streams_in_use for store in stores])

    def _forget_groups(self) -> int:
        """Remove the groups without tuples that a window needs; return the number of those left.

        On a count axis all groups are retained, because windows depend on the numbers of their tuples.
        """
        known = self._intake.groups
        if known is None:
            return 0
        if self._intake.axis == "time":
            used = np.zeros(known.codes, bool)
            used[list(self._groups)] = True
            used[[part.group for part in self._fresh]] = True
            known.forget(used)
        return len(known)

    def _end(self, beyond: int) -> None:
        self._run_until(beyond)

    def add(self, query: UncertainTopK) -> Any:
        """Add a query and rebuild the plan. No query waits longer than its `every` because of it.

        All queries are answered at the newest position. Time 0 of the new plan is this position, rounded down to a
        multiple of the unit.

        >>> import skyband as sb
        >>> monitor = sb.uncertain.Monitor(sb.UncertainTopK(name="a", k=1, size=4, every=2))
        >>> monitor.push(None, [5.0, 4.0, 3.0], [0.5, 0.5, 0.5])
        >>> monitor.add(sb.UncertainTopK(name="b", k=2, size=4, every=4))
        >>> monitor.answers().select(["query", "time"]).to_pylist()[-2:]
        [{'query': 'b', 'time': 3}, {'query': 'b', 'time': 3}]
        """
        return super().add(query)

    def _add(self, query: UncertainTopK, after: Workload[UncertainTopK]) -> None:
        self._refuse_grouped_counts(f"add({query.name!r})")
        self._reject_if_dropped(query)
        self._reject_if_unlabelled(query)
        self._change(after)

    def _remove(self, name: str, after: Workload[UncertainTopK]) -> None:
        self._change(after)

    def take_up(
        self, queries: Iterable[UncertainTopK], *, since: int, is_complete: bool, plan: str | None = None
    ) -> None:
        """Replace the queries. Existing queries in `queries` continue, new ones are added, the others are removed.

        New queries are answered from the first window that begins at or after `since`, and tuples are retained for them
        from now on. If the held tuples are not complete (`is_complete`), existing queries are not answered at the
        newest position, where tuples of the window may be missing, but at the next multiple of the unit. `plan` sets
        how runs are shared from now on.

        >>> import skyband as sb
        >>> often, rare = (sb.UncertainTopK(name=f"every {n}", k=1, size=4, every=n) for n in (2, 4))
        >>> monitor = sb.uncertain.Monitor(rare)
        >>> monitor.push(None, [5.0, 4.0, 3.0], [0.5, 0.5, 0.5])
        >>> monitor.take_up([rare, often], since=3, is_complete=True)
        >>> monitor.push(None, [5.0, 4.0, 3.0, 2.0, 1.0], [0.5] * 5)
        >>> monitor.answers().select(["query", "time"]).to_pylist()
        [{'query': 'every 4', 'time': 4}, {'query': 'every 4', 'time': 8}, {'query': 'every 2', 'time': 8}]
        """
        self._refuse_after_end()
        wanted = self._checked(queries, self._computed)
        known = {joining.query: joining for joining in self._times.joining}
        staying = [query for query in self.queries if query in wanted.queries]
        fresh = [query for query in wanted if query not in staying]
        if fresh:
            self._refuse_grouped_counts(f"a new query {fresh[0].name!r}")
        self._settle()
        self._times.method = plan or self._times.method
        if not staying:
            self._times.renew(wanted, since, self._intake.first)
        else:
            self._times.joining = []
            if len(staying) < len(self.queries) or self._times.method != self._times.adopted:
                self._change(Workload(staying), later=not is_complete)
            self._times.joining = [known.get(query, Joining(query, since)) for query in fresh]
        self._widen()

    def _table(self, pending: list[pa.Table]) -> pa.Table:
        wanted = self._schema()
        # Columns that a later query needs are added to earlier answers too.
        tables = [answer_table({name: table[name] for name in table.column_names}, wanted) for table in pending]
        return pa.concat_tables([wanted.empty_table(), *tables]).combine_chunks()

    def metrics(self) -> dict[str, Any]:
        """Return counters: rows, dropped rows, runs and their cost, answers, tuples held and dropped, and so on.

        ``remembered`` is the number of tuples kept to compute the probability sums of rules. ``error_bound`` is the
        maximum error of a probability in the next answer because of dropped tuples. ``seconds`` is the time spent in
        runs since the monitor was created or resumed, ``throughput`` the number of answers per second of it, over all
        queries. ``latency`` is the mean over queries of the sum of delays: if runs are executed one after another, each
        at its time in the plan or when the one before it is done, by how many seconds the time between two answers
        exceeds `every`. It is 0 for count windows.

        >>> import skyband as sb
        >>> monitor = sb.uncertain.Monitor(sb.UncertainTopK(k=3, size=10, every=2))
        >>> monitor.push(None, [5.0, None, 3.0], [0.5, 0.5, 0.5])
        >>> found = monitor.metrics()
        >>> found["dropped_null"], found["runs"], found["cost"], found["error_bound"]
        (1, 1, 3, 0.0)
        """
        return super().metrics()

    def _counters(self) -> dict[str, Any]:
        return {
            **({} if self._intake.groups is None else {"groups": self._forget_groups()}),
            "runs": self._runs,
            "cost": self._cost,
            "remembered": len(self._rules) + sum(group.remembered for group in self._groups.values()),
            "dropped": self._past["dropped"] + sum(store.dropped for store in self._stores),
            "error_bound": max(store.error_bound for store in self._stores),
            "seconds": self._clock.seconds,
            "throughput": self._clock.throughput,
            "latency": self._clock.latency,
        }

    def _state(self) -> dict[str, Any]:
        return {
            "times": self._times.state(),
            "epsilon": self._epsilon,
            "extra": [self._expected, self._ranks_streams, self._valued],
            "counts": [self._runs, self._cost],
            "store": self._store.state(self._intake.id_kind or pa.int64()),
            "rules": self._rules.state(),
            **self._groups_state(),
            "streams": self._streams.state(),
            "pending": [to_bytes(table) for table in self._pending],
        }

    def _groups_state(self) -> dict[str, Any]:
        if not self._is_grouped:
            return {}
        self._forget_groups()
        kind = self._intake.id_kind or pa.int64()
        lanes = [(code, group.state(kind)) for code, group in self._groups.items()]
        return {"lanes": lanes, "past": self._past}

    @classmethod
    def _made(cls, queries: list[UncertainTopK], saved: dict[str, Any]) -> Self:
        return cls(queries, plan=saved["times"]["plan"], epsilon=saved["epsilon"], computed=True)

    def _load(self, saved: dict[str, Any]) -> None:
        self._times.aligned = "lanes" in saved
        self._times.load(saved["times"])
        self._past = saved.get("past", self._past)
        for code, state in saved.get("lanes", ()):
            self._groups[code] = self._new_group()
            self._groups[code].load(state)
        self._expected, self._ranks_streams, self._valued = saved["extra"]
        self._runs, self._cost = saved["counts"]
        self._store.load(saved["store"])
        self._rules.load(saved["rules"])
        self._streams.load(saved["streams"])
        self._pending = [from_bytes(table) for table in saved["pending"]]

    @classmethod
    def _checked(
        cls, queries: UncertainTopK | Iterable[UncertainTopK] | Workload[UncertainTopK], computed: bool
    ) -> Workload[UncertainTopK]:
        found = super()._checked(queries, computed)
        require_one_size(found.queries)
        require_one_grouping(found.queries)
        require_one_order(found.queries)
        return found

    @property
    def _timetables(self) -> list[Timetable]:
        """The plans of its queries."""
        return [self._times]

    def _open_answers(self, copied: Monitor) -> pa.Table:
        """Return the answers at the next moment of each query, which its plan determines."""
        return copied.next_answers()

    def next_answers(self) -> pa.Table:
        """Move time to the next moment of each query, and return the answers there.

        >>> import skyband as sb
        >>> monitor = sb.uncertain.Monitor(sb.UncertainTopK(k=1, size="20 seconds", every="10 seconds"))
        >>> monitor.push([13_000_000], [80.0], [0.3])
        >>> monitor.next_answers()["time"].to_pylist()
        [20000000]
        """
        found, known, newest = [MonitorBase.answers(self)], set[str](), self._intake.newest
        while newest is not None and len(known) < len(self.queries):
            moment = self.next_time
            if moment is None or moment > newest + max(query.window.size for query in self.queries):
                break
            self._intake.newest = moment
            self._move_time()
            answered = {name for times in self._timetables for name in times.answered_at(moment)}
            table = MonitorBase.answers(self)
            found.append(table.filter(pc.is_in(table["query"], pa.array(sorted(answered - known), pa.string()))))
            known |= answered
        return pa.concat_tables(found, promote_options="permissive")

    @property
    def _now(self) -> int | None:
        return self._intake.newest if self._intake.axis == "time" else self._intake.objects

    def _move_time(self) -> None:
        """Execute the runs that are due, then drop tuples that no later run needs."""
        now = self._now
        if now is None:
            return
        self._run_until(now)
        needed, on_time = retention_of(self._times.everyone), self._intake.axis == "time"
        if not self._is_grouped:
            self._store.drop_before(now - self._size)
            if needed is not None:
                self._store.prune(needed, self._epsilon, now if on_time else now + 1)
        for code, group in list(self._groups.items()):
            here = now if on_time else group.objects
            if on_time and group.is_over(now):
                self._past["dropped"] += self._groups.pop(code).store.dropped
                continue
            group.store.drop_before(here - self._size)
            if needed is not None:
                group.store.prune(needed, self._epsilon, here if on_time else here + 1)

    def _run_until(self, until: int) -> None:
        for time, run in self._times.due(until, self._first_from):
            self._answer(run, time)
        for code, group in self._groups.items():
            if group.times is not None:
                for time, run in group.times.due(group.objects, group.store.first_from):
                    self._answer_from(group.store, run, time, code)

    def _first_from(self, position: int) -> int | None:
        """Return the position of the oldest tuple at or after a position, of all groups."""
        if not self._is_grouped:
            return self._store.first_from(position)
        found = (group.store.first_from(position) for group in self._groups.values())
        return min((first for first in found if first is not None), default=None)

    @property
    def _stores(self) -> list[TupleStore]:
        return [self._store, *(group.store for group in self._groups.values())]

    def _answer(self, run: Execution, time: int) -> None:
        """Answer the queries of a run, for each group with a tuple in its window."""
        if not self._is_grouped:
            self._answer_from(self._store, run, time)
        for code, group in self._groups.items():
            first = group.store.first_from(time - self._size)
            if first is not None and first < time:
                self._answer_from(group.store, run, time, code)

    def _answer_from(self, store: TupleStore, run: Execution, time: int, code: int = -1) -> None:
        """Answer the queries of a run from the tuples in its window."""
        began = perf_counter()
        rows = store.window(time - self._size, time)
        mine = [self.queries[place] for place in run.queries]
        requests = [
            SemanticsRequest(
                *(query.k, query.semantics, query.threshold, query.weights, query.alpha),  # type: ignore[arg-type]
                of_streams=query.stream is not None,
            )
            for query in mine
        ]
        streams = Streams(rows.streams, rows.positions, self._streams.stored)
        found = ranked(rows.scores, rows.probabilities, rows.rules, requests, streams)
        for place, query, answer in zip(run.queries, mine, found, strict=True):
            chosen = answer.places
            self._fresh.append(
                Part(
                    time,
                    place,
                    query.name,
                    rows.ids[chosen],
                    0.0 - rows.scores[chosen] if query.ascending else rows.scores[chosen],
                    answer.probabilities,
                    answer.expected_ranks,
                    answer.values,
                    None if query.stream is None else self._streams.labels(rows.streams[chosen]),
                    code,
                )
            )
        self._runs += 1
        self._cost += run.k_max
        self._windows += len(found)
        self._clock.ran(time, perf_counter() - began, mine)

    def _change(self, after: Workload[UncertainTopK], *, later: bool = False) -> None:
        """Replace the workload: answer all queries now and rebuild the plan from this time."""
        if self._now is None:
            self._times = Timetable(after, self._times.method, self._times.since, aligned=self._is_grouped)
            self._widen()
            return
        self._settle()  # while the names and columns of the old queries are known
        run = self._times.change(after, self._now, self._first_from, later=later)
        self._widen()
        if run is not None:
            self._answer(run, self._now)
        for code, group in self._groups.items():
            if group.times is not None:
                group.times.method = self._times.method
                run = group.times.change(after, group.objects, group.store.first_from)
                if run is not None:
                    self._answer_from(group.store, run, group.objects, code)

    def _widen(self) -> None:
        """Add the optional answer columns that the queries need. They are never removed."""
        everyone = self._times.everyone
        self._expected = self._expected or any(query.semantics == "expected-rank" for query in everyone)
        self._valued = self._valued or any(query.semantics == "prf" for query in everyone)
        self._ranks_streams = self._ranks_streams or any(query.stream is not None for query in everyone)

    def _needs_stream(self, rows: int, kept: Ints | None, places: Ints) -> Any:
        """Return a mask of the rows that must have a stream label."""
        needed = np.zeros(rows, bool)
        begin = self._times.labelled_from
        if begin is not None:
            needed[slice(None) if kept is None else kept] = places >= begin
        return needed

    def _settle(self) -> None:
        if self._fresh:
            self._pending.append(answer_rows(self._fresh, self._schema(), self._intake.groups))
            self._fresh = []

    def _schema(self) -> pa.Schema:
        own = {"time": self._intake.position_kind, "id": self._intake.id_kind, "stream": self._streams.kind}
        wanted = ["expected_rank"] * self._expected + ["prf"] * self._valued
        if self._ranks_streams and own["stream"] is not None:
            wanted.append("stream")
        groups = self._intake.groups
        kind = None if groups is None else groups.kind or pa.null()
        return arrow_schema(_SCHEMA, own, group=kind, wanted=wanted)

    def _reject_if_dropped(self, query: UncertainTopK) -> None:
        """Reject a query whose answers may need tuples that were dropped for a smaller k."""
        for store in self._stores:
            self._reject_if_dropped_from(store, query)

    def _reject_if_dropped_from(self, store: TupleStore, query: UncertainTopK) -> None:
        dropped = store.least_dropped
        if dropped is None:
            return
        is_deeper = query.depth is None or query.depth > dropped[0]
        if is_deeper or store.error_bound > max(self._epsilon, negligible_for(query)):
            ranks = f"k={query.k}" if query.weights is None else f"{query.depth} weights"
            why = f"for k={dropped[0]}" if is_deeper else "of the other queries, but could be in one of its lists"
            raise UnsupportedError(
                f"query {query.name!r} has {ranks} and semantics={query.semantics!r}, but tuples up to position "
                f"{dropped[1]} were dropped because they are in no answer {why}. Its first answers would "
                f"be wrong. Add it after position {dropped[1] + self._size}, when these tuples have left the window, "
                "or create the monitor with it."
            )

    def _refuse_grouped_counts(self, given: str) -> None:
        """Reject new queries over count windows of groups, whose tuples are numbered separately."""
        if self._is_grouped and self._intake.axis == "count" and self._intake.rows:
            raise UnsupportedError(
                f"{given} is not supported for count windows with groups after the first push: a group without tuples "
                "in its window has no number from which on a new query could be answered. Use another monitor."
            )

    def _reject_if_unlabelled(self, query: UncertainTopK) -> None:
        """Reject a query that ranks streams while the window contains tuples without a stream."""
        last, now = self._streams.unlabelled, self._now
        if query.stream is not None and last is not None and now is not None and last >= now - self._size:
            raise UnsupportedError(
                f"query {query.name!r} has stream={query.stream!r}, but tuples up to position {last} have no stream. "
                "Its first answers would ignore them. Pass streams= from now on and add the query after position "
                f"{last + self._size}, when these tuples have left the window, or create the monitor with it."
            )


def replay(
    queries: UncertainTopK | Iterable[UncertainTopK] | Workload[UncertainTopK],
    positions: Any,
    scores: Any = None,
    probabilities: Any = None,
    rules: Any = None,
    ids: Any = None,
    plan: str = "auto",
    *,
    streams: Any = None,
    groups: Any = None,
    time: str | None = None,
    id: str | None = None,  # noqa: A002 - the name that Spark's calls have for it
) -> Any:
    """Return all answers over a stream that is in memory, as ``query, [group,] time, rank, id, score, probability``.

    The arguments are those of `Monitor.push`. `plan` sets how runs are shared. If a query has
    ``semantics="expected-rank"``, there is a column ``expected_rank``, and with ``"prf"`` a column ``prf``. If a query
    ranks streams, there is a column
    ``stream``, null for the other queries. ``probability`` is then the stream's sum, and ``id`` and ``score`` are those
    of the tuple that contributes most to it.

    >>> import skyband as sb
    >>> fast = sb.UncertainTopK(name="fast", k=2, size="20 minutes")
    >>> minutes = [5, 10, 10, 15, 19, 19]
    >>> table = sb.uncertain.replay(fast, [60_000_000 * m for m in minutes], [80, 65, 45, 30, 50, 25],
    ...                             [0.3, 0.4, 0.5, 1.0, 0.8, 0.2], rules=[-1, 1, 1, -1, 2, 2])
    >>> [(row["score"], round(row["probability"], 3)) for row in table.to_pylist()][:2]
    [(50.0, 0.704), (65.0, 0.4)]

    Rank sensors by how many of their tuples are expected in the top 2:

    >>> sites = sb.UncertainTopK(name="sites", k=2, size=4, stream="sensor")
    >>> table = sb.uncertain.replay(sites, None, [9.0, 7.0, 8.0, 5.0], [0.5, 0.5, 0.25, 1.0],
    ...                             streams=["north", "south", "east", "south"])
    >>> table.select(["stream", "probability", "score"]).to_pylist()[0]
    {'stream': 'south', 'probability': 1.0625, 'score': 5.0}
    """
    arrays = {
        "scores": scores,
        "probabilities": probabilities,
        "rules": rules,
        "ids": ids,
        "streams": streams,
        "groups": groups,
    }
    found = replayed(queries, positions, arrays, time=time, id_=id, algorithm=plan)
    if found is not None:
        return found
    return Monitor(queries, plan=plan)._replayed(positions, scores, probabilities, rules, ids, streams, groups=groups)


def _entered(
    groups: Iterable[tuple[GroupTuples, Ints]],
    rules: Any,
    kept: Ints | None,
    places: Ints,
    chances: Floats,
    kind: pa.DataType | None,
) -> Ints:
    """Store the rules of the tuples of several groups, given with their rows; or of none, if those of one are wrong."""
    codes = np.full(places.size, -1)
    if rules is None:
        return codes
    stored = key_column(rules, "rules").stored
    stored = stored if kept is None else stored.take(pa.array(kept))
    entered: list[GroupTuples] = []
    try:
        for group, rows in groups:
            codes[rows] = group.enter_rules(stored.take(pa.array(rows)), places[rows], chances[rows], kind)
            entered.append(group)
    except InvalidInputError:
        for group in entered:
            group.withdraw_rules()
        raise
    return codes


def _kept(keys: Floats, checked: Batch, positions: Any) -> Ints | None:
    """Return the indices of valid rows, None if all rows are valid."""
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
