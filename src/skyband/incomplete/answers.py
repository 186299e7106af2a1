"""Answers of engines over incomplete streams, flat: windows, and their rows one after another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from skyband.incomplete.kernels.instances import InstanceAnswers
from skyband.kernels.stream import Floats, Ints

__all__ = ["ObjectAnswers", "from_end_on", "joined", "room_for", "written"]

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
