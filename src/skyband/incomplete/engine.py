"""The protocol of engines over incomplete streams, with queries and answers as numbers and flat arrays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np

from skyband.incomplete.kernels.attributes import Scoring
from skyband.incomplete.kernels.instances import InstanceAnswers
from skyband.kernels.stream import Bools, Floats, Ints

__all__ = [
    "IncompleteEngine",
    "IncompleteShape",
    "ObjectAnswers",
    "from_end_on",
    "joined",
    "of_ask",
    "room_for",
    "with_ends",
    "written",
]

_ROOM = 1 << 14  # answer rows per buffer
_FEW = 256
_NONE = np.empty(0, np.int64)


class ObjectAnswers(NamedTuple):
    """Windows by their end, and their rows, best first. `best` and `sure` are empty unless the query has intervals."""

    asks: Ints  # the query of each window, if several share an engine
    ends: Ints
    counts: Ints
    objects: Ints
    scores: Floats
    lasts: Ints  # the position of each object's newest tuple
    best: Floats
    sure: Ints
    exact: Ints  # whether a score lacks no tuple; empty for exact methods
    groups: Ints = _NONE  # the group of each window; empty without groups


def room_for(
    k: int, intervals: bool, *, least: int = 0, asks: int = 1, lossy: bool = False, few: bool = False
) -> InstanceAnswers:
    """Return an output buffer for some answers, with at least `least` rows.

    It does not grow with k, only with the objects that there are: an answer may have far fewer than k of them. With
    `few`, it is small.
    """
    room = _FEW if few else _ROOM
    windows = max(asks, room // k)
    rows = max(min(windows * k, room), least)
    more = rows if intervals else 0
    return InstanceAnswers(
        np.empty(windows, np.int64),
        np.empty(windows, np.int64),
        np.empty(windows, np.int64),
        np.empty(rows, np.int64),
        np.empty(rows),
        np.empty(rows, np.int64),
        np.empty(more),
        np.empty(more, np.int64),
        np.empty(rows if lossy else 0, np.int64),
        np.zeros(2, np.int64),
    )


def written(found: InstanceAnswers) -> ObjectAnswers:
    """Return a copy of the answers in the buffer, and clear it."""
    windows, rows = (int(number) for number in found.cursor)
    more = rows if found.sure.size else 0
    found.cursor[:] = 0
    return ObjectAnswers(
        found.asks[:windows].copy(),
        found.ends[:windows].copy(),
        found.counts[:windows].copy(),
        found.objects[:rows].copy(),
        found.scores[:rows].copy(),
        found.lasts[:rows].copy(),
        found.best[:more].copy(),
        found.sure[:more].copy(),
        found.exact[:rows].copy(),
    )


def joined(parts: Iterable[ObjectAnswers]) -> ObjectAnswers:
    """Concatenate answers."""
    whole, real = np.empty(0, np.int64), np.empty(0)
    nothing = ObjectAnswers(whole, whole, whole, whole, real, whole, real, whole, whole)
    return ObjectAnswers(*map(np.concatenate, zip(nothing, *parts, strict=True)))


def from_end_on(found: ObjectAnswers, end: int) -> ObjectAnswers:
    """Return the answers of windows that end at or after `end`."""
    return _only(found, found.ends >= end)


def of_ask(found: ObjectAnswers, ask: int) -> ObjectAnswers:
    """Return the answers of one of the queries that share an engine."""
    return _only(found, found.asks == ask)


def with_ends(found: ObjectAnswers, ends: Ints, exist: Bools) -> ObjectAnswers:
    """Return the answers with other ends, of the windows that exist."""
    found = found._replace(ends=ends)
    return found if exist.all() else _only(found, exist)


def _only(found: ObjectAnswers, windows: Bools) -> ObjectAnswers:
    rows = np.repeat(windows, found.counts)
    return ObjectAnswers(
        found.asks[windows],
        found.ends[windows],
        found.counts[windows],
        found.objects[rows],
        found.scores[rows],
        found.lasts[rows],
        found.best[rows] if found.best.size else found.best,
        found.sure[rows] if found.sure.size else found.sure,
        found.exact[rows] if found.exact.size else found.exact,
        found.groups[windows] if found.groups.size else found.groups,
    )


class IncompleteShape(NamedTuple):
    """A query in the form of the engines: windows ``[end - size, end)`` at every ``end = origin + i * every``."""

    k: int
    size: int
    every: int
    origin: int
    d: int  # number of streams; a tuple's stream is 0..d-1
    scoring: Scoring
    lows: Floats  # per stream: lower bound of values; also the value of an object without a tuple in the stream
    highs: Floats
    occurrences: int  # maximum number of valid tuples of an object in a stream
    once: bool = False  # a stream reports an object at most once, in all windows together
    ties: bool = False  # also all objects with the score of the k-th


class IncompleteEngine(Protocol):
    """Rank the objects of admitted tuples."""

    @property
    def items(self) -> int:
        """Number of items held."""

    @property
    def repeated(self) -> int:
        """Number of tuples dropped because their stream had reported the object, although it was declared not to."""

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
