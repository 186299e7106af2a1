"""The engine of the early aggregation algorithm (EAA)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.incomplete.engine import IncompleteShape, ObjectAnswers, joined, room_for, written
from skyband.incomplete.kernels import instances as kernels
from skyband.incomplete.kernels import ladder, losses
from skyband.incomplete.kernels.instances import Instances, Scratch, Terms, TupleBatch
from skyband.incomplete.kernels.prospects import Prospects, no_prospects
from skyband.kernels import lookup
from skyband.kernels.stream import DONE, Floats, Ints

__all__ = ["EarlyAggregation", "Expected", "without_losses"]


class Expected(NamedTuple):
    """Estimates of the tuples to come, see `skyband.incomplete.kernels.instances.Terms`."""

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
_LEAST = 256  # initial capacity
_FEW = 16  # of a small engine


class EarlyAggregation:
    """Keep only the instances that fewer than k objects dominate.

    Several queries can share the instances: `asks` are theirs, see `skyband.incomplete.kernels.instances.Terms`. An
    instance that k objects dominate in the longest windows is dominated by them in all others, too, because they live
    at least as long there.
    """

    def __init__(
        self,
        shape: IncompleteShape,
        *,
        intervals: bool = False,
        asks: Ints | None = None,
        lossy: bool = False,
        small: bool = False,
    ) -> None:
        self.shape = shape
        self._few, self._least = small, _FEW if small else _LEAST
        self._lossy = lossy
        asks = np.array([[shape.k, 1, 0, 0, int(shape.ties)]]) if asks is None else asks
        self._terms = Terms(
            shape.k,
            shape.size,
            shape.every,
            shape.origin,
            shape.scoring,
            shape.lows,
            shape.highs,
            shape.occurrences,
            *_EVERYTHING,
            no_prospects(shape.d, 0),
            asks,
        )
        self._instances = self._empty(self._least)
        self._scratch = Scratch(np.empty(min(shape.k, _LEAST), np.int64), np.empty(shape.d), np.empty(shape.d))
        self._found = room_for(shape.k, intervals, asks=len(asks), lossy=lossy, few=small)

    def _empty(self, room: int) -> Instances:
        made = kernels.empty_instances(room, self.shape.d, self.shape.once, self._lossy)
        made.losses.registers[losses.WINDOWS] = losses.windows_per_span(self.shape.size, self.shape.every)
        return made

    @property
    def items(self) -> int:
        """Number of instances held."""
        return int(self._instances.registers[kernels.HELD])

    @property
    def repeated(self) -> int:
        """Number of tuples dropped because their stream had reported the object before, if declared once."""
        return int(self._instances.registers[kernels.REPEATED])

    def advance(
        self, positions: Ints, objects: Ints, streams: Ints, values: Floats, hashes: Ints, clock: int | None
    ) -> ObjectAnswers:
        """Process tuples in stream order and answer every window that ends at or before the last one, or `clock`."""
        rows = TupleBatch(positions, objects, streams, values, hashes)
        until = kernels.NEVER if clock is None else clock
        parts = []
        begin, why = 0, kernels.ROOM_NEEDED
        while why != DONE:
            begin, why = kernels.advance(self._instances, self._terms, self._scratch, rows, begin, until, self._found)
            if why == kernels.ROOM_NEEDED:
                self._make_room()
            else:
                parts.append(written(self._found))
                self._make_room_for_answers()
        return joined(parts)

    def _make_room_for_answers(self) -> None:
        """Make the buffers long enough for an answer with all objects, or k of them."""
        rows, most = int(self._instances.registers[kernels.OBJECTS]), self.shape.k
        if not self.shape.ties:
            rows = min(most, rows)
        if rows > self._scratch.slots.size:
            more = 2 * rows if self.shape.ties else min(most, 2 * rows)
            self._scratch = self._scratch._replace(slots=np.empty(more, np.int64))
        asks = len(self._terms.asks)
        if rows * asks > self._found.objects.size:
            intervals, least = self._found.sure.size > 0, 2 * rows * asks
            self._found = room_for(self.shape.k, intervals, least=least, asks=asks, lossy=self._lossy, few=self._few)

    def keep_asks(self, kept: Ints) -> None:
        """Answer only some of the queries from now on. Instances are still kept for all of them."""
        self._terms = self._terms._replace(asks=self._terms.asks[kept])

    def expect(self, expected: Expected) -> None:
        """Compute best scores from estimates of likely tuples from now on, instead of best possible ones."""
        self._terms = self._terms._replace(**expected._asdict())

    def await_followers(self, prospects: Prospects, ages: Ints) -> None:
        """Use these estimates for best scores from now on, and count the delays of further reports in them."""
        self._terms = self._terms._replace(prospects=prospects, ages=ages)

    def kth_score(self) -> float:
        """Return the k-th best score at this time, minus infinity if there are fewer than k objects."""
        self._make_room_for_answers()
        return float(kernels.kth_score(self._instances, self._terms, self._scratch))

    def reconsider(self, now: int, elapsed: int) -> None:
        """Recompute the best scores of all instances from the current estimates, after some time elapsed."""
        if ladder.is_worn(self._instances.best):
            self._make_room()
        if losses.is_full(self._instances.losses):
            self._instances = self._instances._replace(losses=losses.doubled(self._instances.losses))
        kernels.reconsider(self._instances, self._terms, self._scratch, now, elapsed)

    def objects_in_use(self) -> Ints:
        """Return the keys of the objects that have an instance."""
        return np.unique(self._instances.objects[self._instances.owners[self._slots()]])

    def masks_in_use(self) -> Ints:
        """Return the distinct bit masks of the streams in which instances were seen."""
        seen = self._instances.counts[self._slots()] > 0
        return np.unique(seen @ (1 << np.arange(self.shape.d)))

    def metrics(self) -> dict[str, int]:
        """Return counters of the work done."""
        return {name: int(self._instances.registers[place]) for name, place in _COUNTERS.items()}

    def intervals(self) -> dict[str, Any]:
        """Return all instances, oldest first: object, last window and score interval. For tests."""
        slots = self._slots()
        instances = self._instances
        return {
            "objects": instances.objects[instances.owners[slots]],
            "last_ends": self.shape.origin + instances.epochs[slots] * self.shape.every,
            "current": instances.current.values[slots],
            "best": instances.best.values[slots],
            "dominators": instances.dominators[slots],
        }

    def _slots(self) -> Ints:
        slots = np.empty(self.items, np.int64)
        kernels.held_slots(self._instances, slots)
        return slots

    def _make_room(self) -> None:
        """Rebuild the ladders, and double the capacity if more than half of it is used."""
        instances = self._instances
        room = instances.owners.size
        if (
            2 * self.items > room
            or instances.registers[kernels.FREE] < 0
            or instances.registers[kernels.FREE_OBJECT] < 0
        ):
            instances = _grown(instances, self._empty(2 * room))
            room *= 2
        slots = self._slots()
        self._instances = instances._replace(
            current=ladder.rebuilt(instances.current, slots, room), best=ladder.rebuilt(instances.best, slots, room)
        )

    def state(self) -> dict[str, Any]:
        """Return the state for `load`: the instances, oldest first, independent of their slots."""
        instances, slots = self._instances, self._slots()
        owners, places = np.unique(instances.owners[slots], return_inverse=True)
        return {
            "owners": places.astype(np.int64),
            **{name: getattr(instances, name)[slots] for name in _BY_INSTANCE},
            "current": instances.current.values[slots],
            "best": instances.best.values[slots],
            **{name: getattr(instances, name)[owners] for name in _BY_OBJECT},
            **self._losses_state(),
            "registers": instances.registers.copy(),
            "expected": {name: getattr(self._terms, name) for name in Expected._fields},
        }

    def _losses_state(self) -> dict[str, Any]:
        if not self._lossy:
            return {}
        instances, slots = self._instances, self._slots()
        owners = np.unique(instances.owners[slots])
        return {
            "lacks": instances.lacks[slots],
            "lost": instances.lost[owners],
            "hashes": instances.hashes[owners],
            "losses": {name: array.copy() for name, array in instances.losses._asdict().items()},
        }

    def load(self, state: dict[str, Any]) -> None:
        """Restore the state that `state` returned."""
        owners = state["owners"]
        count, objects = owners.size, state["objects"].size
        room = max(self._least, 1 << int(2 * count + 1).bit_length())
        instances = self._empty(room)
        instances.owners[:count] = owners
        for name in _BY_INSTANCE:
            getattr(instances, name)[:count] = state[name]
        for name in _BY_OBJECT:
            getattr(instances, name)[:objects] = state[name]
        if self._lossy:
            instances.lacks[:count] = state["lacks"]
            instances.lost[:objects] = state["lost"]
            instances.hashes[:objects] = state["hashes"]
            instances = instances._replace(losses=losses.Losses(**state["losses"]))
        instances.current.values[:count] = state["current"]
        instances.best.values[:count] = state["best"]
        instances.current.nodes[:count, ladder.UNTIL] = instances.best.nodes[:count, ladder.UNTIL] = state["epochs"]
        _link(instances, owners, objects)
        instances.registers[:] = state["registers"]
        instances.registers[kernels.FREE] = count if count < room else kernels.NONE
        instances.registers[kernels.FREE_OBJECT] = objects if objects < room else kernels.NONE
        instances.registers[kernels.FIRST] = 0 if count else kernels.NONE
        instances.registers[kernels.LAST] = count - 1 if count else kernels.NONE
        slots = np.arange(count)
        self._instances = instances._replace(
            current=ladder.rebuilt(instances.current, slots, room), best=ladder.rebuilt(instances.best, slots, room)
        )
        kernels.enter_objects(self._instances, objects)
        self.expect(Expected(**state["expected"]))


_BY_INSTANCE = ("epochs", "values", "counts", "dominators")
_BY_OBJECT = ("objects", "touches", "lasts", "reported")


def without_losses(state: dict[str, Any], size: int, every: int) -> dict[str, Any]:
    """Return the state of an approximate engine that does not know what it has lost, for windows up to now."""
    upcoming = int(state["registers"][kernels.NEXT])
    made = losses.empty_losses(True)
    made.registers[losses.WINDOWS] = losses.windows_per_span(size, every)
    if upcoming > kernels.NEVER:
        made.registers[losses.UNKNOWN] = upcoming + size // every + 1
    return {
        **state,
        "lacks": np.full(state["epochs"].size, made.registers[losses.UNKNOWN]),
        "lost": np.full(state["objects"].size, made.registers[losses.UNKNOWN]),
        "hashes": np.zeros(state["objects"].size, np.int64),
        "losses": made._asdict(),
    }


def _link(instances: Instances, owners: Ints, objects: int) -> None:
    """Link instances in slots 0, 1, …, oldest first, by time and by object."""
    count = owners.size
    instances.after[:count] = np.arange(1, count + 1)
    instances.before[:count] = np.arange(-1, count - 1)
    if count:
        instances.after[count - 1] = kernels.NONE
    instances.oldest[:objects] = kernels.NONE
    instances.newest[:objects] = kernels.NONE
    instances.older[:count] = kernels.NONE
    instances.newer[:count] = kernels.NONE
    by_owner = np.argsort(owners, kind="stable")
    first = np.diff(owners[by_owner], prepend=-1) != 0
    last = np.diff(owners[by_owner], append=objects) != 0
    instances.older[by_owner[~first]] = by_owner[np.flatnonzero(~first) - 1]
    instances.newer[by_owner[~last]] = by_owner[np.flatnonzero(~last) + 1]
    instances.oldest[owners[by_owner[first]]] = by_owner[first]
    instances.newest[owners[by_owner[last]]] = by_owner[last]


def _grown(instances: Instances, new: Instances) -> Instances:
    """Return the same instances with more free slots. The caller must rebuild the ladders."""
    old, room = instances.owners.size, new.owners.size
    for name in Instances._fields:
        array = getattr(new, name)
        if name not in ("current", "best", "losses", "lookup", "registers") and array.size:
            array[:old] = getattr(instances, name)
    for chain, register in ((new.after, kernels.FREE), (new.newest, kernels.FREE_OBJECT)):
        chain[room - 1] = instances.registers[register]  # new slots are used first
        instances.registers[register] = old
    lookup.move(instances.lookup, new.lookup)
    return new._replace(
        current=instances.current, best=instances.best, losses=instances.losses, registers=instances.registers
    )
