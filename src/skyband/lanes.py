"""Engines at work: a lane for each group, and in each lane a seat for each engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from skyband.algorithms import Engine
from skyband.algorithms.base import ALWAYS
from skyband.answers import AnswerLog, Ranked
from skyband.kernels.intake import rows_by_group
from skyband.kernels.stream import Floats, Ints, Rows
from skyband.query import Axis, TopK

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
    """The engines over one group's rows (or over all rows), and the number of objects they have seen."""

    def __init__(self, seats: list[_Seat]) -> None:
        self.seats = seats
        self.objects = 0


class Lanes:
    """Leads every object to the engines of its group, and collects what they answer.

    `grouped` are the places of the queries that answer for each group; the others answer for the stream as a whole.
    `since` are the smallest window starts that each query answers for.
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

    @property
    def engines(self) -> list[Engine]:
        """All engines at work."""
        return [seat.engine for lane in self._lanes.values() for seat in lane.seats]

    @property
    def since(self) -> list[int]:
        """The smallest window start that each query answers for."""
        return self._since

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
            {"group": code, "objects": lane.objects, "engines": [seat.engine.state() for seat in lane.seats]}
            for code, lane in self._lanes.items()
        ]
        return {"since": self._since, "lanes": lanes}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self._since = list(state["since"])
        self._lanes = {}
        for saved in state["lanes"]:
            lane = self._lane(saved["group"])
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

    def _lane(self, code: int) -> _Lane:
        if code not in self._lanes:
            places = self._whole if code == UNGROUPED else self._grouped
            self._lanes[code] = _Lane([self._seat(mine) for mine in self._classes(places)])
        return self._lanes[code]

    def _classes(self, places: Sequence[int]) -> list[tuple[int, ...]]:
        """The queries that sit together: those of one direction where the engine shares, else each alone."""
        if not self._engine.shares:
            return [(place,) for place in places]
        directions = [[place for place in places if self._queries[place].order == order] for order in ("desc", "asc")]
        return [tuple(together) for together in directions if together]

    def _seat(self, places: tuple[int, ...]) -> _Seat:
        queries = [self._queries[place] for place in places]
        engine = self._engine(queries, [self._since[place] for place in places])
        return _Seat(engine, places, queries[0].order == "asc")
