"""What the engines over incomplete streams are told of a query, and what they answer: numbers and arrays only."""

from __future__ import annotations

from typing import NamedTuple

from skyband.kernels.stream import Floats

__all__ = ["IncompleteShape"]


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
