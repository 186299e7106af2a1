"""The streams that everything is measured on: seeded, made once a process, shared by all benchmarks."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from skyband import streams

SEED = 11
# Real streams, where they are: as in the tests.
DATA = Path(os.environ.get("SKYBAND_TEST_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))

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


@cache
def decreasing(n: int) -> Floats:
    """Scores that only fall: the worst case for who keeps candidates."""
    return streams.decreasing(n).score


@cache
def time_r(n: int) -> Floats:
    """Scores that rise and fall with time, sin(π t / 10⁶): the TIME^R of the SAP paper."""
    scores: Floats = np.sin(np.pi * np.arange(1, n + 1) / 1e6)
    return scores


@cache
def stock(n: int) -> Floats:
    """Price times size of real trades where there are some, of seeded ones elsewhere."""
    return _real("trades_us_equity_20131008_09", lambda t: _column(t, "price") * _column(t, "size"), n, trades)


@cache
def trip(n: int) -> Floats:
    """Miles an hour of real taxi trips in the order they begin; of a seeded walk elsewhere."""

    def speed(table: Any) -> Floats:
        hours = (_column(table, "dropoff_ts") - _column(table, "ts")) / 3.6e9
        return np.where(hours > 0, _column(table, "trip_distance") / np.maximum(hours, 1e-3), 0.0)

    return _real("trips_nyc_green_taxi_2023q1", speed, n, _daily)


@cache
def air(n: int) -> Floats:
    """Fine dust at twelve places, hour by hour for four years: seasons, days and weather; a seeded wave elsewhere."""
    return _real("airquality_beijing_2013_2017", lambda t: _column(t, "pm25"), n, _daily)


def _daily(n: int) -> Floats:
    return streams.trend(n, SEED, period=50_000).score


def _real(name: str, score: Callable[[Any], Floats], n: int, seeded: Callable[[int], Floats]) -> Floats:
    """The scores of a data set, again and again until there are n of them."""
    path = DATA / f"{name}.parquet"
    if not path.exists():
        return seeded(n)
    found = np.nan_to_num(score(pq.read_table(path)), nan=0.0)
    return np.resize(found, n)


def _column(table: Any, name: str) -> Floats:
    column = table[name].combine_chunks()
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    values: Floats = column.to_numpy(zero_copy_only=False).astype(np.float64)
    return values


def scores_of(stream: str, n: int) -> Floats:
    """The scores of a stream by its name."""
    return {
        "air": air,
        "decreasing": decreasing,
        "stock": stock,
        "time-r": time_r,
        "time-u": uniform,
        "trades": trades,
        "trip": trip,
        "uniform": uniform,
    }[stream](n)
