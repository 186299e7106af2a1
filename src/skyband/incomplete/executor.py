"""Executor of one query: admits tuples to its windows and passes them to its engine."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.incomplete.approximate import LikelyAggregation
from skyband.incomplete.early_aggregation import EarlyAggregation
from skyband.incomplete.engine import IncompleteEngine, IncompleteShape, ObjectAnswers
from skyband.incomplete.kernels import attributes, ledger
from skyband.incomplete.kernels.ledger import OccurrenceLedger
from skyband.incomplete.query import IncompleteTopK
from skyband.incomplete.sorted_lists import SortedLists
from skyband.kernels.stream import Floats, Ints

__all__ = ["IncompleteExecutor", "shape_of"]

_AGGREGATES = {"sum": attributes.SUM, "avg": attributes.AVG, "min": attributes.MIN, "max": attributes.MAX}
_LEAST = 1024
_NONE = np.empty(0, np.int64)


class IncompleteExecutor:
    """A query with its engine. On a count axis it numbers the admitted tuples."""

    def __init__(self, query: IncompleteTopK, streams: tuple[str | int, ...]) -> None:
        self.query = query
        self.over_limit = 0
        self._counted = 0  # admitted tuples
        shape = shape_of(query, streams)
        self.engine: IncompleteEngine = _engine(query, shape)
        # If occurrences are not limited, no ledger is needed.
        unlimited = query.axis == "count" and query.occurrences >= query.window.size
        self._ledger = None if unlimited or query.method == "approximate" else ledger.empty_ledger(_LEAST)

    @property
    def remembered(self) -> int:
        """Number of tuples kept to limit occurrences."""
        if self._ledger is None:
            return 0
        return int(self._ledger.registers[ledger.NEXT] - self._ledger.registers[ledger.FIRST])

    def advance(
        self, positions: Ints, objects: Ints, streams: Ints, values: Floats, hashes: Ints, clock: int | None
    ) -> ObjectAnswers:
        """Process tuples and return the answers of windows that ended. On a count axis `positions` is empty."""
        counted = self._counted
        if self._ledger is not None:
            taken = self._admitted(positions, objects, streams)
            if taken.size < objects.size:
                self.over_limit += objects.size - taken.size
                objects, streams, values = objects[taken], streams[taken], values[taken]
                positions = positions[taken] if positions.size else positions
                hashes = hashes[taken] if hashes.size else hashes
        self._counted += objects.size
        if self.query.axis == "count":
            positions, clock = np.arange(counted, self._counted), self._counted
        return self.engine.advance(positions, objects, streams, values, hashes, clock)

    def objects_in_use(self) -> Ints:
        """Return the keys of all objects in the engine or the ledger."""
        if self._ledger is None:
            return self.engine.objects_in_use()
        return np.union1d(self.engine.objects_in_use(), _entries(self._ledger)[0])

    def metrics(self) -> dict[str, int]:
        """Return counters of items held and work done."""
        return {
            "items": self.engine.items,
            "remembered": self.remembered,
            "over_limit": self.over_limit,
            **self.engine.metrics(),
        }

    def state(self) -> dict[str, Any]:
        """Return the state for `load`."""
        entries = None if self._ledger is None else dict(zip(_ENTRIES, _entries(self._ledger), strict=True))
        return {
            "too_often": self.over_limit,
            "counted": self._counted,
            "ledger": entries,
            "engine": self.engine.state(),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Restore the state that `state` returned."""
        self.over_limit, self._counted = state["too_often"], state["counted"]
        if state["ledger"] is not None:
            self._ledger = _ledger_of(*(state["ledger"][name] for name in _ENTRIES))
        self.engine.load(state["engine"])

    def _admitted(self, positions: Ints, objects: Ints, streams: Ints) -> Ints:
        kept = self._ledger
        if kept is None:
            return np.arange(objects.size)
        if self.remembered + objects.size > kept.objects.size:
            kept = self._ledger = _ledger_of(*_entries(kept), room=self.remembered + objects.size)
        taken = np.empty(objects.size, np.int64)
        window = self.query.window
        count = ledger.admit(
            kept,
            self.query.occurrences,
            window.size,
            window.slide,
            window.origin,
            self._counted,
            positions,
            objects,
            streams,
            taken,
        )
        return taken[:count]


_ENTRIES = ("objects", "streams", "positions")


def _entries(kept: OccurrenceLedger) -> tuple[Ints, Ints, Ints]:
    """Return the tuples of a ledger, oldest first."""
    rows = np.arange(kept.registers[ledger.FIRST], kept.registers[ledger.NEXT]) & (kept.objects.size - 1)
    return kept.objects[rows], kept.streams[rows], kept.positions[rows]


def _ledger_of(objects: Ints, streams: Ints, positions: Ints, *, room: int = 0) -> OccurrenceLedger:
    """Return a ledger with these tuples and a capacity of at least twice `room`."""
    needed = max(_LEAST, 2 * room, objects.size + 1)
    made = ledger.empty_ledger(1 << int(needed - 1).bit_length())
    ledger.enter(made, objects, streams, positions)
    return made


def shape_of(query: IncompleteTopK, streams: tuple[str | int, ...]) -> IncompleteShape:
    """Return the query in the form of the engines."""
    window = query.window
    return IncompleteShape(
        query.k,
        window.size,
        window.slide,
        window.origin,
        len(streams),
        np.array([query.weight_of(stream) for stream in streams]),
        _AGGREGATES[query.aggregate],
        *query.bounds,
        query.occurrences,
    )


def _engine(query: IncompleteTopK, shape: IncompleteShape) -> IncompleteEngine:
    if query.method == "sorted-lists":
        return SortedLists(shape)
    if query.method == "approximate":
        return LikelyAggregation(shape)
    return EarlyAggregation(shape, intervals=query.intervals)
