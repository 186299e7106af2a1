"""Real streams that do not agree on time: all exact methods give the same answers, and hold what they should."""

from __future__ import annotations

import numpy as np
import pytest

import skyband as sb
from tests.conformance.test_real_data import columns

FIRST = slice(20_000)


def flights():
    """Air miles of planes from three airports; a plane may leave the same airport several times in a window."""
    return [column[FIRST] for column in columns("flights_nyc_2013", "tailnum", "origin", "distance_mi")]


def netlog():
    """Clients in the logs of five kinds; the score is how many kinds know the client."""
    ts, client, stream = (column[FIRST] for column in columns("netlog_zeek_2018", "client", "stream"))
    return ts, client, stream, np.ones(ts.size)


@pytest.mark.parametrize(
    ("stream", "asked"),
    [
        (flights, {"size": "2 days", "every": "3 hours", "bounds": (0, 5000), "occurrences": 3}),
        (netlog, {"size": "10 seconds", "every": "500 milliseconds"}),
    ],
)
def test_methods_agree(stream, asked):
    tuples = stream()
    query = {"k": 20, "streams": sorted(set(tuples[2])), **asked}
    found, held, counted = {}, {}, {}
    for method in ("exact", "sorted-lists"):
        monitor = sb.incomplete.Monitor(sb.IncompleteTopK(method=method, **query))
        sizes = []
        for low in range(0, len(tuples[0]), 1000):
            monitor.push(*(column[low : low + 1000] for column in tuples))
            sizes.append(monitor.candidates)
        monitor.finish()
        found[method], held[method] = monitor.answers().to_pylist(), sizes
        counted[method] = monitor.metrics()["over_limit"]
    assert found["exact"] == found["sorted-lists"]
    assert len(found["exact"]) > 1000
    assert counted["exact"] == counted["sorted-lists"]
    assert all(few <= many for few, many in zip(held["exact"], held["sorted-lists"], strict=True))
