"""Executors: one query, or several that share instances. They admit tuples and pass them to an engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from skyband.incomplete.approximate import ExpectedAggregation, LikelyAggregation
from skyband.incomplete.early_aggregation import EarlyAggregation
from skyband.incomplete.engine import IncompleteEngine, IncompleteShape, ObjectAnswers, of_ask, with_ends
from skyband.incomplete.expression import compiled
from skyband.incomplete.kernels import attributes, ledger
from skyband.incomplete.kernels.attributes import Scoring
from skyband.incomplete.kernels.ledger import OccurrenceLedger
from skyband.incomplete.query import APPROXIMATE, IncompleteTopK
from skyband.incomplete.sorted_lists import SortedLists
from skyband.incomplete.window_axis import axis_of, sliding_of
from skyband.kernels.stream import Floats, Ints
from skyband.queries.sharing import places_by

__all__ = ["IncompleteExecutor", "Lattice", "advanced", "lattice_of", "shape_of", "shared"]

_MIRRORED = {"min": "max", "max": "min"}  # of negated values
_AGGREGATES = {"sum": attributes.SUM, "avg": attributes.AVG, "min": attributes.MIN, "max": attributes.MAX}
_LEAST = 1024
_FEW = 16  # of a small executor
_NONE = np.empty(0, np.int64)


class Lattice(NamedTuple):
    """What the queries of an executor have in common: the largest k and size, and the windows of all of them."""

    k: int
    size: int
    every: int
    origin: int

    def fits(self, query: IncompleteTopK) -> bool:
        """Return whether the windows of a query begin and end where those of the lattice do."""
        window = sliding_of(query.window)
        return not any(
            distance % self.every for distance in (window.slide, self.size - window.size, window.origin - self.origin)
        )

    def with_query(self, query: IncompleteTopK) -> Lattice:
        """Return the lattice of one more query."""
        return self._replace(k=max(self.k, query.k), size=max(self.size, sliding_of(query.window).size))

    def ask(self, query: IncompleteTopK) -> tuple[int, int, int, int, int]:
        """Return the query in the form of the kernels."""
        window = sliding_of(query.window)
        offset = (window.origin - self.origin) // self.every
        shift = (self.size - window.size) // self.every
        return query.k, window.slide // self.every, offset, shift, int(query.ties == "rank")


def lattice_of(query: IncompleteTopK) -> Lattice:
    """Return the lattice of one query."""
    window = sliding_of(query.window)
    return Lattice(query.k, window.size, window.slide, window.origin)


def shared(queries: Iterable[IncompleteTopK]) -> list[tuple[Lattice, list[IncompleteTopK]]]:
    """Group queries that can share instances, in order of first appearance of their key.

    >>> import skyband as sb
    >>> from skyband.incomplete.executor import shared
    >>> same = {"streams": ["a", "b"], "occurrences": "once"}
    >>> queries = [sb.IncompleteTopK(name=f"q{i}", k=i, size=60 * i, every=10 * i, **same) for i in (1, 2, 3)]
    >>> [(lattice.k, lattice.size, lattice.every, len(mine)) for lattice, mine in shared(queries)]
    [(3, 180, 10, 3)]
    """
    groups: list[tuple[Lattice, list[IncompleteTopK]]] = []
    for places in places_by(IncompleteTopK.sharing_key, found := tuple(queries)).values():
        mine: list[tuple[Lattice, list[IncompleteTopK]]] = []
        # The shortest distance between windows comes first: it is that of the group.
        for query in sorted((found[place] for place in places), key=lambda one: sliding_of(one.window).slide):
            fitting = next((at for at, (lattice, _) in enumerate(mine) if lattice.fits(query)), None)
            if fitting is None or not query.shares:
                mine.append((lattice_of(query), [query]))
            else:
                lattice, members = mine[fitting]
                mine[fitting] = lattice.with_query(query), [*members, query]
        groups += mine
    return groups


def advanced(executor: Any, columns: tuple[Any, ...]) -> list[ObjectAnswers]:
    """Call `advance` of an executor with positions, …, clock and groups, on the axis of its windows."""
    axis = axis_of(executor.queries[0].window)
    if axis is None:
        found: list[ObjectAnswers] = executor.advance(*columns)
        return found
    positions, *rest, clock, groups = columns
    moved = executor.advance(axis.moved(positions), *rest, None if clock is None else axis.place(clock), groups)
    return [with_ends(answers, *axis.ends(answers.ends)) for answers in moved]


class IncompleteExecutor:
    """Queries with their engine. On a count axis it numbers the admitted tuples."""

    def __init__(
        self,
        queries: Sequence[IncompleteTopK],
        streams: tuple[str | int, ...],
        lattice: Lattice | None = None,
        *,
        small: bool = False,
    ) -> None:
        self.queries = list(queries)
        query = self.queries[0]
        self.lattice = lattice_of(query) if lattice is None else lattice
        self._query = query  # for what the queries have in common
        self._over_limit = 0  # tuples that the ledger did not admit
        self._counted = 0  # admitted tuples
        self.engine: IncompleteEngine = _engine(
            self.queries, shape_of(query, streams, self.lattice), self.lattice, small
        )
        # If occurrences are not limited, or declared to be single, no ledger is needed.
        unlimited = query.axis == "count" and query.limit >= sliding_of(query.window).size
        self._ledger = (
            None
            if unlimited or query.occurrences == "once" or query.method in APPROXIMATE
            else ledger.empty_ledger(_FEW if small else _LEAST)
        )
        self._least = _FEW if small else _LEAST

    @property
    def items(self) -> int:
        """Number of items held."""
        return self.engine.items

    @property
    def over_limit(self) -> int:
        """Number of dropped tuples beyond the limit of occurrences."""
        return self._over_limit + self.engine.repeated

    @property
    def remembered(self) -> int:
        """Number of tuples kept to limit occurrences."""
        if self._ledger is None:
            return 0
        return int(self._ledger.registers[ledger.NEXT] - self._ledger.registers[ledger.FIRST])

    def advance(
        self,
        positions: Ints,
        objects: Ints,
        streams: Ints,
        values: Floats,
        hashes: Ints,
        clock: int | None,
        _groups: Ints = _NONE,
    ) -> list[ObjectAnswers]:
        """Process tuples and return the answers of windows that ended, per query. On a count axis without positions."""
        counted = self._counted
        if self._query.ascending:
            values = 0.0 - values
        if self._ledger is not None:
            taken = self._admitted(positions, objects, streams)
            if taken.size < objects.size:
                self._over_limit += objects.size - taken.size
                objects, streams, values = objects[taken], streams[taken], values[taken]
                positions = positions[taken] if positions.size else positions
                hashes = hashes[taken] if hashes.size else hashes
        self._counted += objects.size
        if self._query.axis == "count":
            positions, clock = np.arange(counted, self._counted), self._counted
        found = self.engine.advance(positions, objects, streams, values, hashes, clock)
        if self._query.ascending:
            found = found._replace(scores=0.0 - found.scores, best=0.0 - found.best)
        return [found] if len(self.queries) == 1 else [of_ask(found, ask) for ask in range(len(self.queries))]

    def remove(self, name: str) -> None:
        """Remove one of several queries."""
        kept = [place for place, query in enumerate(self.queries) if query.name != name]
        self.queries = [self.queries[place] for place in kept]
        if isinstance(self.engine, EarlyAggregation):
            self.engine.keep_asks(np.array(kept))

    def objects_in_use(self) -> Ints:
        """Return the keys of all objects in the engine or the ledger."""
        if self._ledger is None:
            return self.engine.objects_in_use()
        return np.union1d(self.engine.objects_in_use(), _entries(self._ledger)[0])

    def metrics(self) -> dict[str, int]:
        """Return counters of items held and work done."""
        return {
            "items": self.engine.items,
            "sharing": len(self.queries),
            "remembered": self.remembered,
            "over_limit": self.over_limit,
            **self.engine.metrics(),
        }

    def state(self) -> dict[str, Any]:
        """Return the state for `load`."""
        entries = None if self._ledger is None else dict(zip(_ENTRIES, _entries(self._ledger), strict=True))
        return {
            "queries": [query.name for query in self.queries],
            "lattice": list(self.lattice),
            "too_often": self._over_limit,
            "counted": self._counted,
            "ledger": entries,
            "engine": self.engine.state(),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Restore the state that `state` returned."""
        self._over_limit, self._counted = state["too_often"], state["counted"]
        if state["ledger"] is not None:
            self._ledger = _ledger_of(*(state["ledger"][name] for name in _ENTRIES), least=self._least)
        self.engine.load(state["engine"])

    def _admitted(self, positions: Ints, objects: Ints, streams: Ints) -> Ints:
        kept = self._ledger
        if kept is None:
            return np.arange(objects.size)
        if self.remembered + objects.size > kept.objects.size:
            kept = self._ledger = _ledger_of(*_entries(kept), room=self.remembered + objects.size, least=self._least)
        taken = np.empty(objects.size, np.int64)
        window = sliding_of(self._query.window)
        count = ledger.admit(
            kept,
            self._query.limit,
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


def _ledger_of(objects: Ints, streams: Ints, positions: Ints, *, room: int = 0, least: int) -> OccurrenceLedger:
    """Return a ledger with these tuples and a capacity of at least twice `room`."""
    needed = max(least, 2 * room, objects.size + 1)
    made = ledger.empty_ledger(1 << int(needed - 1).bit_length())
    ledger.enter(made, objects, streams, positions)
    return made


def shape_of(query: IncompleteTopK, streams: tuple[str | int, ...], lattice: Lattice | None = None) -> IncompleteShape:
    """Return the query in the form of the engines, with the windows of a lattice.

    Engines rank higher scores first. Of a query with the other order they get negated values, with the negated bounds.
    """
    pairs = [query.bounds_of(stream) for stream in streams]
    if query.ascending:
        pairs = [(-high, -low) for low, high in pairs]
    return IncompleteShape(
        *(lattice_of(query) if lattice is None else lattice),
        len(streams),
        _scoring(query, streams),
        np.array([low for low, _ in pairs]),
        np.array([high for _, high in pairs]),
        query.limit,
        query.occurrences == "once",
        query.ties == "rank",
    )


def _scoring(query: IncompleteTopK, streams: tuple[str | int, ...]) -> Scoring:
    if query.aggregate in _AGGREGATES:
        weights = np.array([query.weight_of(stream) for stream in streams])
        name = _MIRRORED.get(query.aggregate, query.aggregate) if query.ascending else query.aggregate
        return attributes.aggregate_of(_AGGREGATES[name], weights)
    bounds = {stream: query.bounds_of(stream) for stream in streams}
    return compiled(query.aggregate, streams, bounds, query.limit, ascending=query.ascending)


def _engine(
    queries: Sequence[IncompleteTopK], shape: IncompleteShape, lattice: Lattice, small: bool
) -> IncompleteEngine:
    query = queries[0]
    if query.method == "sorted-lists":
        return SortedLists(shape)
    if query.method == "approximate":
        return LikelyAggregation(shape)
    if query.method == "expected-scores":
        return ExpectedAggregation(shape)
    asks = np.array([lattice.ask(one) for one in queries], np.int64)
    return EarlyAggregation(shape, intervals=query.intervals, asks=asks, small=small)
