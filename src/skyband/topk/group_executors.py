"""An executor for each group, with the engines that answer its queries.

With the panes engine, groups with few objects share the executors of `GroupPools`. A separate executor costs a group
about ten kilobytes and a call for each push, which pays off only for many candidates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from skyband.data.answer_log import AnswerLog, RankedWindows
from skyband.kernels.stream import Floats, Ints, Rows
from skyband.queries import Axis
from skyband.queries.sharing import places_by
from skyband.topk.algorithms import Engine
from skyband.topk.algorithms.panes import Panes
from skyband.topk.group_pools import GroupPools
from skyband.topk.group_rows import GroupRows, by_group, chosen_groups, in_stream_order
from skyband.topk.query import TopK
from skyband.topk.session_executor import SessionExecutor
from skyband.topk.sessions import is_session
from skyband.windows import ALWAYS

__all__ = ["UNGROUPED", "Arrivals", "GroupExecutors"]

UNGROUPED = -1
NONE = np.empty(0, np.int64)
MANY = 2048  # objects: copying fewer than this costs less than a call of a separate engine
FEW = 512


class Arrivals(NamedTuple):
    """Objects that arrive, in stream order, of any group."""

    scores: Floats
    positions: Ints  # empty on a count axis
    ids: Ints  # empty: consecutive numbers from first_id on
    first_id: int
    groups: Ints | None


class _PlacedEngine(NamedTuple):
    engine: Engine
    places: tuple[int, ...]  # indexes of its queries in the workload
    ascending: bool  # whether its keys are the negated scores


class _GroupExecutor:
    """The engines over one group's rows (or over all rows), and the number of objects they have processed.

    `since` contains the smallest window start that each query of the workload answers in this executor.
    """

    def __init__(self, since: Sequence[int]) -> None:
        self.engines: list[_PlacedEngine] = []
        self.since = list(since)
        self.objects = 0
        self.newest = ALWAYS  # on a time axis: the position of its newest object


class GroupExecutors:
    """Route every object to the engines of its group, and collect their answers.

    `grouped` contains the indexes of the queries that answer per group; the others answer for the whole stream. `since`
    contains the smallest window start that each query answers in new executors.
    """

    def __init__(
        self,
        queries: tuple[TopK, ...],
        grouped: Iterable[int],
        engine: type[Engine],
        since: Sequence[int] | None = None,
    ) -> None:
        self._queries = queries
        self._since = [ALWAYS] * len(queries) if since is None else list(since)
        by_group = tuple(grouped)
        self._session_groups = by_group
        self._sessions = SessionExecutor(queries, by_group, self._since)
        others = [place for place, query in enumerate(queries) if not is_session(query)]
        self._grouped = tuple(place for place in by_group if place in others)
        self._ungrouped = tuple(place for place in others if place not in by_group)
        self._engine = engine
        self._axis: Axis = queries[0].axis
        self._longest = max((queries[place].window.longest for place in others), default=0)
        self._executors: dict[int, _GroupExecutor] = {}
        self._pools = self._new_pools() if self._grouped and issubclass(engine, Panes) else None
        self._log = AnswerLog()
        self._dropped: dict[str, int] = {}  # counters of engines whose groups have been dropped
        if self._ungrouped:
            self._executor(UNGROUPED)
        for mine in self._classes(self._grouped):
            # An engine that does not support these queries raises now, not when the first group arrives.
            self._placed(mine, [self._since[place] for place in mine])

    @property
    def engines(self) -> list[Engine]:
        """The engines of all executors."""
        return [placed.engine for executor in self._executors.values() for placed in executor.engines]

    @property
    def candidates(self) -> int:
        """Number of objects kept, over all queries and groups."""
        held = sum(engine.candidates for engine in self.engines)
        return held + (self._pools.candidates if self._pools else 0) + self._sessions.candidates

    @property
    def ids(self) -> list[Ints]:
        """The ids of all objects kept."""
        pooled = self._pools.ids if self._pools else []
        return [*(engine.objects().ids for engine in self.engines), *pooled, *self._sessions.ids]

    def counters(self) -> dict[str, int]:
        """Counters of the algorithms, by name."""
        found = dict(self._dropped)
        for work in (*(engine.counters() for engine in self.engines), self._pools.counters() if self._pools else {}):
            for name, value in work.items():
                found[name] = found.get(name, 0) + value
        return found

    def is_in_use(self, groups: int) -> Any:
        """For each of the first `groups` groups: whether it has kept objects or counts."""
        used = np.zeros(groups, bool)
        used[[code for code in self._executors if code != UNGROUPED]] = True
        if self._pools:
            known = self._pools.is_in_use()[:groups]
            used[: known.size] |= known
        self._sessions.mark_groups(used)
        return used

    @property
    def since(self) -> list[int]:
        """The smallest window start that each query answers in new executors."""
        return self._since

    def changed(
        self,
        engine: type[Engine],
        queries: tuple[TopK, ...],
        grouped: Iterable[int],
        since: Sequence[int],
        moved: Mapping[int, int],
        watermark: int,
        first: int,
        objects: int,
    ) -> GroupExecutors:
        """Return executors for other queries or another engine over the same stream, built from the kept objects.

        `moved` maps the new index of a query to its old one; a query without an entry joins with `since`. The minimal
        set of the new queries is among the kept objects, so new engines that process only these continue as if they had
        processed the whole stream. `objects` is the number of objects in the stream so far.
        """
        grouped = tuple(grouped)
        executors = GroupExecutors(queries, grouped, engine, since)
        executors._sessions = self._sessions.changed(queries, grouped, since, moved)
        if self._pools and executors._pools:
            for code in [code for code in self._executors if code != UNGROUPED]:
                self._leave(code)
            answered = watermark if objects else ALWAYS
            executors._pools = self._pools.changed(
                queries, executors._classes(executors._grouped), since, moved, answered, first
            )
        for code, executor in {UNGROUPED: _GroupExecutor(self._since), **self._executors}.items():
            places = executors._ungrouped if code == UNGROUPED else executors._grouped
            if not places:
                continue
            fresh = _GroupExecutor(since)
            for place, old in moved.items():
                fresh.since[place] = executor.since[old]
            fresh.objects = executor.objects if code in self._executors else objects
            fresh.newest = executor.newest
            if self._axis == "count" and code != UNGROUPED:
                # Each group has its own row numbers: a query that joins begins with the next one.
                fresh.since = [at if place in moved else max(at, fresh.objects) for place, at in enumerate(fresh.since)]
            executors._executors[code] = fresh
            executors._replace_engines(
                fresh, places, executor.engines, fresh.objects if self._axis == "count" else watermark, first
            )
        return executors

    def _replace_engines(
        self, executor: _GroupExecutor, places: Sequence[int], old: Sequence[_PlacedEngine], watermark: int, first: int
    ) -> None:
        """Create new engines and push the objects kept by the old ones into them."""
        for mine in self._classes(places):
            windows = [self._queries[place].window for place in mine]
            # The new engines skip windows that are already answered.
            unanswered = [window.start(window.first_end_after(watermark)) for window in windows]
            for place, start in zip(mine, unanswered, strict=True):
                executor.since[place] = max(executor.since[place], start)
            placed = self._placed(mine, [executor.since[place] for place in mine])
            held = [s.engine.objects() for s in old if s.ascending == placed.ascending]
            _, objects = in_stream_order([(np.zeros_like(one.ids), one) for one in held])
            placed.engine.advance(Rows(*objects, 0, 0), watermark, first, AnswerLog())
            executor.engines.append(placed)

    def take_in(self, arrivals: Arrivals, watermark: int, first: int) -> None:
        """Push the objects to their engines, and answer the windows that end at or before the watermark."""
        if self._ungrouped:
            rows = Rows(arrivals.scores, arrivals.positions, arrivals.ids, 0, arrivals.first_id)
            self._advance(UNGROUPED, rows, watermark, first)
        if self._grouped:
            self._take_in_groups(arrivals, watermark, first)
        if self._sessions:
            ids = arrivals.ids if arrivals.ids.size else np.arange(arrivals.scores.size) + arrivals.first_id
            self._sessions.take_in(arrivals.scores, arrivals.positions, ids, arrivals.groups, watermark)

    def end(self, watermark: int, first: int) -> None:
        """Answer the remaining windows of a time axis."""
        nothing = np.empty(0, np.int64)
        for code in self._executors:
            self._advance(code, Rows(np.empty(0), nothing, nothing, 0, 0), watermark, first)
        if self._pools:
            rows = GroupRows(np.empty(0), nothing, nothing, nothing, np.zeros(1, np.int64))
            self._pools.take_in(rows, watermark, first, self._log)
        self._drop_idle(watermark)
        self._sessions.end(watermark)

    def answers(self) -> list[RankedWindows]:
        """Return the answers since the last call."""
        return self._log.take() + self._sessions.answers()

    def state(self) -> dict[str, Any]:
        """Return the state of every executor, for `load`."""
        executors = [
            {
                "group": code,
                "objects": executor.objects,
                "since": executor.since,
                "newest": executor.newest,
                "engines": [placed.engine.state() for placed in executor.engines],
            }
            for code, executor in self._executors.items()
        ]
        pools = None if self._pools is None else self._pools.state()
        sessions = {"sessions": self._sessions.state()} if self._sessions else {}
        return {"since": self._since, "lanes": executors, "pools": pools, "dropped": self._dropped, **sessions}

    def load(self, state: dict[str, Any], watermark: int | None) -> None:
        """Restore what `state` returned; `watermark` is the position it was taken at."""
        self._since = list(state["since"])
        self._executors = {}
        for saved in state["lanes"]:
            executor = self._executor(saved["group"], saved["since"])
            executor.objects = saved["objects"]
            for placed, engine in zip(executor.engines, saved["engines"], strict=True):
                placed.engine.load(engine)
            held = [int(placed.engine.objects().positions.max(initial=ALWAYS)) for placed in executor.engines]
            executor.newest = saved.get("newest", max(held, default=ALWAYS))
        self._dropped = state.get("dropped", {})
        self._sessions = SessionExecutor(self._queries, self._session_groups, self._since)
        self._sessions.load(state.get("sessions", []))
        if self._pools is None:
            return
        if state.get("pools") is not None:
            self._pools.load(state["pools"])
            return
        # A snapshot from before group pools has an executor for every group.
        if watermark is not None:
            self._pools.answered_until(watermark)
        self._pools.reserve(1 + max(self._executors, default=-1))
        codes = [code for code in self._executors if code != UNGROUPED]
        if self._axis == "count":
            kinds = np.tile(np.array(self._since, np.int64), (self._pools.counts.size, 1))
            for code in codes:
                kinds[code] = self._executors[code].since
            self._pools.set_starts(kinds)
        for code in codes:
            self._leave(code)

    def _take_in_groups(self, arrivals: Arrivals, watermark: int, first: int) -> None:
        codes = arrivals.groups if arrivals.groups is not None else np.zeros(arrivals.scores.size, np.int64)
        order, present, begins = by_group(codes)
        rows = GroupRows(
            arrivals.scores[order],
            arrivals.positions[order] if arrivals.positions.size else arrivals.positions,
            arrivals.ids[order] if arrivals.ids.size else order + arrivals.first_id,
            present,
            begins,
        )
        has_own = len(self._executors) > (UNGROUPED in self._executors)
        if has_own or self._pools is None:
            rows = self._run_separate(rows, watermark, first)
        if self._pools:
            self._pools.take_in(rows, watermark, first, self._log)
        if self._pools and rows.groups.size:
            for code in rows.groups[self._pools.held_of(rows.groups) > MANY].tolist():
                self._enter(code)
        self._drop_idle(watermark)

    def _run_separate(self, rows: GroupRows, watermark: int, first: int) -> GroupRows:
        """Push rows to the executors of their groups and advance all; return the rows of groups without executor."""
        others, seen = np.zeros(rows.groups.size, bool), set()
        begins = rows.begins.tolist()
        for at, code in enumerate(rows.groups.tolist()):
            if self._pools and code not in self._executors:
                others[at] = True
                continue
            low, high = begins[at], begins[at + 1]
            positions = rows.positions[low:high] if rows.positions.size else rows.positions
            self._advance(code, Rows(rows.scores[low:high], positions, rows.ids[low:high], 0, 0), watermark, first)
            seen.add(code)
        nothing = Rows(np.empty(0), NONE, NONE, 0, 0)
        for code in self._executors.keys() - seen:
            if code != UNGROUPED and self._is_due(code, watermark):
                self._advance(code, nothing, watermark, first)
        return chosen_groups(rows, others)

    def _enter(self, code: int) -> None:
        """Move a group from the pools to a separate executor."""
        if self._pools is None:
            return
        answered = self._pools.reached(code)
        objects, since, held = self._pools.take_out(code)
        executor = self._executor(code, since)
        executor.objects = objects
        for placed, mine in zip(executor.engines, held, strict=True):
            assert isinstance(placed.engine, Panes)
            placed.engine.take_over(mine, answered)

    def _leave(self, code: int) -> None:
        """Remove a group's executor: its candidates move to the pools, or the group is dropped."""
        executor = self._executors.pop(code)
        for placed in executor.engines:
            for name, value in placed.engine.counters().items():
                self._dropped[name] = self._dropped.get(name, 0) + value
        if self._pools:
            self._pools.put_in(
                code, executor.objects, [_panes(placed.engine).hand_over() for placed in executor.engines]
            )

    def _drop_idle(self, watermark: int) -> None:
        """Remove executors whose windows have all been answered, and those with few objects."""
        for code, executor in list(self._executors.items()):
            if code == UNGROUPED:
                continue
            if self._pools:
                if sum(_panes(placed.engine).stored_count for placed in executor.engines) < FEW:
                    self._leave(code)
            elif self._axis == "time" and executor.newest + self._longest <= watermark:
                # A window that contains an object ends at most its size after it.
                self._leave(code)

    def _is_due(self, code: int, watermark: int) -> bool:
        return self._axis == "time" and any(
            not placed.engine.is_empty and placed.engine.next_end <= watermark
            for placed in self._executors[code].engines
        )

    def _advance(self, code: int, rows: Rows, watermark: int, first: int) -> None:
        executor = self._executor(code)
        if self._axis == "count":
            rows = rows._replace(first_position=executor.objects)
            watermark = executor.objects + rows.keys.size
        elif rows.keys.size:
            executor.newest = int(rows.positions[-1])
        executor.objects += rows.keys.size
        for ascending in (False, True):
            engines = [placed for placed in executor.engines if placed.ascending == ascending]
            if engines and ascending:
                rows = rows._replace(keys=-rows.keys)
            for placed in engines:
                self._log.begin(code, placed.places)
                placed.engine.advance(rows, watermark, first, self._log)

    def _executor(self, code: int, since: Sequence[int] | None = None) -> _GroupExecutor:
        if code not in self._executors:
            executor = _GroupExecutor(self._since if since is None else since)
            places = self._ungrouped if code == UNGROUPED else self._grouped
            executor.engines = [
                self._placed(mine, [executor.since[place] for place in mine]) for mine in self._classes(places)
            ]
            self._executors[code] = executor
        return self._executors[code]

    def _classes(self, places: Sequence[int]) -> list[tuple[int, ...]]:
        """Group the queries that one engine serves: one direction and one tie policy, if the engine shares."""
        if not self._engine.shares:
            return [(place,) for place in places]
        found = places_by(lambda place: (self._queries[place].order, self._queries[place].ties), places)
        kinds = product(("desc", "asc"), ("row_number", "rank"))  # the order in stored states
        return [tuple(places[at] for at in found[kind]) for kind in kinds if kind in found]

    def _new_pools(self) -> GroupPools:
        return GroupPools(self._queries, self._classes(self._grouped), self._since)

    def _placed(self, places: tuple[int, ...], since: Sequence[int]) -> _PlacedEngine:
        queries = [self._queries[place] for place in places]
        return _PlacedEngine(self._engine(queries, since), places, queries[0].order == "asc")


def _panes(engine: Engine) -> Panes:
    assert isinstance(engine, Panes)
    return engine
