"""Streams that are declared to report an object once: the same answers, without a record of the window."""

from __future__ import annotations

import numpy as np
import pytest

import skyband as sb
from skyband.streams import correlated
from tests.incomplete import oracle
from tests.incomplete.drive import PAIRS, as_tuples, listed
from tests.incomplete.oracle import Asked, limits

METHODS = ("exact", "sorted-lists")


def single_reports(rng, asked, n):
    """Tuples of which no two have the same object and stream."""
    objects, streams = np.divmod(rng.permutation(n * 2)[:n], len(asked.streams))
    names = np.array(asked.streams)[streams]
    low, high = np.array([limits(asked, stream) for stream in names]).T
    return None, objects.tolist(), names.tolist(), low + (high - low) * rng.integers(0, 9, n) / 8


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("method", METHODS)
def test_answers_are_those_of_the_definition(method, seed):
    rng = np.random.default_rng(seed)
    streams = tuple("abcd"[: int(rng.integers(1, 5))])
    bounds = {stream: PAIRS[rng.integers(4)] for stream in streams}
    size = int(rng.integers(5, 40))
    asked = Asked(int(rng.integers(1, 5)), size, int(rng.integers(1, size)), streams, bounds=bounds)
    columns = single_reports(rng, asked, 200)
    query = sb.IncompleteTopK(
        k=asked.k, size=size, every=asked.every, streams=streams, bounds=bounds, occurrences="once", method=method
    )
    table = sb.incomplete.replay(query, *columns)
    assert listed(table) == oracle.answers(asked, as_tuples(*columns), count_axis=True)


def test_nothing_of_the_window_is_recorded_and_fewer_objects_are_held():
    tuples = correlated(6_000, 3, 0.7, seed=3)
    monitors = {}
    for occurrences in (1, "once"):
        query = sb.IncompleteTopK(k=5, size=2_000, every=100, streams=[0, 1, 2], occurrences=occurrences)
        monitors[occurrences] = sb.incomplete.Monitor(query)
        monitors[occurrences].push(None, *tuples)
    checked, once = (monitors[occurrences].metrics()["queries"]["topk"] for occurrences in (1, "once"))
    assert (checked["remembered"], once["remembered"]) == (2_000, 0)
    # The paper's rule: a stream that reported the object before an instance begins does not add to its best score.
    assert once["items"] < 0.9 * checked["items"]
    assert len(monitors["once"].snapshot()) < 0.6 * len(monitors[1].snapshot())
    assert monitors["once"].answers().equals(monitors[1].answers())


@pytest.mark.parametrize("method", METHODS)
def test_a_repeated_report_of_a_held_object_is_dropped_and_counted(method):
    query = sb.IncompleteTopK(k=2, size=4, streams=["s", "t"], occurrences="once", method=method)
    monitor = sb.incomplete.Monitor(query)
    monitor.push(None, ["a", "b", "a", "a"], ["s", "s", "s", "t"], [0.5, 0.2, 0.9, 0.25])
    assert monitor.answers()["score"].to_pylist() == [0.75, 0.2]
    assert monitor.metrics()["over_limit"] == 1


def test_a_restart_keeps_what_streams_have_reported():
    query = sb.IncompleteTopK(k=3, size=200, every=7, streams=[0, 1], occurrences="once")
    tuples = correlated(900, 2, 0.6, seed=8)
    whole = sb.incomplete.replay(query, None, *tuples)
    monitor, parts = sb.incomplete.Monitor(query), []
    for low in range(0, 900, 90):
        monitor.push(None, *(column[low : low + 90] for column in tuples))
        parts.append(monitor.answers())
        monitor = sb.incomplete.Monitor.resume(monitor.snapshot())
    assert [row for part in parts for row in part.to_pylist()] == whole.to_pylist()[: sum(p.num_rows for p in parts)]


def test_other_words_are_refused():
    with pytest.raises(
        sb.InvalidQueryError, match=r"occurrences='twice' must be an integer between 1 and .*, or 'once'"
    ):
        sb.IncompleteTopK(k=1, size=10, occurrences="twice")
