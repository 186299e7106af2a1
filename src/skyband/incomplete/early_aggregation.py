"""EAA, early aggregation: the engine around the instances of objects."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.incomplete.answers import ObjectAnswers, joined, room_for, written
from skyband.incomplete.kernels import instances as kernels
from skyband.incomplete.kernels import ladder
from skyband.incomplete.kernels.instances import Instances, Scratch, Terms, TupleBatch
from skyband.incomplete.shape import IncompleteShape
from skyband.kernels import lookup
from skyband.kernels.stream import DONE, Floats, Ints

__all__ = ["EarlyAggregation", "Expected"]


class Expected(NamedTuple):
    """What is likely to arrive; see `skyband.incomplete.kernels.instances.Terms`."""

    masks: Ints
    chances: Floats
    ages: Ints
    repeats: Floats
    tails: Floats
    risk: float
    hurdle: float


_COUNTERS = {
    "created": kernels.CREATED,
    "pruned": kernels.PRUNED,
    "expired": kernels.EXPIRED,
    "touched": kernels.TOUCHED,
}
_EVERYTHING = Expected(
    np.empty(0, np.int64), np.empty((0, 0, 0)), np.empty(0, np.int64), np.empty(0), np.empty((0, 0)), 0.0, -np.inf
)
_LEAST = 256  # room to begin with


class EarlyAggregation:
    """Keeps the instances that fewer than k objects dominate, and nothing else."""

    def __init__(self, shape: IncompleteShape, *, intervals: bool = False) -> None:
        self.shape = shape
        self._terms = Terms(
            shape.k,
            shape.size,
            shape.every,
            shape.origin,
            shape.aggregate,
            shape.low,
            shape.high,
            shape.occurrences,
            shape.weights,
            *_EVERYTHING,
        )
        self._held = kernels.empty_instances(_LEAST, shape.d)
        self._scratch = Scratch(np.empty(shape.k, np.int64), np.empty(shape.d), np.empty(shape.d))
        self._found = room_for(shape.k, intervals)

    @property
    def items(self) -> int:
        """Instances held."""
        return int(self._held.registers[kernels.HELD])

    def advance(
        self, positions: Ints, objects: Ints, streams: Ints, values: Floats, hashes: Ints, clock: int | None
    ) -> ObjectAnswers:
        """Take in tuples in stream order; answer every window that ends at or before the last of them, or `clock`."""
        rows = TupleBatch(positions, objects, streams, values)
        until = kernels.NEVER if clock is None else clock
        parts = []
        begin, why = 0, kernels.ROOM_NEEDED
        while why != DONE:
            begin, why = kernels.advance(self._held, self._terms, self._scratch, rows, begin, until, self._found)
            if why == kernels.ROOM_NEEDED:
                self._make_room()
            else:
                parts.append(written(self._found))
        return joined(parts)

    def expect(self, expected: Expected) -> None:
        """Judge from now on what may still arrive by what is likely, not by what is possible."""
        self._terms = self._terms._replace(**expected._asdict())

    def kth_score(self) -> float:
        """The lowest score of an answer at this moment; minus infinity if it would have fewer than k objects."""
        return float(kernels.kth_score(self._held, self._terms, self._scratch))

    def reconsider(self, now: int) -> None:
        """Judge what is held by what is expected now."""
        if ladder.is_worn(self._held.best):
            self._make_room()
        kernels.reconsider(self._held, self._terms, self._scratch, now)

    def objects_in_use(self) -> Ints:
        """The keys of the objects that have an instance."""
        return np.unique(self._held.objects[self._held.owners[self._slots()]])

    def masks_in_use(self) -> Ints:
        """The sets of streams, as bit masks, that some instance was seen in."""
        seen = self._held.counts[self._slots()] > 0
        return np.unique(seen @ (1 << np.arange(self.shape.d)))

    def metrics(self) -> dict[str, int]:
        """What was done so far."""
        return {name: int(self._held.registers[place]) for name, place in _COUNTERS.items()}

    def intervals(self) -> dict[str, Any]:
        """Every instance held, oldest first: its object, the last window it is in, and its interval. For tests."""
        slots = self._slots()
        held = self._held
        return {
            "objects": held.objects[held.owners[slots]],
            "last_ends": self.shape.origin + held.epochs[slots] * self.shape.every,
            "current": held.current.values[slots],
            "best": held.best.values[slots],
            "dominators": held.dominators[slots],
        }

    def _slots(self) -> Ints:
        slots = np.empty(self.items, np.int64)
        kernels.held_slots(self._held, slots)
        return slots

    def _make_room(self) -> None:
        """Lay the ladders anew, with more room if half of it is taken."""
        held = self._held
        room = held.owners.size
        if 2 * self.items > room or held.registers[kernels.FREE] < 0 or held.registers[kernels.FREE_OBJECT] < 0:
            held = _grown(held, 2 * room)
            room *= 2
        slots = self._slots()
        self._held = held._replace(
            current=ladder.laid_anew(held.current, slots, room), best=ladder.laid_anew(held.best, slots, room)
        )

    def state(self) -> dict[str, Any]:
        """Everything that `load` needs: the instances oldest first, whatever slots they were in."""
        held, slots = self._held, self._slots()
        owners, places = np.unique(held.owners[slots], return_inverse=True)
        return {
            "owners": places.astype(np.int64),
            **{name: getattr(held, name)[slots] for name in _BY_INSTANCE},
            "current": held.current.values[slots],
            "best": held.best.values[slots],
            **{name: getattr(held, name)[owners] for name in _BY_OBJECT},
            "registers": held.registers.copy(),
            "expected": {name: getattr(self._terms, name) for name in Expected._fields},
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on from what `state` was taken of."""
        owners = state["owners"]
        count, objects = owners.size, state["objects"].size
        room = max(_LEAST, 1 << int(2 * count + 1).bit_length())
        held = kernels.empty_instances(room, self.shape.d)
        held.owners[:count] = owners
        for name in _BY_INSTANCE:
            getattr(held, name)[:count] = state[name]
        for name in _BY_OBJECT:
            getattr(held, name)[:objects] = state[name]
        held.current.values[:count] = state["current"]
        held.best.values[:count] = state["best"]
        held.current.nodes[:count, ladder.UNTIL] = held.best.nodes[:count, ladder.UNTIL] = state["epochs"]
        _link(held, owners, objects)
        held.registers[:] = state["registers"]
        held.registers[kernels.FREE] = count if count < room else kernels.NONE
        held.registers[kernels.FREE_OBJECT] = objects if objects < room else kernels.NONE
        held.registers[kernels.FIRST] = 0 if count else kernels.NONE
        held.registers[kernels.LAST] = count - 1 if count else kernels.NONE
        slots = np.arange(count)
        self._held = held._replace(
            current=ladder.laid_anew(held.current, slots, room), best=ladder.laid_anew(held.best, slots, room)
        )
        kernels.enter_objects(self._held, objects)
        self.expect(Expected(**state["expected"]))


