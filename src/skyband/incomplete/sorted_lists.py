"""SLA: every tuple of the window, a sorted list for each stream, and the threshold algorithm on top."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from skyband.incomplete.answers import Answers, joined
from skyband.incomplete.shape import Best, Shape
from skyband.kernels import sorted_lists as kernels
from skyband.kernels.mixing import mixed
from skyband.kernels.skiplist import SkipList, empty_list, grown_list
from skyband.kernels.stream import DONE, Floats, Ints

__all__ = ["SortedLists"]

_ROOM = 64
_PARTS = {"tuples": kernels.Tuples, "objects": kernels.Objects, "chain": SkipList, "ranked": kernels.View}


class SortedLists:
    """Answers one query over incomplete streams from all valid tuples: exact, simple, and the largest state.

    It keeps the tuples in the order they came, for each stream a list of the objects sorted by their value, and a view
    of the best objects that every tuple coming or leaving brings up to date. A view has up to `view` objects (twice k
    if not told), so that some may leave before it has fewer than k; only then the threshold algorithm reads the lists
    side by side until nobody unread can be among the best.

    W valid tuples in d streams: O(log W + d + k) for a tuple, in the mean, and W items of memory.

    Parameters
    ----------
    shape
        The query.
    view
        How many objects the view may hold, at least k.

    Examples
    --------
    >>> import numpy as np
    >>> from skyband.incomplete.shape import Shape
    >>> from skyband.incomplete.sorted_lists import SortedLists
    >>> from skyband.kernels.attributes import SUM
    >>> shape = Shape(k=1, size=4, every=2, origin=0, d=2, weights=np.ones(2), aggregate=SUM, low=0, high=1,
    ...               occurrences=1)
    >>> lists = SortedLists(shape)
    >>> lists.push(np.arange(4), np.array([7, 8, 7, 9]), np.array([0, 0, 1, 1]), np.array([0.5, 0.75, 0.5, 0.25]))
    >>> best = lists.answer(4)
    >>> best.objects.tolist(), best.scores.tolist(), best.lasts.tolist()
    ([7], [1.0], [2])

    References
    ----------
    P. Haghani, S. Michel, K. Aberer: Evaluating top-k queries over incomplete data streams, CIKM 2009, section 3.1;
    R. Fagin, A. Lotem, M. Naor: Optimal aggregation algorithms for middleware, 2003; K. Yi et al.: Efficient
    maintenance of materialized top-k views, ICDE 2003. Departing from the first: where a stream reports an object more
    than once, its list has the sum, which is what the score is made of; and the lists are read when an answer is
    wanted, not as soon as the view is short.
    """

    def __init__(self, shape: Shape, *, view: int | None = None) -> None:
        self._most = max(shape.k, 2 * shape.k if view is None else view)
        self._shape = shape
        self._answered: int | None = None  # the end of the last window answered
        self._asked = _asked(shape)
        d = shape.d
        self._lists = kernels.Lists(
            _empty_tuples(_ROOM),
            _empty_objects(_ROOM, d),
            np.full(2 * _ROOM, kernels.NONE, np.int64),
            empty_list(_ROOM + d, d),
            kernels.View(
                np.zeros(min(self._most, _ROOM) + 1, np.int64), np.full(1, -np.inf), np.full(2, kernels.NEVER)
            ),
            np.zeros(d, np.int64),
            np.zeros(d),
            np.zeros(kernels.REGISTERS, np.int64),
        )
        self._lists.registers[kernels.NEXT_END] = kernels.NEVER

    def push(self, positions: Ints, objects: Ints, streams: Ints, values: Floats) -> None:
        """Take in tuples in stream order; nothing is checked."""
        hashes = mixed(objects)
        why, at = kernels.take(self._lists, self._asked, 0, positions, objects, hashes, streams, values)
        while why != DONE:
            self._grow()
            why, at = kernels.take(self._lists, self._asked, at, positions, objects, hashes, streams, values)

    def answer(self, end: int) -> Best:
        """The best objects of the window that ends at `end`; all tuples before it must have come, and none beyond."""
        found = kernels.settle(self._lists, self._asked, end)
        slots = self._lists.ranked.slots[:found]
        objects, tuples = self._lists.objects, self._lists.tuples
        lasts = tuples.positions[objects.lasts[slots] % tuples.positions.size]
        return Best(objects.keys[slots], objects.scores[slots] + 0.0, lasts)

    @property
    def items(self) -> int:
        """How many tuples are held."""
        return int(self._lists.registers[kernels.TAIL] - self._lists.registers[kernels.HEAD])

    def advance(
        self, positions: Ints, objects: Ints, streams: Ints, values: Floats, hashes: Ints, clock: int | None
    ) -> Answers:
        """Take in tuples in stream order; answer every window that ends at or before the last of them, or `clock`."""
        parts = []
        begin = 0
        while (end := self._next_end(positions, begin, clock)) is not None:
            stop = int(np.searchsorted(positions, end))
            part = slice(begin, stop)
            self.push(positions[part], objects[part], streams[part], values[part])
            best, begin = self.answer(end), stop
            self._answered = end
            if best.objects.size:
                parts.append(_one_answer(end, best))
        self.push(positions[begin:], objects[begin:], streams[begin:], values[begin:])
        return joined(parts)

    def _next_end(self, positions: Ints, begin: int, clock: int | None) -> int | None:
        """The end of the next window that holds a tuple and is over; None if there is none yet."""
        shape = self._shape
        reached = [] if clock is None else [clock]
        if positions.size:
            reached.append(int(positions[-1]))
        if self.items:
            oldest = int(self._lists.tuples.positions[self._lists.registers[kernels.HEAD] % self._room])
        elif begin < positions.size:
            oldest = int(positions[begin])
        else:
            return None
        end = shape.origin + ((oldest - shape.origin) // shape.every + 1) * shape.every
        if self._answered is not None:
            end = max(end, self._answered + shape.every)
        return end if reached and end <= max(reached) else None

    @property
    def _room(self) -> int:
        return int(self._lists.tuples.positions.size)

    def objects_in_use(self) -> Ints:
        """The keys of the objects with a valid tuple."""
        objects = self._lists.objects
        return np.unique(objects.keys[objects.tuples > 0])

    def metrics(self) -> dict[str, int]:
        """How often the threshold algorithm ran, and what it read."""
        registers = self._lists.registers
        return {
            "recomputations": int(registers[kernels.RECOMPUTED]),
            "sorted_accesses": int(registers[kernels.SORTED]),
            "random_accesses": int(registers[kernels.RANDOM]),
        }

    def state(self) -> dict[str, Any]:
        """Everything that `load` needs to go on from here. Not changed by later calls."""
        found: dict[str, Any] = {"most": self._most, "answered": self._answered}
        for name, value in self._lists._asdict().items():
            if name in _PARTS:
                found[name] = {column: array.copy() for column, array in value._asdict().items()}
            else:
                found[name] = value.copy()
        return found

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` returned."""
        self._most, self._answered = state["most"], state["answered"]
        parts = {name: kind(**state[name]) for name, kind in _PARTS.items()}
        rest = {name: state[name] for name in kernels.Lists._fields if name not in parts}
        self._lists = kernels.Lists(**parts, **rest)

    def _grow(self) -> None:
        """Twice the room for tuples, and so for all that there can be no more of than tuples."""
        old = self._lists
        room = old.tuples.positions.size
        d = old.cursors.size
        tuples, objects = _empty_tuples(2 * room), _empty_objects(2 * room, d)
        numbers = np.arange(old.registers[kernels.HEAD], old.registers[kernels.TAIL])
        for target, source in zip(tuples, old.tuples, strict=True):
            target[numbers % (2 * room)] = source[numbers % room]
        for target, source in zip(objects, old.objects, strict=True):
            target[:room] = source
        objects.lasts[-1] = old.registers[kernels.UNUSED]  # the new free slots come before the old ones
        old.registers[kernels.UNUSED] = room
        slots = np.zeros(min(self._most, 2 * room) + 1, np.int64)
        slots[: old.ranked.slots.size] = old.ranked.slots
        self._lists = old._replace(
            tuples=tuples,
            objects=objects,
            table=np.full(4 * room, kernels.NONE, np.int64),
            chain=grown_list(old.chain),
            ranked=old.ranked._replace(slots=slots),
        )
        kernels.fill_table(self._lists)


def _one_answer(end: int, best: Best) -> Answers:
    whole, real = np.empty(0, np.int64), np.empty(0)
    return Answers(np.array([end]), np.array([best.objects.size]), *best, real, whole)


def _asked(shape: Shape) -> kernels.Asked:
    return kernels.Asked(
        shape.k,
        shape.size,
        shape.every,
        shape.origin,
        shape.aggregate,
        float(shape.low),
        np.ascontiguousarray(shape.weights, np.float64),
    )


def _empty_tuples(room: int) -> kernels.Tuples:
    columns: list[Any] = [
        np.zeros(room, np.float64 if name == "values" else np.int64) for name in kernels.Tuples._fields
    ]
    return kernels.Tuples(*columns)


def _empty_objects(room: int, d: int) -> kernels.Objects:
    """Free slots, chained one after another."""
    columns: dict[str, Any] = {name: np.zeros(room, np.int64) for name in kernels.Objects._fields}
    columns |= {name: np.zeros((room, d), np.int64) for name in ("nodes", "firsts", "newest")}
    columns |= {"values": np.zeros((room, d)), "scores": np.zeros(room), "lasts": np.arange(1, room + 1)}
    return kernels.Objects(**columns)
