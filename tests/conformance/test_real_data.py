"""Real streams, with their ties in time, their nights without a row and their noise.

Slices are compared with a brute force in NumPy, longer stretches between the engines.

The files are looked for in the folder that SKYBAND_TEST_DATA names.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import skyband as sb
from tests.drive import ALGORITHMS

FOLDER = Path(os.environ.get("SKYBAND_TEST_DATA", Path(__file__).parents[3] / "shared" / "data"))
SECOND = 1_000_000

# Whole windows, or a counter per object and window, make these slow on a million rows.
SLOW = {"naive", "kskyband", "sma", "pretopk"}


@cache
def columns(file, *names):
    path = FOLDER / f"{file}.parquet"
    if not path.exists():
        pytest.skip(f"{path} is not there; set SKYBAND_TEST_DATA to the folder that holds it")
    table = pq.read_table(path, columns=["ts", *names])
    ts = table["ts"].cast("timestamp[us]").to_numpy().astype(np.int64)
    return ts, *(table[name].to_numpy() for name in names)


def trades(rows):
    ts, price, size, id_ = columns("trades_us_equity_20131008_09", "price", "size", "trade_id")
    return ts[rows], (price * size)[rows], id_[rows]


def trips(rows):
    ts, distance, id_ = columns("trips_nyc_green_taxi_2023q1", "trip_distance", "trip_id")
    return ts[rows], distance[rows], id_[rows]


def minutes(rows):
    ts, requests = columns("worldcup98_per_minute", "requests")
    return ts[rows], requests[rows].astype(float), np.arange(ts.size)[rows]


def opening(ts):
    """A slice around the busiest stretch of the first day's opening, where many trades share a millisecond."""
    return int(np.argmax(np.diff(ts[::1000]) < 2 * SECOND)) * 1000


STREAMS = {
    "trades, 1 min of 10 s": (trades, sb.TopK(k=10, size="1 minute", slide="10 seconds")),
    "trades, 7 s of 2 s": (trades, sb.TopK(k=25, size="7 seconds", slide="2 seconds", full_only=True)),
    "trips, 1 h of 7 min": (trips, sb.TopK(k=5, size="1 hour", slide="7 minutes", origin="2023-01-01T00:03:00")),
    "trips, shortest": (trips, sb.TopK(k=12, size="6 hours", slide="1 hour", order="asc")),
    "worldcup, 1 d of 1 h": (minutes, sb.TopK(k=3, size="1 day", slide="1 hour")),
    "worldcup, quietest": (minutes, sb.TopK(k=9, size="1 hour", slide="13 minutes", order="asc")),
}
every_stream = pytest.mark.parametrize("name", STREAMS)


def brute_force(query, ts, scores, ids):
    """The definition in NumPy: slice each window out of the sorted stream and sort all of it."""
    size, slide, origin = query.window.size, query.window.slide, query.window.origin
    keys = scores if query.order == "desc" else -scores
    found = []
    for i in range((ts[0] - origin) // slide + 1, (ts[-1] + size - origin) // slide + 1):
        end = origin + i * slide
        low, high = np.searchsorted(ts, [end - size, end])
        if low == high or (query.full_only and end - size < ts[0]):
            continue
        order = np.lexsort((-ids[low:high], -ts[low:high], -keys[low:high]))[: query.k] + low
        found += [(end - size, end, rank, int(ids[row]), float(scores[row])) for rank, row in enumerate(order, 1)]
    return found


def answered(query, stream, algorithm):
    table = sb.replay(query, *stream, algorithm=algorithm)
    return list(zip(*(table[name].to_pylist() for name in table.column_names[1:]), strict=True))


@every_stream
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_slices_agree_with_brute_force(name, algorithm):
    source, query = STREAMS[name]
    start = opening(source(slice(None))[0]) if source is trades else 0
    stream = source(slice(start, start + 6000))
    assert answered(query, stream, algorithm) == brute_force(query, *stream)


@every_stream
def test_all_engines_agree_on_more(name):
    source, query = STREAMS[name]
    stream = source(slice(0, 60_000))
    want = answered(query, stream, "panes")
    assert want == brute_force(query, *stream)
    for algorithm in ALGORITHMS:
        assert answered(query, stream, algorithm) == want, algorithm


def test_fast_engines_agree_on_two_days_of_trades():
    stream = trades(slice(None))
    assert np.count_nonzero(np.diff(stream[0]) == 0) > 100_000, "ties in time are what this stream is here for"
    query = sb.TopK(k=100, size="10 minutes", slide="30 seconds")
    tables = [sb.replay(query, *stream, algorithm=name) for name in ALGORITHMS if name not in SLOW]
    assert tables[0].num_rows > 100_000
    assert all(table.equals(tables[0]) for table in tables)


def test_trades_by_symbol_with_restarts():
    ts, price, size, symbol = columns("trades_us_equity_20131008_09", "price", "size", "symbol")
    scores, query = price * size, sb.TopK(k=3, size="5 minutes", slide="1 minute", partition_by=["symbol"])
    monitor = sb.Monitor(query)
    for low in range(0, 40_000, 7_777):
        rows = slice(low, min(low + 7_777, 40_000))
        monitor.push(ts[rows], scores[rows], groups=symbol[rows])
        monitor = sb.Monitor.resume(monitor.snapshot())
    monitor.finish()
    table = monitor.answers()
    for name in ("SPY", "BAC", "AIG", "IBM"):
        mine = np.flatnonzero(symbol[:40_000] == name)
        want = brute_force(query, ts[mine], scores[mine], mine)
        rows = [row for row in table.to_pylist() if row["group"] == name]
        got = [(r["window_start"], r["window_end"], r["rank"], r["id"], r["score"]) for r in rows]
        assert got == want
