"""Sketches of the approximate method: in which other streams an object appears, and how often."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from skyband.errors import InvalidInputError
from skyband.incomplete.kernels import sketches as kernels
from skyband.incomplete.kernels.sketches import mixed
from skyband.kernels.stream import Floats, Ints

__all__ = ["AmsSketches", "Sketches"]

MOST_TABLED = 10  # maximum number of streams for a table of all sets of streams
MOST_CONDITIONS = 8  # maximum number of streams in a condition if there is no such table


class Sketches:
    """Estimate in which streams an object is, given those where it was seen, from one FM sketch per stream.

    A sketch has `bitmaps` bitmaps (a power of two) of `levels` bits. Each bit is stored as the position at which it was
    last set: 8 bytes per bit, for any window. The number of distinct objects of any union of streams, in any window
    that ends now, is estimated with a relative standard error of ``0.65 / sqrt(bitmaps)``, and much less while there
    are fewer objects than bitmaps. `error` returns the exact value.

    Objects are identified by integers, which are hashed here. Equal integers in two streams are one object.

    The size of a single stream is estimated even if it is known: the errors of a stream and of a union with it are
    correlated, and mostly cancel in a probability. With 128 bitmaps and two streams of 500 objects, a probability of
    0.5 has a standard error of 0.04, but 0.07 with the exact sizes.

    Examples
    --------
    >>> import numpy as np
    >>> from skyband.incomplete.sketches import Sketches
    >>> seen = Sketches(2)
    >>> seen.observe(np.repeat([0, 1], 200), np.r_[0:200, 100:300], np.arange(400))
    >>> bool(abs(seen.distinct(start=0) - 300) < 3 * seen.error(300))
    True
    >>> seen.chances(start=0).shape  # rows: seen in no stream, the first, the second, both
    (4, 2)
    """

    def __init__(self, streams: int, *, bitmaps: int = 128, levels: int = 20) -> None:
        if streams < 1 or levels < 1 or bitmaps < 1 or bitmaps & (bitmaps - 1):
            raise InvalidInputError(
                f"streams={streams} and levels={levels} must be at least 1, and bitmaps={bitmaps} must be a power of "
                "two, because bitmaps are selected by bits of a hash."
            )
        self._cells: Ints = np.full((streams, levels, bitmaps), kernels.NEVER)
        self._start: int | None = None
        self._known: dict[tuple[int, ...], Floats] = {}

    def observe(self, streams: Ints, hashes: Ints, positions: Ints) -> None:
        """Record tuples: stream number, integer of the object, position."""
        kernels.set_bits(self._cells, streams, mixed(hashes), positions)
        self._start = None

    def distinct(self, start: int, streams: Iterable[int] | None = None) -> float:
        """Return the estimated number of distinct objects in the given streams (default: all) since `start`."""
        chosen = self._cells if streams is None else self._cells[sorted(set(streams))]
        newest = chosen.max(axis=0, initial=kernels.NEVER)
        return kernels.likely_count((newest < start).sum(axis=1), newest.shape[1])

    def error(self, count: float) -> float:
        """Return the standard error of `distinct` for `count` objects."""
        return kernels.likely_error(float(count), *self._cells.shape[1:])

    def chances(self, start: int) -> Floats:
        """Return the probability that an object is in each stream since `start`, per mask of streams it was seen in.

        Row 0 is for an object that was not seen in any stream. Supports up to ten streams; see `chances_given` for
        more.
        """
        d = self._cells.shape[0]
        if d > MOST_TABLED:
            raise InvalidInputError(
                f"chances() supports at most {MOST_TABLED} streams: a table for {d} streams would have 2**{d} rows. "
                "Use chances_given() for the sets of streams that occur."
            )
        return self._table(tuple(range(d)), start)

    def pairs(self, starts: Ints) -> Floats:
        """Return, per start, the probability that an object of one stream is in another, averaged over all pairs."""
        return kernels.pair_chances(self._cells, starts)

    def chances_given(self, seen: Iterable[int], start: int) -> Floats:
        """Return the probability that an object is in each stream since `start`, given the streams it was seen in.

        Supports any number of streams. Results are cached until tuples are recorded or `start` changes.
        """
        d = self._cells.shape[0]
        given = tuple(sorted(set(seen)))
        if d <= MOST_TABLED:
            row: Floats = self.chances(start)[sum(1 << stream for stream in given)]
            return row
        found = np.ones(d)
        conditions = given[:MOST_CONDITIONS]
        for stream in sorted(set(range(d)).difference(given)):
            found[stream] = self._table((*conditions, stream), start)[(1 << len(conditions)) - 1, len(conditions)]
        return found

    @property
    def bytes(self) -> int:
        """Size of all sketches in bytes: ``8 * bitmaps * levels`` per stream."""
        return self._cells.nbytes

    def state(self) -> dict[str, Any]:
        """Return a copy of the state for `load`."""
        return {"cells": self._cells.copy()}

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state` returned."""
        self._cells = np.array(state["cells"])
        self._start = None

    def _table(self, streams: tuple[int, ...], start: int) -> Floats:
        """Return the probabilities among some streams, from the cache if possible."""
        if start != self._start:
            self._start = start
            self._known.clear()
        if streams not in self._known:
            cells = self._cells[list(streams)]
            d, levels, bitmaps = cells.shape
            unions = kernels.union_counts(cells, start)
            common = kernels.intersection_counts(unions, d)
            self._known[streams] = kernels.conditional_chances(unions, common, d, levels, bitmaps)
        return self._known[streams]


