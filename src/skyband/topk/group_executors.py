"""Engines at work: a lane for each group, and in each lane a seat for each engine.

Where panes are the engine, groups that hold few objects have no lane: they share the executors of `GroupPools`. A lane
of its own costs a group some ten kilobytes and a call for each push, which only a long list of candidates is worth.
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
from skyband.topk.group_rows import GroupRows, by_group, chosen_groups
from skyband.topk.query import TopK
from skyband.topk.stream_order import in_stream_order
from skyband.windows import ALWAYS

__all__ = ["UNGROUPED", "Arrivals", "Lanes"]

UNGROUPED = -1
NONE = np.empty(0, np.int64)
MANY = 2048  # objects: copying fewer to and fro costs less than a call of an engine of their own
FEW = 512


class Arrivals(NamedTuple):
    """Objects that arrive, in stream order, whatever group they are of."""

    scores: Floats
    positions: Ints  # empty on a count axis
    ids: Ints  # empty: consecutive numbers from first_id on
    first_id: int
    groups: Ints | None


class _Seat(NamedTuple):
    engine: Engine
    places: tuple[int, ...]  # of its queries in the workload
    ascending: bool  # its keys are the negated scores


class _Lane:
    """The engines over one group's rows (or over all rows), and the number of objects they have seen.

    `since` are the smallest window starts that each query of the workload answers for in this lane.
    """

    def __init__(self, since: Sequence[int]) -> None:
        self.seats: list[_Seat] = []
        self.since = list(since)
        self.objects = 0
        self.newest = ALWAYS  # on a time axis: the position of its newest object


class Lanes:
    """Leads every object to the engines of its group, and collects what they answer.

    `grouped` are the places of the queries that answer for each group; the others answer for the stream as a whole.
    `since` are the smallest window starts that each query answers for, in lanes that are yet to be made.
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
        self._grouped = tuple(grouped)
        self._whole = tuple(sorted(set(range(len(queries))) - set(self._grouped)))
        self._engine = engine
        self._axis: Axis = queries[0].axis
        self._longest = max(query.window.longest for query in queries)
        self._lanes: dict[int, _Lane] = {}
        self._pools = self._new_pools() if self._grouped and issubclass(engine, Panes) else None
        self._log = AnswerLog()
        self._dropped: dict[str, int] = {}  # counters of engines whose groups have gone
        if self._whole:
            self._lane(UNGROUPED)
        for mine in self._classes(self._grouped):
            # An engine that cannot serve these queries says so now, not when the first group comes.
            self._seat(mine, [self._since[place] for place in mine])

    @property
    def engines(self) -> list[Engine]:
        """The engines of all lanes."""
        return [seat.engine for lane in self._lanes.values() for seat in lane.seats]

    @property
    def candidates(self) -> int:
        """How many objects are held, over all queries and groups."""
        held = sum(engine.candidates for engine in self.engines)
        return held + (self._pools.candidates if self._pools else 0)

    @property
    def ids(self) -> list[Ints]:
        """The ids of all objects held."""
        return [*(engine.objects().ids for engine in self.engines), *(self._pools.ids if self._pools else [])]

    def counters(self) -> dict[str, int]:
        """What the algorithms did so far, by name."""
        found = dict(self._dropped)
        for work in (*(engine.counters() for engine in self.engines), self._pools.counters() if self._pools else {}):
            for name, value in work.items():
                found[name] = found.get(name, 0) + value
        return found

    def is_in_use(self, groups: int) -> Any:
        """Of so many groups, those of which anything is held or must be known to go on."""
        used = np.zeros(groups, bool)
        used[[code for code in self._lanes if code != UNGROUPED]] = True
        if self._pools:
            known = self._pools.is_in_use()[:groups]
            used[: known.size] |= known
        return used

    @property
    def since(self) -> list[int]:
        """The smallest window start that each query answers for, in lanes that are yet to be made."""
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
    ) -> Lanes:
        """Lanes for other queries over the same stream, or with another engine, from what is held now.

        `moved` leads from the new place of a query to its old one; a query that has none joins with `since`. The
        minimal set of the new queries is among the objects held, so new engines that are shown just these go on as if
        they had seen the whole stream. `objects` is the number of objects the stream has had.
        """
        lanes = Lanes(queries, grouped, engine, since)
        if self._pools and lanes._pools:
            for code in [code for code in self._lanes if code != UNGROUPED]:
                self._leave(code)
            answered = watermark if objects else ALWAYS
            lanes._pools = self._pools.changed(queries, lanes._classes(lanes._grouped), since, moved, answered, first)
        for code, lane in {UNGROUPED: _Lane(self._since), **self._lanes}.items():
            places = lanes._whole if code == UNGROUPED else lanes._grouped
            if not places:
                continue
            fresh = _Lane(since)
            for place, old in moved.items():
                fresh.since[place] = lane.since[old]
            fresh.objects = lane.objects if code in self._lanes else objects
            fresh.newest = lane.newest
            if self._axis == "count" and code != UNGROUPED:
                # Each group has its own numbers: a query that joins begins with the next one.
                fresh.since = [at if place in moved else max(at, fresh.objects) for place, at in enumerate(fresh.since)]
            lanes._lanes[code] = fresh
            lanes._reseat(fresh, places, lane.seats, fresh.objects if self._axis == "count" else watermark, first)
        return lanes

    def _reseat(self, lane: _Lane, places: Sequence[int], old: Sequence[_Seat], watermark: int, first: int) -> None:
        """Seat new engines and show them what the old ones hold."""
        for mine in self._classes(places):
            windows = [self._queries[place].window for place in mine]
            # Windows that are answered already are no concern of the new engines.
            unanswered = [window.start(window.first_end_after(watermark)) for window in windows]
            for place, start in zip(mine, unanswered, strict=True):
                lane.since[place] = max(lane.since[place], start)
            seat = self._seat(mine, [lane.since[place] for place in mine])
            held = [s.engine.objects() for s in old if s.ascending == seat.ascending]
            _, objects = in_stream_order([(np.zeros_like(one.ids), one) for one in held])
            seat.engine.advance(Rows(*objects, 0, 0), watermark, first, AnswerLog())
            lane.seats.append(seat)

    def take_in(self, arrivals: Arrivals, watermark: int, first: int) -> None:
        """Give the objects to their engines, and answer the windows that end at or before the watermark."""
        if self._whole:
            rows = Rows(arrivals.scores, arrivals.positions, arrivals.ids, 0, arrivals.first_id)
            self._advance(UNGROUPED, rows, watermark, first)
        if self._grouped:
            self._take_in_groups(arrivals, watermark, first)

    def end(self, watermark: int, first: int) -> None:
        """Answer what is left on a time axis."""
        nothing = np.empty(0, np.int64)
        for code in self._lanes:
            self._advance(code, Rows(np.empty(0), nothing, nothing, 0, 0), watermark, first)
        if self._pools:
            rows = GroupRows(np.empty(0), nothing, nothing, nothing, np.zeros(1, np.int64))
            self._pools.take_in(rows, watermark, first, self._log)
        self._drop_dead(watermark)

    def answers(self) -> list[RankedWindows]:
        """What was answered since the last call."""
        return self._log.take()

    def state(self) -> dict[str, Any]:
        """Every lane's engines, for `load`."""
        lanes = [
            {
                "group": code,
                "objects": lane.objects,
                "since": lane.since,
                "newest": lane.newest,
                "engines": [seat.engine.state() for seat in lane.seats],
            }
            for code, lane in self._lanes.items()
        ]
        pools = None if self._pools is None else self._pools.state()
        return {"since": self._since, "lanes": lanes, "pools": pools, "dropped": self._dropped}

    def load(self, state: dict[str, Any], watermark: int | None) -> None:
        """Go on from what `state` returned when time had come to the watermark."""
        self._since = list(state["since"])
        self._lanes = {}
        for saved in state["lanes"]:
            lane = self._lane(saved["group"], saved["since"])
            lane.objects = saved["objects"]
            for seat, engine in zip(lane.seats, saved["engines"], strict=True):
                seat.engine.load(engine)
            held = [int(seat.engine.objects().positions.max(initial=ALWAYS)) for seat in lane.seats]
            lane.newest = saved.get("newest", max(held, default=ALWAYS))
        self._dropped = state.get("dropped", {})
        if self._pools is None:
            return
        if state.get("pools") is not None:
            self._pools.load(state["pools"])
            return
        # A snapshot from before there were pools has a lane for every group.
        if watermark is not None:
            self._pools.answered_until(watermark)
        self._pools.reserve(1 + max(self._lanes, default=-1))
        codes = [code for code in self._lanes if code != UNGROUPED]
        if self._axis == "count":
            kinds = np.tile(np.array(self._since, np.int64), (self._pools.counts.size, 1))
            for code in codes:
                kinds[code] = self._lanes[code].since
            self._pools.tell_apart(kinds)
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
        alone = len(self._lanes) > (UNGROUPED in self._lanes)
        if alone or self._pools is None:
            rows = self._take_in_alone(rows, watermark, first)
        if self._pools:
            self._pools.take_in(rows, watermark, first, self._log)
        if self._pools and rows.groups.size:
            for code in rows.groups[self._pools.held_of(rows.groups) > MANY].tolist():
                self._enter(code)
        self._drop_dead(watermark)

    def _take_in_alone(self, rows: GroupRows, watermark: int, first: int) -> GroupRows:
        """Lead rows to the lanes of their groups, and move time in all lanes; return the rows of other groups."""
        others, seen = np.zeros(rows.groups.size, bool), set()
        begins = rows.begins.tolist()
        for at, code in enumerate(rows.groups.tolist()):
            if self._pools and code not in self._lanes:
                others[at] = True
                continue
            low, high = begins[at], begins[at + 1]
            positions = rows.positions[low:high] if rows.positions.size else rows.positions
            self._advance(code, Rows(rows.scores[low:high], positions, rows.ids[low:high], 0, 0), watermark, first)
            seen.add(code)
        nothing = Rows(np.empty(0), NONE, NONE, 0, 0)
        for code in self._lanes.keys() - seen:
            if code != UNGROUPED and self._is_due(code, watermark):
                self._advance(code, nothing, watermark, first)
        return chosen_groups(rows, others)

    def _enter(self, code: int) -> None:
        """Give a group a lane of its own."""
        if self._pools is None:
            return
        answered = self._pools.reached(code)
        objects, since, held = self._pools.take_out(code)
        lane = self._lane(code, since)
        lane.objects = objects
        for seat, mine in zip(lane.seats, held, strict=True):
            assert isinstance(seat.engine, Panes)
            seat.engine.take_over(mine, answered)

    def _leave(self, code: int) -> None:
        """Take a group's lane away: it goes on among the others, or has gone."""
        lane = self._lanes.pop(code)
        for seat in lane.seats:
            for name, value in seat.engine.counters().items():
                self._dropped[name] = self._dropped.get(name, 0) + value
        if self._pools:
            self._pools.put_in(code, lane.objects, [_panes(seat.engine).hand_over() for seat in lane.seats])

    def _drop_dead(self, watermark: int) -> None:
        """Let go of lanes whose windows have all been answered, and of those that hold little."""
        for code, lane in list(self._lanes.items()):
            if code == UNGROUPED:
                continue
            if self._pools:
                if sum(_panes(seat.engine).held_now for seat in lane.seats) < FEW:
                    self._leave(code)
            elif self._axis == "time" and lane.newest + self._longest <= watermark:
                # A window that holds an object ends at most its size after it.
                self._leave(code)

    def _is_due(self, code: int, watermark: int) -> bool:
        return self._axis == "time" and any(
            not seat.engine.is_empty and seat.engine.next_end <= watermark for seat in self._lanes[code].seats
        )

    def _advance(self, code: int, rows: Rows, watermark: int, first: int) -> None:
        lane = self._lane(code)
        if self._axis == "count":
            rows = rows._replace(first_position=lane.objects)
            watermark = lane.objects + rows.keys.size
        elif rows.keys.size:
            lane.newest = int(rows.positions[-1])
        lane.objects += rows.keys.size
        for ascending in (False, True):
            seats = [seat for seat in lane.seats if seat.ascending == ascending]
            if seats and ascending:
                rows = rows._replace(keys=-rows.keys)
            for seat in seats:
                self._log.begin(code, seat.places)
                seat.engine.advance(rows, watermark, first, self._log)

    def _lane(self, code: int, since: Sequence[int] | None = None) -> _Lane:
        if code not in self._lanes:
            lane = _Lane(self._since if since is None else since)
            places = self._whole if code == UNGROUPED else self._grouped
            lane.seats = [self._seat(mine, [lane.since[place] for place in mine]) for mine in self._classes(places)]
            self._lanes[code] = lane
        return self._lanes[code]

    def _classes(self, places: Sequence[int]) -> list[tuple[int, ...]]:
        """The queries that sit together: those of one direction and one policy for ties where the engine shares."""
        if not self._engine.shares:
            return [(place,) for place in places]
        found = places_by(lambda place: (self._queries[place].order, self._queries[place].ties), places)
        kinds = product(("desc", "asc"), ("row_number", "rank"))  # in the order in which states have them
        return [tuple(places[at] for at in found[kind]) for kind in kinds if kind in found]

    def _new_pools(self) -> GroupPools:
        return GroupPools(self._queries, self._classes(self._grouped), self._since)

    def _seat(self, places: tuple[int, ...], since: Sequence[int]) -> _Seat:
        queries = [self._queries[place] for place in places]
        return _Seat(self._engine(queries, since), places, queries[0].order == "asc")


def _panes(engine: Engine) -> Panes:
    assert isinstance(engine, Panes)
    return engine
