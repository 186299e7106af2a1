"""Ranking whole streams: the sum of its tuples' probabilities is how many of the k best a stream is expected to have.

A tuple that was dropped because it has no chance adds nothing to a sum. Where tuples with a small chance are dropped
(`epsilon`), let j of them be among the k best of a world. Without them, j others move up: a stream gains at most j
tuples among the k best and loses at most j. So its sum changes by at most the mean of j, which is the sum of the
dropped tuples' chances: the bound that holds for one tuple's probability holds for a stream's sum, too.
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

# Of a poor stream even the best tuple may have next to no chance, and still it is an answer if there are fewer than k
# better streams. So the scan goes on further than for tuples, and what it leaves out is nothing against the least sum
# that is told.
NEGLIGIBLE = 1e-130
LEAST = 1e-100


class Streams(NamedTuple):
    """The streams of a window's tuples, which are in the order of their positions."""

    codes: Ints  # per tuple
    positions: Ints  # per tuple
    labels: Callable[[Ints], pa.Array]  # of codes


def best_streams(k: int, order: Ints, tops: Floats, streams: Streams) -> tuple[Ints, Floats]:
    """The best k streams: of each its tuple that contributes most, by its place in the window, and the sum.

    `order` are places in the window, the best first, and `tops` the probabilities there; all other tuples have none.
    """
    codes = streams.codes[order]
    sums = sums_of(codes, tops, int(streams.codes.max()) + 1)
    found = np.flatnonzero(sums >= LEAST)
    lasts = np.empty(sums.size, np.int64)
    lasts[streams.codes] = streams.positions  # of several tuples the last one's stays
    found = found[by_probability(sums[found], lasts[found], lambda: streams.labels(found), k)]
    return order[_foremost(codes, tops, found)], sums[found]


def sums_of(codes: Ints, tops: Floats, streams: int) -> Floats:
    """What the probabilities of each stream's tuples come to."""
    sums: Any = np.bincount(codes, tops, minlength=streams)
    return np.asarray(sums, np.float64)


def by_probability(sums: Floats, lasts: Ints, labels: Callable[[], pa.Array], most: int) -> Ints:
    """Places of the streams with the highest sums; of equal ones the stream seen last, then the larger label, first."""
    order = np.argsort(-lasts, kind="stable")
    if (np.diff(lasts[order]) == 0).any():
        ranks = np.empty(lasts.size, np.int64)
        ranks[pc.sort_indices(labels()).to_numpy()] = np.arange(lasts.size)
        order = np.lexsort([-ranks, -lasts])
    found: Ints = order[lowest_first(-sums[order], most)]
    return found


def _foremost(codes: Ints, tops: Floats, streams: Ints) -> Ints:
    """The row of each stream's tuple with the highest probability, of equal ones the better. Rows come best first."""
    place = np.full(int(codes.max(initial=-1)) + 1, -1)
    place[streams] = np.arange(streams.size)
    rows = np.flatnonzero(place[codes] >= 0)
    mine = place[codes[rows]]
    highest = np.zeros(streams.size)
    np.maximum.at(highest, mine, tops[rows])
    high = np.flatnonzero(tops[rows] >= highest[mine] * (1 - CLOSE))[::-1]  # the best tuple is written last
    found = np.empty(streams.size, np.int64)
    found[mine[high]] = rows[high]
    return found