_BY_INSTANCE = ("epochs", "values", "counts", "dominators")
_BY_OBJECT = ("objects", "touches", "lasts")


def _link(held: Instances, owners: Ints, objects: int) -> None:
    """Chain instances in slots 0, 1, …, oldest first, by time and by object."""
    count = owners.size
    held.after[:count] = np.arange(1, count + 1)
    held.before[:count] = np.arange(-1, count - 1)
    if count:
        held.after[count - 1] = kernels.NONE
    held.oldest[:objects] = kernels.NONE
    held.newest[:objects] = kernels.NONE
    held.older[:count] = kernels.NONE
    held.newer[:count] = kernels.NONE
    by_owner = np.argsort(owners, kind="stable")
    first = np.diff(owners[by_owner], prepend=-1) != 0
    last = np.diff(owners[by_owner], append=objects) != 0
    held.older[by_owner[~first]] = by_owner[np.flatnonzero(~first) - 1]
    held.newer[by_owner[~last]] = by_owner[np.flatnonzero(~last) + 1]
    held.oldest[owners[by_owner[first]]] = by_owner[first]
    held.newest[owners[by_owner[last]]] = by_owner[last]


def _grown(held: Instances, room: int) -> Instances:
    """The same instances with more free slots; the ladders are laid anew by the caller."""
    old = held.owners.size
    new = kernels.empty_instances(room, held.values.shape[1])
    for name in Instances._fields:
        if name not in ("current", "best", "lookup", "registers"):
            getattr(new, name)[:old] = getattr(held, name)
    for chain, register in ((new.after, kernels.FREE), (new.newest, kernels.FREE_OBJECT)):
        chain[room - 1] = held.registers[register]  # the new slots come first
        held.registers[register] = old
    lookup.move(held.lookup, new.lookup)
    return new._replace(current=held.current, best=held.best, registers=held.registers)
