"""Engines at work: a lane for each group, and in each lane a seat for each engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from skyband.algorithms import Engine
from skyband.algorithms.base import ALWAYS, Objects
from skyband.answers import AnswerLog, Ranked
from skyband.kernels.intake import rows_by_group
from skyband.kernels.stream import Floats, Ints, Rows
from skyband.queries import Axis, TopK

__all__ = ["UNGROUPED", "Arrivals", "Lanes"]

UNGROUPED = -1


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
        self._lanes: dict[int, _Lane] = {}
        self._log = AnswerLog()
        if self._whole:
            self._lane(UNGROUPED)
        for mine in self._classes(self._grouped):
            # An engine that cannot serve these queries says so now, not when the first group comes.
            self._seat(mine, [self._since[place] for place in mine])

    @property
    def engines(self) -> list[Engine]:
        """All engines at work."""
        return [seat.engine for lane in self._lanes.values() for seat in lane.seats]

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
        for code, lane in {UNGROUPED: _Lane(self._since), **self._lanes}.items():
            places = lanes._whole if code == UNGROUPED else lanes._grouped
            if not places:
                continue
            fresh = _Lane(since)
            for place, old in moved.items():
                fresh.since[place] = lane.since[old]
            fresh.objects = lane.objects if code in self._lanes else objects
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
            unanswered = [window.first_end_after(watermark) - window.size for window in windows]
            for place, start in zip(mine, unanswered, strict=True):
                lane.since[place] = max(lane.since[place], start)
            seat = self._seat(mine, [lane.since[place] for place in mine])
            rows = _in_stream_order([s.engine.objects() for s in old if s.ascending == seat.ascending])
            seat.engine.advance(rows, watermark, first, AnswerLog())
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
        nothing = Rows(np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64), 0, 0)
        for code in self._lanes:
            self._advance(code, nothing, watermark, first)

    def answers(self) -> list[Ranked]:
        """What was answered since the last call."""
        return self._log.take()

    def state(self) -> dict[str, Any]:
        """Every lane's engines, for `load`."""
        lanes = [
            {
                "group": code,
                "objects": lane.objects,
                "since": lane.since,
                "engines": [seat.engine.state() for seat in lane.seats],
            }
            for code, lane in self._lanes.items()
        ]
        return {"since": self._since, "lanes": lanes}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self._since = list(state["since"])
        self._lanes = {}
        for saved in state["lanes"]:
            lane = self._lane(saved["group"], saved["since"])
            lane.objects = saved["objects"]
            for seat, engine in zip(lane.seats, saved["engines"], strict=True):
                seat.engine.load(engine)

    def _take_in_groups(self, arrivals: Arrivals, watermark: int, first: int) -> None:
        codes = arrivals.groups if arrivals.groups is not None else np.zeros(arrivals.scores.size, np.int64)
        known = max([int(codes.max()) if codes.size else -1, *self._lanes]) + 1
        order, begins = rows_by_group(codes, known)
        scores = arrivals.scores[order]
        positions = arrivals.positions[order] if arrivals.positions.size else arrivals.positions
        ids = arrivals.ids[order] if arrivals.ids.size else order + arrivals.first_id
        for code in range(known):
            low, high = begins[code], begins[code + 1]
            if low < high or (code in self._lanes and self._is_due(code, watermark)):
                mine = positions[low:high] if positions.size else positions
                self._advance(code, Rows(scores[low:high], mine, ids[low:high], 0, 0), watermark, first)

    def _is_due(self, code: int, watermark: int) -> bool:
        return self._axis == "time" and any(
            not seat.engine.is_empty and seat.engine.next_end <= watermark for seat in self._lanes[code].seats
        )

    def _advance(self, code: int, rows: Rows, watermark: int, first: int) -> None:
        lane = self._lane(code)
        if self._axis == "count":
            rows = rows._replace(first_position=lane.objects)
            watermark = lane.objects + rows.keys.size
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
        kinds = product(("desc", "asc"), ("row_number", "rank"))
        found = [tuple(p for p in places if (self._queries[p].order, self._queries[p].ties) == kind) for kind in kinds]
        return [together for together in found if together]

    def _seat(self, places: tuple[int, ...], since: Sequence[int]) -> _Seat:
        queries = [self._queries[place] for place in places]
        return _Seat(self._engine(queries, since), places, queries[0].order == "asc")


def _in_stream_order(held: Sequence[Objects]) -> Rows:
    """The objects of several engines as rows, by position and id; what more than one engine holds comes once."""
    columns = [_numbered(objects) for objects in held]
    if not columns:
        return Rows(np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64), 0, 0)
    keys, positions, ids, nth = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    order = np.lexsort([nth, keys, ids, positions])
    keys, positions, ids, nth = keys[order], positions[order], ids[order], nth[order]
    again = np.zeros(keys.size, bool)
    again[1:] = _same_as_before(keys, positions, ids) & (nth[1:] == nth[:-1])
    return Rows(keys[~again], positions[~again], ids[~again], 0, 0)


def _numbered(objects: Objects) -> tuple[Floats, Ints, Ints, Ints]:
    """The objects with a number that tells equal ones apart: the first, the second, …"""
    order = np.lexsort([objects.keys, objects.ids, objects.positions])
    keys, positions, ids = objects.keys[order], objects.positions[order], objects.ids[order]
    begins = np.flatnonzero(np.concatenate([[True], ~_same_as_before(keys, positions, ids)])) if keys.size else order
    nth = np.arange(keys.size) - np.repeat(begins, np.diff(begins, append=keys.size))
    return keys, positions, ids, nth


def _same_as_before(keys: Floats, positions: Ints, ids: Ints) -> Any:
    return (keys[1:] == keys[:-1]) & (positions[1:] == positions[:-1]) & (ids[1:] == ids[:-1])
