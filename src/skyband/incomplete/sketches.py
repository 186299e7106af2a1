"""What the approximate method knows of streams it does not keep: where else an object may turn up, and how often."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from skyband.errors import InvalidInputError
from skyband.incomplete.kernels import sketches as kernels
from skyband.incomplete.kernels.sketches import mixed
from skyband.kernels.stream import Floats, Ints

__all__ = ["AmsSketches", "Sketches"]

MOST_TABLED = 10  # streams for which the chances after every set of streams fit into a table
MOST_CONDITIONS = 8  # streams that a chance is conditioned on where there is no table


class Sketches:
    """In which streams an object is likely to be, given those where it was seen: an FM sketch a stream.

    A sketch has `bitmaps` bitmaps (a power of two) of `levels` bits, each kept as the position at which it was last
    set: 8 bytes a bit, whatever the window holds. The number of distinct objects of any union of streams in any
    window that ends now is known with a standard error of ``0.65 / sqrt(bitmaps)`` of it, and much better while there
    are fewer objects than bitmaps. `error` has the exact figure.

    Objects are told apart by a whole number each, mixed here; equal numbers in two streams are one object.

    The size of a single stream is estimated as well, even where it is known: the estimates of a stream and of a union
    with it err to the same side, and much of that cancels out in a chance. With 128 bitmaps and two streams of 500, the
    chance of 0.5 has a standard error of 0.04; of 0.07 if their exact sizes are used.

    Examples
    --------
    >>> import numpy as np
    >>> from skyband.incomplete.sketches import Sketches
    >>> seen = Sketches(2)
    >>> seen.observe(np.repeat([0, 1], 200), np.r_[0:200, 100:300], np.arange(400))
    >>> bool(abs(seen.distinct(start=0) - 300) < 3 * seen.error(300))
    True
    >>> seen.chances(start=0).shape  # after none, the first, the second, both streams: in each of the two
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
        """Take in tuples: the number of the stream, a whole number for the object, the position."""
        kernels.set_bits(self._cells, streams, mixed(hashes), positions)
        self._start = None

    def distinct(self, start: int, streams: Iterable[int] | None = None) -> float:
        """How many distinct objects the named streams (all of them by default) together had since `start`."""
        chosen = self._cells if streams is None else self._cells[sorted(set(streams))]
        newest = chosen.max(axis=0, initial=kernels.NEVER)
        return kernels.likely_count((newest < start).sum(axis=1), newest.shape[1])

    def error(self, count: float) -> float:
        """The standard error of `distinct` where there are so many objects."""
        return kernels.likely_error(float(count), *self._cells.shape[1:])

    def chances(self, start: int) -> Floats:
        """How likely an object is in each stream since `start`: row by the bit mask of the streams it was seen in.

        Row 0 is for an object of which nothing is known. For up to ten streams; beyond, see `chances_given`.
        """
        d = self._cells.shape[0]
        if d > MOST_TABLED:
            raise InvalidInputError(
                f"chances() supports at most {MOST_TABLED} streams: a table for {d} streams would have 2**{d} rows. "
                "Use chances_given() for the sets of streams that occur."
            )
        return self._table(tuple(range(d)), start)

    def pairs(self, starts: Ints) -> Floats:
        """How likely an object of one stream is in another one, in the mean over all pairs, since each of `starts`."""
        return kernels.pair_chances(self._cells, starts)

    def chances_given(self, seen: Iterable[int], start: int) -> Floats:
        """How likely an object is in each stream since `start`, given the streams it was seen in; any number of them.

        What was computed once is kept until tuples come or the start moves.
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
        """The memory of all sketches: 8 times bitmaps times levels, a stream."""
        return self._cells.nbytes

    def state(self) -> dict[str, Any]:
        """Everything that `load` needs to go on from here. Not changed by later calls."""
        return {"cells": self._cells.copy()}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` returned."""
        self._cells = np.array(state["cells"])
        self._start = None

    def _table(self, streams: tuple[int, ...], start: int) -> Floats:
        """The chances among some streams, computed or remembered."""
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
    """How often an object occurs in a stream once it does: an AMS sketch a stream and pane of the window.

    A window of `size` is cut into `panes` of equal length, each with `rows` times `width` counters that every tuple
    adds its object's sign to. The counters of the panes of a window, added up, are those of the window; squared and
    summed over a row they give the self-join size F2, the sum of the squared counts of its objects, with a standard
    error of ``sqrt(2 / width)`` of it, and the median of the rows is taken. A pane that the window cuts counts in
    whole, so that up to one pane more than the window is looked at.

    Examples
    --------
    >>> import numpy as np
    >>> from skyband.incomplete.sketches import AmsSketches
    >>> seen = AmsSketches(1, size=100)
    >>> seen.observe(np.zeros(90, np.int64), np.repeat(np.arange(30), 3), np.arange(90))  # everyone three times
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
        """Take in tuples: the number of the stream, a whole number for the object, the position."""
        kernels.add_signs(self._counters, self._tuples, self._panes, self._pane, streams, mixed(hashes), positions)

    def reoccurrences(self, start: int) -> Floats:
        """For each stream F2 / F1 since `start`: how many tuples the object of a tuple has there in the mean.

        It is the mean count of an object weighed by that count: pick any tuple, and so many does its object have, the
        tuple itself among them. An object seen c times is to be expected ``max(0, F2 / F1 - c)`` times more; a stream
        in which nobody comes twice has 1, as has one without tuples.
        """
        sizes, counts = kernels.self_joins(self._counters, self._tuples, self._panes, start // self._pane)
        # No counts are flatter than one tuple an object, none steeper than one object alone.
        return np.clip(sizes / np.maximum(counts, 1.0), 1.0, np.maximum(counts, 1.0))

    @property
    def bytes(self) -> int:
        """The memory of all sketches: 8 times (rows times width, and a count) a stream, a pane and one pane more."""
        return self._counters.nbytes + self._tuples.nbytes + self._panes.nbytes

    def state(self) -> dict[str, Any]:
        """Everything that `load` needs to go on from here. Not changed by later calls."""
        return {
            "pane": self._pane,
            "counters": self._counters.copy(),
            "tuples": self._tuples.copy(),
            "panes": self._panes.copy(),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` returned."""
        self._pane = int(state["pane"])
        self._counters, self._tuples, self._panes = (np.array(state[name]) for name in ("counters", "tuples", "panes"))
