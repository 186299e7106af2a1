"""Seeded streams for all benchmarks, generated once per process."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
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
    """Price times size of trades of sixty symbols: log-normal sizes, prices as random walks."""
    return streams.trades(n, SEED).score


@cache
def uneven(n: int) -> streams.Stream:
    """Uniform scores with bursty arrivals, 400 per second on average."""
    return streams.uneven(n, SEED, per_second=400.0)


@cache
def decreasing(n: int) -> Floats:
    """Falling scores: the worst case for algorithms that hold candidates."""
    return streams.decreasing(n).score


@cache
def time_r(n: int, period: int = 2_000_000) -> Floats:
    """Scores that rise and fall with time, by default sin(π t / 10⁶): the TIME^R of the SAP paper."""
    scores: Floats = np.sin(2 * np.pi * np.arange(1, n + 1) / period)
    return scores


class MissingDataError(RuntimeError):
    """A data set that a stream consists of is not in the folder of data sets."""


@cache
def stock(n: int) -> Floats:
    """Price times size of real trades."""
    return _real("trades_us_equity_20131008_09", lambda t: _column(t, "price") * _column(t, "size"), n)


@cache
def trip(n: int) -> Floats:
    """Miles per hour of real taxi trips in the order of their start."""

    def speed(table: Any) -> Floats:
        hours = (_column(table, "dropoff_ts") - _column(table, "ts")) / 3.6e9
        return np.where(hours > 0, _column(table, "trip_distance") / np.maximum(hours, 1e-3), 0.0)

    return _real("trips_nyc_green_taxi_2023q1", speed, n)


@cache
def air(n: int) -> Floats:
    """Hourly fine dust at twelve stations for four years."""
    return _real("airquality_beijing_2013_2017", lambda t: _column(t, "pm25"), n)


@cache
def moving(n: int, targets: int = 1_000) -> Floats:
    """Distance, in miles, of moving objects from a ground station: generated, after the description of GMTI.

    Vehicles (up to 80 mph) and helicopters (up to 200 mph) travel from waypoint to waypoint in a square of 100 miles,
    and are reported in random order, about 100,000 reports in six hours.
    """
    draw = np.random.default_rng(SEED)
    rounds = -(-n // targets)
    hours = 6 * targets / 100_000  # between two reports of a target
    speed = np.where(draw.random(targets) < 0.9, 80.0, 200.0) * draw.random(targets)
    place, goal = 100 * draw.random((2, targets)), 100 * draw.random((2, targets))
    station = np.array([[30.0], [60.0]])
    found = np.empty((rounds, targets))
    for i in range(rounds):
        way = goal - place
        far = np.hypot(*way)
        step = np.minimum(1.0, speed * hours / np.maximum(far, 1e-9))
        place = place + step * way
        arrived = step >= 1
        goal = np.where(arrived, 100 * draw.random((2, targets)), goal)
        found[i] = np.hypot(*(place - station))[draw.permutation(targets)]
    return found.ravel()[:n]


@cache
def sessions(per_second: float = 400.0) -> streams.Stream:
    """Real trades of two regular sessions at their own times, which are compressed to this average rate."""
    table = _table("trades_us_equity_20131008_09")
    times = _column(table, "ts").astype(np.int64)
    day = times % 86_400_000_000
    regular = (day >= 34_200_000_000) & (day < 57_600_000_000)
    times, day = times[regular], day[regular]
    open_for = (times // 86_400_000_000 - times[0] // 86_400_000_000) * 23_400_000_000 + day - 34_200_000_000
    factor = times.size / per_second * 1e6 / (int(open_for[-1]) + 1)
    score = (_column(table, "price") * _column(table, "size"))[regular]
    return streams.Stream((open_for * factor).astype(np.int64), score)


# Streams whose scores change with time, and after how many objects they repeat. Costs on them are means over as many
# objects: the best of several rounds would be the cost of the easiest part. "time-r:N" has a period of N objects.
PERIODS = {"time-r": 2_000_000, "stock": 1_295_699, "trip": 205_059, "air": 420_768}
_FILES = {
    "stock": "trades_us_equity_20131008_09",
    "trip": "trips_nyc_green_taxi_2023q1",
    "air": "airquality_beijing_2013_2017",
}


def period_of(stream: str) -> int | None:
    """After how many objects a stream repeats, or None if its scores do not change with time."""
    name, _, period = stream.partition(":")
    return int(period) if period else PERIODS.get(name)


def available(names: Sequence[str]) -> tuple[str, ...]:
    """The streams that can be read or generated here; print the others."""
    lost = {name: _FILES[name] for name in names if name in _FILES and missing(_FILES[name])}
    for name, file in lost.items():
        print(f"  skipped {name}: no {file}.parquet in {DATA}; set SKYBAND_TEST_DATA")
    return tuple(name for name in names if name not in lost)


def _table(name: str) -> pa.Table:
    path = DATA / f"{name}.parquet"
    if not path.exists():
        raise MissingDataError(f"{path} was not found. Set SKYBAND_TEST_DATA to the folder of the data sets.")
    return pq.read_table(path)


def _real(name: str, score: Callable[[Any], Floats], n: int) -> Floats:
    """The scores of a data set; further rounds of it are varied by about 1 % each, as the papers do."""
    found = np.nan_to_num(score(_table(name)), nan=0.0)
    scores = np.resize(found, n)
    draw = np.random.default_rng(SEED)
    scores[found.size :] *= 1 + 0.01 * draw.standard_normal(max(0, n - found.size))
    return scores


def _column(table: Any, name: str) -> Floats:
    column = table[name].combine_chunks()
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    values: Floats = column.to_numpy(zero_copy_only=False).astype(np.float64)
    return values


class Reports(NamedTuple):
    """Tuples of several streams, values in [0, 1]."""

    objects: NDArray[Any]
    streams: NDArray[Any]
    values: Floats
    names: tuple[Any, ...]  # of the streams
    occurrences: int = 1


@cache
def correlated(n: int, d: int, rho: float, seed: int = SEED) -> Reports:
    """Streams that have some objects in common; values drawn evenly."""
    return Reports(*streams.correlated(n, d, rho, seed=seed), tuple(range(d)))


def missing(*names: str) -> list[str]:
    """Names of the data sets that are missing."""
    return [name for name in names if not (DATA / f"{name}.parquet").exists()]


@cache
def netlog(d: int) -> Reports:
    """Events of a client in the d busiest logs of a network's monitor, counted every five seconds, up to a hundred.

    As in the paper, a log reports a client once: each repetition counts as another client.
    """
    table = pq.read_table(DATA / "netlog_zeek_2018.parquet", columns=["ts", "stream", "client"])
    table = table.set_column(0, "chunk", pc.divide(table["ts"].cast(pa.int64()), 5_000_000))
    counts = table.group_by(["chunk", "stream", "client"]).aggregate([([], "count_all")])
    busiest = counts.group_by("stream").aggregate([([], "count_all")]).sort_by([("count_all", "descending")])
    names = tuple(busiest["stream"].to_pylist()[:d])
    counts = counts.filter(pc.is_in(counts["stream"], pa.array(names)))
    counts = counts.sort_by([(name, "ascending") for name in ("chunk", "stream", "client")])
    values = np.minimum(_column(counts, "count_all"), 100.0) / 100.0
    logs, clients = (_texts(counts, name) for name in ("stream", "client"))
    return Reports(_told_apart(clients, _before(logs, clients)), logs, values, names)


@cache
def flights() -> Reports:
    """Miles of planes leaving three airports, against the longest flight; a plane counts once a day and airport.

    Its second flight of the day from there counts as another plane, as with `netlog`.
    """
    table = _departures()
    days = (_column(table, "ts") // 86_400_000_000).astype(np.int64).astype(str)
    airports, planes = (_texts(table, name) for name in ("origin", "tailnum"))
    planes = _told_apart(planes, days)
    return Reports(
        _told_apart(planes, _before(airports, planes)), airports, _miles(table), tuple(sorted(set(airports.tolist())))
    )


@cache
def flights_again(size: int) -> Reports:
    """The same, with planes as they are: they leave an airport several times in a window, and their miles add up."""
    table = _departures()
    airports, planes = (_texts(table, name) for name in ("origin", "tailnum"))
    codes = _codes(airports, planes)
    order = np.argsort(codes, kind="stable")
    times = 1
    while ((codes[order[times:]] == codes[order[:-times]]) & (order[times:] - order[:-times] < size)).any():
        times += 1
    return Reports(planes, airports, _miles(table), tuple(sorted(set(airports.tolist()))), times)


def _departures() -> pa.Table:
    return pq.read_table(DATA / "flights_nyc_2013.parquet").slice(0, 60_000)


def _miles(table: pa.Table) -> Floats:
    miles = _column(table, "distance_mi")
    shares: Floats = miles / miles.max()
    return shares


def _texts(table: pa.Table, name: str) -> NDArray[np.str_]:
    return np.array(table[name].to_pylist())


def _codes(*columns: NDArray[Any]) -> NDArray[np.int64]:
    """A number for each row, the same where all columns are."""
    codes = np.zeros(columns[0].size, np.int64)
    for column in columns:
        own = np.unique(column, return_inverse=True)[1]
        codes = codes * (int(own.max()) + 1) + own
    return codes


def _before(*columns: NDArray[Any]) -> NDArray[np.str_]:
    """How often the same was there before each row, as text."""
    codes = _codes(*columns)
    order = np.argsort(codes, kind="stable")
    rows = np.arange(codes.size)
    begins = np.maximum.accumulate(np.where(np.diff(codes[order], prepend=-1) != 0, rows, 0))
    found = np.empty(codes.size, np.int64)
    found[order] = rows - begins
    return found.astype(str)


def _told_apart(names: NDArray[np.str_], marks: NDArray[np.str_]) -> NDArray[np.str_]:
    return np.char.add(np.char.add(names, "/"), marks)


def scores_of(stream: str, n: int) -> Floats:
    """The scores of a stream by its name."""
    if stream.startswith("time-r:"):
        return time_r(n, period_of(stream) or n)
    return {
        "air": air,
        "decreasing": decreasing,
        "moving": moving,
        "stock": stock,
        "time-r": time_r,
        "time-u": uniform,
        "trades": trades,
        "trip": trip,
        "uniform": uniform,
    }[stream](n)
