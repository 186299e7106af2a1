"""Engines over incomplete streams: what they are given of a query, and their answers, flat: numbers and arrays only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np

from skyband.incomplete.kernels.instances import InstanceAnswers
from skyband.kernels.stream import Floats, Ints

__all__ = ["IncompleteEngine", "IncompleteShape", "ObjectAnswers", "from_end_on", "joined", "room_for", "written"]

_ROOM = 1 << 14  # rows of answers at a time


class ObjectAnswers(NamedTuple):
    """Windows by their end; their rows best first. The last two columns are empty unless intervals were asked for."""

    ends: Ints
    counts: Ints
    objects: Ints
    scores: Floats
    lasts: Ints  # the position of each object's newest tuple
    best: Floats
    sure: Ints


def room_for(k: int, intervals: bool) -> InstanceAnswers:
    """Somewhere to write answers to, at least one."""
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
    """What has been written, copied; there is room again."""
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
    """Answers one after another."""
    whole, real = np.empty(0, np.int64), np.empty(0)
    nothing = ObjectAnswers(whole, whole, whole, real, whole, real, whole)
    return ObjectAnswers(*map(np.concatenate, zip(nothing, *parts, strict=True)))


def from_end_on(found: ObjectAnswers, end: int) -> ObjectAnswers:
    """The answers of windows that end at or after `end`."""
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
    """A query as engines see it: windows ``[end - size, end)`` at every ``end = origin + i * every``."""

    k: int
    size: int
    every: int
    origin: int
    d: int  # the number of streams; a tuple's stream is 0..d-1
    weights: Floats  # a factor for each stream; ones where the aggregate has no weights
    aggregate: int  # SUM, AVG, MIN or MAX of skyband.incomplete.kernels.attributes
    low: float  # the bounds of a tuple's value; low stands for a stream that has none
    high: float
    occurrences: int  # how many valid tuples an object may have in a stream


class IncompleteEngine(Protocol):
    """Ranks the objects of admitted tuples."""

    @property
    def items(self) -> int:
        """How many items are held."""

    def advance(
        self, positions: Ints, objects: Ints, streams: Ints, values: Floats, hashes: Ints, clock: int | None
    ) -> ObjectAnswers:
        """Take in tuples in stream order; answer every window that ends at or before the last of them, or `clock`.

        `hashes` tell objects apart by their content; only engines that sketch need them.
        """

    def objects_in_use(self) -> Ints:
        """The keys of the objects that something is held of."""

    def metrics(self) -> dict[str, int]:
        """What was done so far."""

    def state(self) -> dict[str, Any]:
        """Everything that `load` needs."""

    def load(self, state: dict[str, Any]) -> None:
        """Go on from what `state` was taken of."""
