"""The engine of the sorted lists algorithm (SLA): all tuples, a sorted list per stream, the threshold algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from skyband.incomplete.engine import IncompleteShape, ObjectAnswers, joined, room_for, written
from skyband.incomplete.kernels import sorted_lists as kernels
from skyband.kernels import lookup
from skyband.kernels.skiplist import SkipList, empty_list, grown_list
from skyband.kernels.stream import DONE, STATE_FULL, Floats, Ints

__all__ = ["SortedLists"]

_ROOM = 64
_PARTS = {
    "tuples": kernels.TupleRing,
    "objects": kernels.ListedObjects,
    "lookup": lookup.Lookup,
    "chain": SkipList,
    "ranked": kernels.BestView,
}


class SortedLists:
    """Answer one query over incomplete streams from all valid tuples. Exact and simple, with the largest state.

    The engine keeps the tuples in order of arrival, per stream a list of the objects sorted by value, and a view of the
    best objects that is updated with every arriving or leaving tuple. The view has up to `view` objects (default 2k),
    so several objects can leave before it has fewer than k. Only then does the threshold algorithm read the lists in
    parallel, until no unread object can be among the best.

    For W valid tuples in d streams, a tuple costs O(log W + d + k) on average, and the state has W items.

    Parameters
    ----------
    shape
        The query.
    view
        Maximum number of objects in the view, at least k.

    Examples
    --------
    >>> import numpy as np
    >>> from skyband.incomplete.engine import IncompleteShape
    >>> from skyband.incomplete.sorted_lists import SortedLists
    >>> from skyband.incomplete.kernels.attributes import SUM, aggregate_of
    >>> shape = IncompleteShape(k=1, size=4, every=2, origin=0, d=2, scoring=aggregate_of(SUM, np.ones(2)),
    ...                         lows=np.zeros(2), highs=np.ones(2), occurrences=1)
    >>> objects, streams = np.array([7, 8, 7, 9]), np.array([0, 0, 1, 1])
    >>> engine = SortedLists(shape)
    >>> best = engine.advance(np.arange(4), objects, streams, np.array([0.5, 0.75, 0.5, 0.25]), objects, 4)
    >>> best.ends.tolist(), best.objects.tolist(), best.scores.tolist(), best.lasts.tolist()
    ([2, 4], [8, 7], [0.75, 1.0], [1, 2])

    References
    ----------
    P. Haghani, S. Michel, K. Aberer: Evaluating top-k queries over incomplete data streams, CIKM 2009, section 3.1;
    R. Fagin, A. Lotem, M. Naor: Optimal aggregation algorithms for middleware, 2003; K. Yi et al.: Efficient
    maintenance of materialized top-k views, ICDE 2003. Differences from the first: if a stream reports an object more
    than once, its list contains the sum, from which the score is computed; and the lists are read when an answer is
    due, not as soon as the view is short.
    """

    def __init__(self, shape: IncompleteShape, *, view: int | None = None) -> None:
        self._most = max(shape.k, 2 * shape.k if view is None else view)
        self._k = shape.k
        self._list_query = _list_query(shape)
        d = shape.d
        self._lists = kernels.Lists(
            _empty_tuples(_ROOM),
            _empty_objects(_ROOM, d),
            lookup.empty_lookup(_ROOM),
            empty_list(_ROOM + d, d),
            kernels.BestView(
                np.zeros(min(self._most, _ROOM) + 1, np.int64), np.full(1, -np.inf), np.full(1, kernels.NONE, np.int64)
            ),
            np.zeros(d, np.int64),
            np.zeros(d),
            np.zeros(kernels.REGISTERS, np.int64),
        )
        self._lists.registers[kernels.NEXT] = kernels.NEVER
        self._found = room_for(shape.k, False)

    def advance(
        self, positions: Ints, objects: Ints, streams: Ints, values: Floats, hashes: Ints, clock: int | None
    ) -> ObjectAnswers:
        """Process tuples in stream order and answer every window that ends at or before the last one, or `clock`."""
        until = kernels.NEVER if clock is None else clock
        parts: list[ObjectAnswers] = []
        begin, why = 0, STATE_FULL
        while why != DONE:
            begin, why = kernels.advance(
                self._lists, self._list_query, self._found, begin, positions, objects, streams, values, until
            )
            if why == STATE_FULL:
                self._grow()
            else:
                parts.append(written(self._found))
                rows = int(self._lists.registers[kernels.OBJECTS])
                rows = rows if self._list_query.ties else min(self._k, rows)
                if rows > self._found.objects.size:
                    self._found = room_for(self._k, False, least=2 * rows)
        return joined(parts)

    @property
    def items(self) -> int:
        """Number of tuples held."""
        return int(self._lists.registers[kernels.TAIL] - self._lists.registers[kernels.HEAD])

    @property
    def repeated(self) -> int:
        """Number of tuples dropped because their stream had reported the object before, if declared once."""
        return int(self._lists.registers[kernels.REPEATED])

    def objects_in_use(self) -> Ints:
        """Return the keys of the objects that have a tuple."""
        objects = self._lists.objects
        keys: Ints = objects.keys[objects.tuples > 0]
        return keys

    def metrics(self) -> dict[str, int]:
        """Return how often the threshold algorithm ran, and its number of accesses."""
        registers = self._lists.registers
        return {
            "recomputations": int(registers[kernels.RECOMPUTED]),
            "sorted_accesses": int(registers[kernels.SORTED]),
            "random_accesses": int(registers[kernels.RANDOM]),
        }

    def state(self) -> dict[str, Any]:
        """Return a copy of the state for `load`."""
        found: dict[str, Any] = {"most": self._most}
        for name, value in self._lists._asdict().items():
            if name in _PARTS:
                found[name] = {column: array.copy() for column, array in value._asdict().items()}
            else:
                found[name] = value.copy()
        return found

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state` returned."""
        self._most = state["most"]
        parts: dict[str, Any] = {name: kind(**state[name]) for name, kind in _PARTS.items()}
        others = {name: state[name] for name in kernels.Lists._fields if name not in parts}
        self._lists = kernels.Lists(**parts, **others)

    def _grow(self) -> None:
        """Double the capacity for tuples, and for everything bounded by the number of tuples."""
        old = self._lists
        room = old.tuples.positions.size
        d = old.cursors.size
        tuples, objects = _empty_tuples(2 * room), _empty_objects(2 * room, d)
        numbers = np.arange(old.registers[kernels.HEAD], old.registers[kernels.TAIL])
        for target, source in zip(tuples, old.tuples, strict=True):
            target[numbers % (2 * room)] = source[numbers % room]
        for target, source in zip(objects, old.objects, strict=True):
            target[:room] = source
        objects.touches[-1] = old.registers[kernels.UNUSED]  # the new free slots come before the old ones
        old.registers[kernels.UNUSED] = room
        slots = np.zeros(min(self._most, 2 * room) + 1, np.int64)
        slots[: old.ranked.slots.size] = old.ranked.slots
        table = lookup.empty_lookup(2 * room)
        lookup.move(old.lookup, table)
        self._lists = old._replace(
            tuples=tuples,
            objects=objects,
            lookup=table,
            chain=grown_list(old.chain),
            ranked=old.ranked._replace(slots=slots),
        )


def _list_query(shape: IncompleteShape) -> kernels.ListQuery:
    return kernels.ListQuery(
        shape.k,
        shape.size,
        shape.every,
        shape.origin,
        shape.scoring,
        np.ascontiguousarray(shape.lows, np.float64),
        shape.once,
        shape.ties,
    )


def _empty_tuples(room: int) -> kernels.TupleRing:
    columns: list[Any] = [
        np.zeros(room, np.float64 if name == "values" else np.int64) for name in kernels.TupleRing._fields
    ]
    return kernels.TupleRing(*columns)


def _empty_objects(room: int, d: int) -> kernels.ListedObjects:
    """Return free slots, linked in order."""
    columns: dict[str, Any] = {name: np.zeros(room, np.int64) for name in kernels.ListedObjects._fields}
    columns |= {name: np.zeros((room, d), np.int64) for name in ("nodes", "firsts", "newest")}
    columns |= {"values": np.zeros((room, d)), "scores": np.zeros(room), "touches": np.arange(1, room + 1)}
    return kernels.ListedObjects(**columns)
