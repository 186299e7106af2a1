"""Seeded random streams for examples, tests and benchmarks.

The same arguments give the same stream, and a longer stream begins with the shorter one. Positions are int64
microseconds that never decrease. A `Stream` unpacks into the columns for `skyband.replay`.

>>> import skyband as sb
>>> from skyband import streams
>>> query = sb.TopK(k=1, size="1 second")
>>> sb.replay(query, *streams.uniform(5_000, seed=1))["window_end"].unique().to_pylist()
[1000000, 2000000, 3000000, 4000000, 5000000]
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skyband.errors import InvalidInputError
from skyband.kernels.correlated import draw_objects

__all__ = ["OPENING", "Stream", "Trades", "Tuples", "correlated", "decreasing", "trades", "trend", "uneven", "uniform"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: The default start of `trades`: 2 January 2024, 14:30 UTC, in microseconds.
OPENING = 1_704_205_800_000_000

_NAMES = (
    "VELO KIRA NUMA TARO LUMI SORA BEXA MIDO RAVI ZENO PIKO HALO DURA FENA GALO WIRA JUNO CATO ORIN YARA "
    "TELA MOKA SIVO NERA LARO BIMA KUVA RIXO DELA FARO GINO HUMA JAVI KOLE LIRA MAVO NIKO OPAL PAVA QUIN "
    "RUNE SELA TIMO ULMA VARO WENA XELO YUMI ZARA BORA CELO DIMA ELVA FIRO GAMA HIRO ISLA JORA KELO LUNA"
)
_PER_SECOND = 400
_BURST = 0.15  # the ratio of gaps inside a burst to gaps outside


class Stream(NamedTuple):
    """Positions and scores, one entry per object."""

    position: Ints
    score: Floats


class Trades(NamedTuple):
    """Trades in order of time, one entry per trade in each column."""

    position: Ints  # microseconds since 1970, on whole milliseconds
    trade_id: Ints
    symbol: NDArray[np.str_]
    price: Floats  # two decimals
    size: Ints  # shares, at least 1
    score: Floats  # price * size: the turnover


class Tuples(NamedTuple):
    """The tuples that several streams report, one entry per tuple, for `skyband.incomplete`."""

    objects: Ints
    streams: Ints  # 0, 1, …
    values: Floats


def trades(n: int, seed: int = 0, *, start: int = OPENING) -> Trades:
    """Trades of sixty fictional symbols, about 400 a second, with bursts of many trades in one millisecond.

    A few symbols have most of the trades. Each price is a random walk from a different level. Sizes are log-normal, so
    that some trades are hundreds of times larger than the typical one.

    >>> from skyband import streams
    >>> some = streams.trades(3, seed=7)
    >>> some.trade_id.tolist(), len(some.symbol), bool((some.score == some.price * some.size).all())
    ([0, 1, 2], 3, True)
    """
    n = _checked("n", n, 0)
    arrival, burst, length, choice, walk, amount = _generators(seed, 6)
    # A burst begins at one trade in two thousand and lasts for a few hundred.
    begins = np.flatnonzero(burst.random(n) < 1 / 2000)
    ends = np.minimum(begins + length.geometric(1 / 200, begins.size), n)
    running = np.zeros(n + 1, np.int64)
    np.add.at(running, begins, 1)
    np.add.at(running, ends, -1)
    in_burst = np.cumsum(running[:n]) > 0
    gaps = arrival.exponential(1.09e6 / _PER_SECOND, n) * np.where(in_burst, _BURST, 1.0)
    milliseconds = np.cumsum(gaps).astype(np.int64) // 1000

    symbols = np.array(_NAMES.split())
    popularity = 1 / np.arange(1, symbols.size + 1) ** 0.8
    cumulative = np.cumsum(popularity) / popularity.sum()
    code = np.minimum(np.searchsorted(cumulative, choice.random(n), side="right"), symbols.size - 1)
    level = 4.0 + 0.7 * np.random.default_rng(2024).standard_normal(symbols.size)
    price = np.maximum(0.01, np.round(np.exp(level[code] + _walks(code, 4e-4 * walk.standard_normal(n))), 2))
    size = np.maximum(1, np.round(np.exp(4.0 + 1.3 * amount.standard_normal(n)))).astype(np.int64)
    return Trades(
        position=start + milliseconds * 1000,
        trade_id=np.arange(n, dtype=np.int64),
        symbol=symbols[code],
        price=price,
        size=size,
        score=price * size,
    )


def uniform(n: int, seed: int = 0, *, gap: int = 1_000) -> Stream:
    """Independent scores, uniform in [0, 1), with an object every `gap` microseconds.

    >>> from skyband import streams
    >>> streams.uniform(4, seed=3).position.tolist()
    [0, 1000, 2000, 3000]
    """
    n = _checked("n", n, 0)
    (draw,) = _generators(seed, 1)
    return Stream(_every(n, gap), draw.random(n))


def trend(n: int, seed: int = 0, *, period: int = 10_000, gap: int = 1_000) -> Stream:
    """Scores that follow a sine with a little noise; `period` is the number of objects in a wave.

    While scores rise, every object beats the older ones and few candidates remain. While they fall, nearly every object
    is a candidate. A period about as long as the window covers both cases.

    >>> from skyband import streams
    >>> wave = streams.trend(1_000, seed=3, period=1_000)
    >>> int(wave.score[:500].mean() * 10), int(wave.score[500:].mean() * 10)
    (6, -6)
    """
    n, period = _checked("n", n, 0), _checked("period", period, 1)
    (draw,) = _generators(seed, 1)
    wave = np.sin(2 * np.pi / period * (np.arange(n) % period))
    return Stream(_every(n, gap), wave + 0.01 * draw.standard_normal(n))


def decreasing(n: int, *, gap: int = 1_000) -> Stream:
    """Scores n, n - 1, …, 1: the worst case, because no object is ever beaten by a newer one.

    >>> from skyband import streams
    >>> streams.decreasing(4).score.tolist()
    [4.0, 3.0, 2.0, 1.0]
    """
    n = _checked("n", n, 0)
    return Stream(_every(n, gap), np.arange(n, 0, -1, dtype=np.float64))


def uneven(n: int, seed: int = 0, *, per_second: float = 1_000.0) -> Stream:
    """Uniform scores with uneven arrivals: high and low rates, and occasional gaps of some seconds.

    `per_second` is the mean rate between the gaps.

    >>> from skyband import streams
    >>> arrivals = streams.uneven(100_000, seed=3)
    >>> per_second = np.bincount(arrivals.position // 1_000_000)
    >>> bool(per_second.max() > 5 * per_second.mean()), bool((per_second == 0).any())
    (True, True)
    """
    n = _checked("n", n, 0)
    if not per_second > 0:
        raise InvalidInputError(f"per_second must be greater than 0, got {per_second!r}.")
    score, arrival, pace, silence, quiet = _generators(seed, 5)
    block = 256  # objects with the same rate
    paces = np.exp(1.2 * pace.standard_normal(n // block + 1) - 0.72)  # 0.72: the mean stays 1
    gaps = arrival.exponential(1e6 / per_second, n) * np.repeat(paces, block)[:n]
    silences = np.flatnonzero(silence.random(n) < 1 / 20_000)
    gaps[silences] += quiet.uniform(2e6, 20e6, silences.size)
    return Stream(np.cumsum(gaps).astype(np.int64), score.random(n))


def correlated(
    n: int, streams: int = 3, rho: float = 0.5, *, recent: int = 100, occurrences: int = 1, seed: int = 0
) -> Tuples:
    """Return n tuples of several streams that have some objects in common; each tuple's stream is random.

    With probability `rho`, a stream picks one of the last `recent` objects of the other streams. If it has already
    reported that object `occurrences` times, and with probability ``1 - rho``, it reports a new object. So `rho`
    controls how many objects the streams share, and the share of known objects is below `rho`. Values are uniform in
    [0, 1). Objects are numbered in order of their first tuple.

    >>> from skyband import streams
    >>> some = streams.correlated(10_000, 2, 0.2, seed=3)
    >>> round(1 - np.unique(some.objects).size / 10_000, 2)
    0.15
    """
    n, streams, recent = _checked("n", n, 0), _checked("streams", streams, 1), _checked("recent", recent, 1)
    if not 0 <= rho <= 1:
        raise InvalidInputError(f"rho must be between 0 and 1, got {rho!r}. It is a probability.")
    occurrences = _checked("occurrences", occurrences, 1)
    which, coin, choice, value = _generators(seed, 4)
    stream = which.integers(0, streams, n)
    again = coin.random(n) < rho
    objects = draw_objects(stream, again, choice.random(n), streams, recent, min(occurrences, max(n, 1)))
    return Tuples(objects, stream, value.random(n))


def _checked(name: str, value: Any, least: int) -> int:
    if not hasattr(value, "__index__") or isinstance(value, bool) or operator.index(value) < least:
        raise InvalidInputError(f"{name} must be an integer of at least {least}, got {value!r}.")
    return operator.index(value)


def _generators(seed: Any, count: int) -> list[np.random.Generator]:
    """Return an independent generator for each column, so that a longer stream begins with the shorter one."""
    return [np.random.default_rng(child) for child in np.random.SeedSequence(_checked("seed", seed, 0)).spawn(count)]


def _every(n: int, gap: Any) -> Ints:
    return np.arange(n, dtype=np.int64) * _checked("gap", gap, 0)


def _walks(code: Ints, steps: Floats) -> Floats:
    """Return the cumulative sum of the steps of each code, in stream order."""
    order = np.argsort(code, kind="stable")
    begins = np.flatnonzero(np.diff(code[order], prepend=-1))
    walked = np.empty_like(steps)
    for mine in np.split(order, begins[1:]):
        walked[mine] = np.cumsum(steps[mine])
    return walked
