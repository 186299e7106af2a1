"""Rank streams by the sum of their tuples' probabilities: the expected number of tuples in the top k.

A tuple that was dropped because its probability is 0 adds nothing to a sum. If tuples with a small probability are
dropped (`epsilon`), let j of them be in the top k of a world. Without them, j others move up: a stream gains at most j
tuples in the top k and loses at most j. So its sum changes by at most the mean of j, which is the sum of the dropped
tuples' probabilities. The error bound for the probability of one tuple therefore also holds for the sum of a stream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.kernels.stream import Floats, Ints
from skyband.uncertain.kernels.possible_worlds import CLOSE
from skyband.uncertain.single_pass import lowest_first

__all__ = ["LEAST", "NEGLIGIBLE", "Streams", "best_streams", "by_probability", "sums_of"]

# Even the best tuple of a stream may have a tiny probability, and the stream is still an answer if there are fewer than
# k better streams. So the scan uses a lower limit than for tuples, negligible compared to the smallest reported sum.
NEGLIGIBLE = 1e-130
LEAST = 1e-100


class Streams(NamedTuple):
    """The streams of a window's tuples, sorted by position."""

    codes: Ints  # per tuple
    positions: Ints  # per tuple
    labels: Callable[[Ints], pa.Array]  # returns the labels of codes


def best_streams(k: int, order: Ints, tops: Floats, streams: Streams) -> tuple[Ints, Floats]:
    """Return the best k streams: the window index of the tuple that contributes most to each, and the sums.

    `order` has window indices, best first, and `tops` their probabilities. All other tuples have probability 0.
    """
    codes = streams.codes[order]
    sums = sums_of(codes, tops, int(streams.codes.max()) + 1)
    found = np.flatnonzero(sums >= LEAST)
    lasts = np.empty(sums.size, np.int64)
    lasts[streams.codes] = streams.positions  # the last tuple of a stream overwrites the others
    found = found[by_probability(sums[found], lasts[found], lambda: streams.labels(found), k)]
    return order[_foremost(codes, tops, found)], sums[found]


def sums_of(codes: Ints, tops: Floats, streams: int) -> Floats:
    """Return the sum of the probabilities of each stream's tuples."""
    sums: Any = np.bincount(codes, tops, minlength=streams)
    return np.asarray(sums, np.float64)


def by_probability(sums: Floats, lasts: Ints, labels: Callable[[], pa.Array], most: int) -> Ints:
    """Return the indices of the streams with the highest sums. Ties: seen last, then the larger label."""
    order = np.argsort(-lasts, kind="stable")
    if (np.diff(lasts[order]) == 0).any():
        ranks = np.empty(lasts.size, np.int64)
        ranks[pc.sort_indices(labels()).to_numpy()] = np.arange(lasts.size)
        order = np.lexsort([-ranks, -lasts])
    found: Ints = order[lowest_first(-sums[order], most)]
    return found


def _foremost(codes: Ints, tops: Floats, streams: Ints) -> Ints:
    """Return the row of each stream's most probable tuple; ties are broken by the better tuple. Rows are best first."""
    place = np.full(int(codes.max(initial=-1)) + 1, -1)
    place[streams] = np.arange(streams.size)
    rows = np.flatnonzero(place[codes] >= 0)
    mine = place[codes[rows]]
    highest = np.zeros(streams.size)
    np.maximum.at(highest, mine, tops[rows])
    high = np.flatnonzero(tops[rows] >= highest[mine] * (1 - CLOSE))[
        ::-1
    ]  # the best tuple is written last and overwrites the others
    found = np.empty(streams.size, np.int64)
    found[mine[high]] = rows[high]
    return found
