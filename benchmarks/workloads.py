"""The streams that everything is measured on: seeded, made once a process, shared by all benchmarks."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from skyband import streams

SEED = 11

Floats = NDArray[np.float64]


@cache
def uniform(n: int) -> Floats:
    """Scores drawn evenly from [0, 1)."""
    return streams.uniform(n, SEED).score


@cache
def trades(n: int) -> Floats:
    """What changed hands in trades of sixty symbols: log-normal sizes, prices that walk."""
    return streams.trades(n, SEED).score


@cache
def uneven(n: int) -> streams.Stream:
    """Uniform scores whose arrivals come in crowds and trickles, 400 a second in the mean."""
    return streams.uneven(n, SEED, per_second=400.0)


def scores_of(stream: str, n: int) -> Floats:
    """The scores of a stream by its name."""
    return {"uniform": uniform, "trades": trades}[stream](n)
