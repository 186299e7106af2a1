"""Real streams: planes by their delays, clients by their round trips; slices against brute force, cuts against cuts."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.aggregate import Monitor, replay
from tests.aggregate import oracle
from tests.conformance.test_real_data import FOLDER


def columns(file, *names):
    path = FOLDER / f"{file}.parquet"
    if not path.exists():
        pytest.skip(f"{path} is not there; set SKYBAND_TEST_DATA to the folder that holds it")
    table = pq.read_table(path, columns=["ts", *names]).sort_by("ts")
    return table.set_column(0, "ts", table["ts"].cast("timestamp[us]").cast("int64"))


STREAMS = {
    "flights": ("flights_nyc_2013", "tailnum", "arr_delay_min"),
    "netlog": ("netlog_zeek_2018", "client", "rtt_s"),
}
QUERIES = [
    sb.AggregateTopK(name="sum", k=5, size="6 hours", slide="1 hour"),
    sb.AggregateTopK(name="avg", k=5, size="6 hours", slide="50 minutes", aggregate="avg"),
    sb.AggregateTopK(name="high", k=3, size="100 minutes", slide="35 minutes", aggregate="max", full_only=True),
    sb.AggregateTopK(name="low", k=3, size="1 hour", slide="1 hour", aggregate="min"),
    sb.AggregateTopK(name="often", k=9, size="3 hours", slide="20 minutes", aggregate="count"),
]


@pytest.mark.parametrize("name", STREAMS)
def test_a_slice_is_brute_force(name):
    table = columns(*STREAMS[name]).slice(5_000, 3_000)
    rows = [oracle.Row(*row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]
    assert oracle.listed(replay(QUERIES, *table.columns)) == oracle.answers(QUERIES, rows)


@pytest.mark.parametrize("name", STREAMS)
def test_any_cut_gives_the_same(name):
    table = columns(*STREAMS[name]).slice(0, 200_000)
    whole = replay(QUERIES, *table.columns)
    monitor, low = Monitor(QUERIES), 0
    for cut in np.random.default_rng(1).integers(1, 30_000, 100):
        monitor.push(*table.slice(low, int(cut)).columns)
        low += int(cut)
        if low % 3 == 0:
            monitor = Monitor.resume(monitor.snapshot())
    monitor.finish()
    assert monitor.answers().equals(whole)
    assert whole.num_rows > 100
