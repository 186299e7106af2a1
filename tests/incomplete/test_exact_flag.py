"""The column `exact` of approximate answers: a score that is flagged as exact lacks no report."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.incomplete.kernels import losses
from skyband.streams import correlated
from tests.incomplete.oracle import Asked, answers

METHODS = ("approximate", "expected-scores")


def some_stream(rng, *, count_axis):
    """A query, the same in plain numbers with every object, and tuples that keep to `occurrences`."""
    d, k = int(rng.integers(2, 6)), int(rng.integers(1, 6))
    size = int(rng.integers(20, 160))
    every = int(rng.integers(1, size + 1))
    occurrences = int(rng.choice([1, 1, 2]))
    n = 700
    tuples = correlated(
        n, d, float(rng.random()), recent=int(rng.integers(2, 40)), occurrences=occurrences, seed=int(rng.integers(99))
    )
    positions = None if count_axis else np.cumsum(rng.choice([0, 1, 1, 3, 30], n, p=[0.2, 0.4, 0.2, 0.18, 0.02]))
    unit = "" if count_axis else " microseconds"
    query = sb.IncompleteTopK(
        k=k,
        size=size if count_axis else f"{size}{unit}",
        every=every if count_axis else f"{every}{unit}",
        streams=list(range(d)),
        occurrences=occurrences,
        method=str(rng.choice(METHODS)),
    )
    asked = Asked(n, size, every, tuple(range(d)), occurrences=occurrences)
    return query, asked, positions, tuples


def true_scores(asked, positions, tuples):
    moments = range(tuples.values.size) if positions is None else positions.tolist()
    rows = list(zip(moments, *(column.tolist() for column in tuples), strict=True))
    if positions is not None:
        rows.sort(key=lambda row: row[:2])
    return {
        (end, obj): score for end, found in answers(asked, rows, count_axis=positions is None) for obj, score in found
    }


@pytest.mark.parametrize("count_axis", [True, False])
@pytest.mark.parametrize("seed", range(24))
def test_scores_that_are_flagged_as_exact_are(seed, count_axis):
    rng = np.random.default_rng([seed, count_axis])
    query, asked, positions, tuples = some_stream(rng, count_axis=count_axis)
    true = true_scores(asked, positions, tuples)
    monitor = sb.incomplete.Monitor(query)
    rows = []
    low = 0
    while low < tuples.values.size:
        part = slice(low, low + int(rng.integers(1, 300)))
        monitor.push(None if positions is None else positions[part], *(column[part] for column in tuples))
        rows += monitor.answers().to_pylist()
        monitor = sb.incomplete.Monitor.resume(monitor.snapshot())
        low = part.stop
    monitor.finish()
    rows += monitor.answers().to_pylist()
    assert rows == sb.incomplete.replay(query, positions, *tuples).to_pylist()
    for row in rows:
        score = true[row["time"], row["object"]]
        assert row["score"] <= score
        assert row["score"] == score or not row["exact"], row


@pytest.mark.parametrize(
    ("method", "streams", "size", "k", "every", "occurrences", "seed"),
    [
        ("expected-scores", 4, 354, 11, 12, 1, 3),
        ("approximate", 4, 248, 10, 17, 3, 5),
        ("approximate", 3, 165, 9, 16, 3, 7),
    ],
)
def test_an_older_instance_that_was_dropped_before_a_newer_one(method, streams, size, k, every, occurrences, seed):
    """On longer streams, compared with `exact`."""
    tuples = correlated(6000, streams, 0.7, recent=60, occurrences=occurrences, seed=seed)
    query = sb.IncompleteTopK(
        k=k, size=size, every=every, streams=list(range(streams)), occurrences=occurrences, method=method
    )
    everyone = sb.IncompleteTopK(**{**query.to_dict(), "method": "exact", "k": size})
    true = {
        (row["time"], row["object"]): row["score"] for row in sb.incomplete.replay(everyone, None, *tuples).to_pylist()
    }
    rows = sb.incomplete.replay(query, None, *tuples).to_pylist()
    assert all(row["score"] == true[row["time"], row["object"]] for row in rows if row["exact"])


@pytest.mark.parametrize("method", METHODS)
def test_most_scores_are_flagged_correctly(method):
    """Rows with a missing report are flagged, and few others."""
    tuples = correlated(8000, 3, 0.5, seed=9)
    query = sb.IncompleteTopK(k=20, size=600, every=50, streams=[0, 1, 2], method=method)
    everyone = sb.IncompleteTopK(**{**query.to_dict(), "method": "exact", "k": 600})
    true = {
        (row["time"], row["object"]): row["score"] for row in sb.incomplete.replay(everyone, None, *tuples).to_pylist()
    }
    rows = sb.incomplete.replay(query, None, *tuples).to_pylist()
    low = [row["score"] < true[row["time"], row["object"]] for row in rows]
    flagged = [not row["exact"] for row in rows]
    assert sum(low) > 0
    assert sum(flagged) < sum(low) + 0.05 * len(rows)


def test_exact_queries_in_the_same_monitor_are_exact():
    same = {"k": 3, "size": 100, "every": 50, "streams": [0, 1]}
    queries = [
        sb.IncompleteTopK(**same, name=method, method=method) for method in ("exact", "approximate", "sorted-lists")
    ]
    table = sb.incomplete.replay(queries, None, *correlated(1000, 2, 0.5, seed=1))
    assert all(row["exact"] for row in table.to_pylist() if row["query"] != "approximate")
    assert "exact" not in sb.incomplete.replay(queries[0], None, *correlated(200, 2, 0.5, seed=1)).column_names


def test_data_frames_have_the_column():
    tuples = correlated(1500, 3, 0.5, seed=4)
    frame = pa.table(
        {
            "ts": pa.array(1000 * np.arange(1500), pa.timestamp("us")),
            "object": tuples.objects,
            "stream": tuples.streams,
            "value": tuples.values,
        }
    )
    query = sb.IncompleteTopK(
        k=5,
        size="200 milliseconds",
        every="20 milliseconds",
        object="object",
        stream="stream",
        value="value",
        streams=[0, 1, 2],
        method="approximate",
    )
    found = sb.incomplete.replay(query, frame, time="ts")
    wanted = sb.incomplete.replay(query, frame["ts"], *tuples)
    assert found.column_names == ["query", "time", "rank", "object", "score", "exact"]
    assert [row["exact"] for row in found.to_pylist()] == [row["exact"] for row in wanted.to_pylist()]
    assert set(found["exact"].to_pylist()) == {True, False}


def test_objects_are_found_until_their_last_window_and_filters_can_grow():
    rng = np.random.default_rng(5)
    marks = rng.integers(-(2**63), 2**63 - 1, 3000)
    kept = losses.empty_losses(True)
    kept.registers[losses.WINDOWS] = 10
    for place, mark in enumerate(marks.tolist()):
        if losses.is_full(kept):
            kept = losses.doubled(kept)
        losses.note_lost(kept, mark, 20 + place // 100)
    last = 20 + np.arange(3000) // 100
    found = np.array([losses.lost_until(kept, mark, 20) for mark in marks.tolist()])
    assert (found >= last).all()
    assert (found > last + 9).mean() < 0.1  # found by mistake in a later filter
    strangers = rng.integers(-(2**63), 2**63 - 1, 3000).tolist()
    assert np.mean([losses.lost_until(kept, mark, 20) >= 20 for mark in strangers]) < 0.15
    assert all(losses.lost_until(kept, mark, 60) < 60 for mark in marks.tolist())