class AmsSketches:
    """Estimate how often an object repeats in a stream, from one AMS sketch per stream and pane of the window.

    A window of `size` is divided into `panes` of equal length, each with ``rows * width`` counters. Every tuple adds
    the sign of its object to one counter per row. The counters of a window are the sums over its panes. The sum of the
    squared counters of a row estimates the self-join size F2, the sum of the squared counts of the objects, with a
    relative standard error of ``sqrt(2 / width)``. The result is the median of the rows. A pane that is partly in the
    window counts completely, so the estimate covers up to one pane more than the window.

    Examples
    --------
    >>> import numpy as np
    >>> from skyband.incomplete.sketches import AmsSketches
    >>> seen = AmsSketches(1, size=100)
    >>> seen.observe(np.zeros(90, np.int64), np.repeat(np.arange(30), 3), np.arange(90))  # each object three times
    >>> bool(2 < seen.reoccurrences(start=0)[0] < 4)
    True
    """

    def __init__(self, streams: int, *, size: int, panes: int = 8, rows: int = 3, width: int = 64) -> None:
        if min(streams, size, panes, rows) < 1 or rows > 4 or not 1 <= width <= 2**15 or width & (width - 1):
            raise InvalidInputError(
                f"streams={streams}, size={size} and panes={panes} must be at least 1, rows={rows} must be between 1 "
                f"and 4, and width={width} must be a power of two up to {2**15}: a row uses 16 bits of a 64-bit hash."
            )
        self._pane = -(-size // panes)
        self._counters: Ints = np.zeros((panes + 1, streams, rows, width), np.int64)
        self._tuples: Ints = np.zeros((panes + 1, streams), np.int64)
        self._panes: Ints = np.full(panes + 1, kernels.NEVER)

    def observe(self, streams: Ints, hashes: Ints, positions: Ints) -> None:
        """Record tuples: stream number, integer of the object, position."""
        kernels.add_signs(self._counters, self._tuples, self._panes, self._pane, streams, mixed(hashes), positions)

    def reoccurrences(self, start: int) -> Floats:
        """Return F2 / F1 per stream since `start`: the average number of tuples of the object of a random tuple.

        This is the mean count of an object, weighted by that count. An object seen c times is expected
        ``max(0, F2 / F1 - c)`` more times. The result is 1 for a stream without repetitions or without tuples.
        """
        sizes, counts = kernels.self_joins(self._counters, self._tuples, self._panes, start // self._pane)
        # The minimum is one tuple per object, the maximum is a single object.
        return np.clip(sizes / np.maximum(counts, 1.0), 1.0, np.maximum(counts, 1.0))

    @property
    def bytes(self) -> int:
        """Size of all sketches in bytes: ``8 * (rows * width + 1)`` per stream and pane, for ``panes + 1`` panes."""
        return self._counters.nbytes + self._tuples.nbytes + self._panes.nbytes

    def state(self) -> dict[str, Any]:
        """Return a copy of the state for `load`."""
        return {
            "pane": self._pane,
            "counters": self._counters.copy(),
            "tuples": self._tuples.copy(),
            "panes": self._panes.copy(),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state` returned."""
        self._pane = int(state["pane"])
        self._counters, self._tuples, self._panes = (np.array(state[name]) for name in ("counters", "tuples", "panes"))
