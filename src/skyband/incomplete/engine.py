"""The protocol of engines over incomplete streams, with queries and answers as numbers and flat arrays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np

from skyband.incomplete.kernels.instances import InstanceAnswers
from skyband.kernels.stream import Floats, Ints

__all__ = ["IncompleteEngine", "IncompleteShape", "ObjectAnswers", "from_end_on", "joined", "room_for", "written"]

_ROOM = 1 << 14  # answer rows per buffer


class ObjectAnswers(NamedTuple):
    """Windows by their end, and their rows, best first. `best` and `sure` are empty unless the query has intervals."""

    ends: Ints
    counts: Ints
    objects: Ints
    scores: Floats
    lasts: Ints  # the position of each object's newest tuple
    best: Floats
    sure: Ints


def room_for(k: int, intervals: bool) -> InstanceAnswers:
    """Return an output buffer for at least one answer."""
    windows = max(1, _ROOM // k)
    rows = windows * k
    more = rows if intervals else 0
    return InstanceAnswers(
        np.empty(windows, np.int64),
        np.empty(windows, np.int64),
        np.empty(rows, np.int64),
        np.empty(rows),
        np.empty(rows, np.int64),
        np.empty(more),
        np.empty(more, np.int64),
        np.zeros(2, np.int64),
    )


def written(found: InstanceAnswers) -> ObjectAnswers:
    """Return a copy of the answers in the buffer, and clear it."""
    windows, rows = (int(number) for number in found.cursor)
    more = rows if found.sure.size else 0
    found.cursor[:] = 0
    return ObjectAnswers(
        found.ends[:windows].copy(),
        found.counts[:windows].copy(),
        found.objects[:rows].copy(),
        found.scores[:rows].copy(),
        found.lasts[:rows].copy(),
        found.best[:more].copy(),
        found.sure[:more].copy(),
    )


def joined(parts: Iterable[ObjectAnswers]) -> ObjectAnswers:
    """Concatenate answers."""
    whole, real = np.empty(0, np.int64), np.empty(0)
    nothing = ObjectAnswers(whole, whole, whole, real, whole, real, whole)
    return ObjectAnswers(*map(np.concatenate, zip(nothing, *parts, strict=True)))


def from_end_on(found: ObjectAnswers, end: int) -> ObjectAnswers:
    """Return the answers of windows that end at or after `end`."""
    windows = found.ends >= end
    rows = np.repeat(windows, found.counts)
    return ObjectAnswers(
        found.ends[windows],
        found.counts[windows],
        found.objects[rows],
        found.scores[rows],
        found.lasts[rows],
        found.best[rows] if found.best.size else found.best,
        found.sure[rows] if found.sure.size else found.sure,
    )


class IncompleteShape(NamedTuple):
    """A query in the form of the engines: windows ``[end - size, end)`` at every ``end = origin + i * every``."""

    k: int
    size: int
    every: int
    origin: int
    d: int  # number of streams; a tuple's stream is 0..d-1
    weights: Floats  # per stream; ones if the aggregate has no weights
    aggregate: int  # SUM, AVG, MIN or MAX of skyband.incomplete.kernels.attributes
    low: float  # lower bound of values; also the value of an object in a stream without a tuple of it
    high: float
    occurrences: int  # maximum number of valid tuples of an object in a stream


class IncompleteEngine(Protocol):
    """Rank the objects of admitted tuples."""

    @property
    def items(self) -> int:
        """Number of items held."""

    def advance(
        self, positions: Ints, objects: Ints, streams: Ints, values: Floats, hashes: Ints, clock: int | None
    ) -> ObjectAnswers:
        """Process tuples in stream order and answer every window that ends at or before the last one, or `clock`.

        `hashes` are hashes of the objects. Only engines with sketches need them.
        """

    def objects_in_use(self) -> Ints:
        """Return the keys of the objects that the engine holds."""

    def metrics(self) -> dict[str, int]:
        """Return counters of the work done."""

    def state(self) -> dict[str, Any]:
        """Return the state for `load`."""

    def load(self, state: dict[str, Any]) -> None:
        """Restore the state that `state` returned."""
