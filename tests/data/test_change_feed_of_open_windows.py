"""A change feed takes final answers: those so far, and corrected ones, are rejected, and nothing has changed then."""

from __future__ import annotations

import pyarrow as pa
import pytest

import skyband as sb

S = 1_000_000
WINDOW = {"k": 2, "size": "10 seconds"}
PUSHED = {
    "topk": (sb.TopK(name="q", **WINDOW), lambda: sb.Monitor, ([5.0, 9.0, 7.0, 4.0],)),
    "aggregate": (
        sb.AggregateTopK(name="q", **WINDOW),
        lambda: sb.aggregate.Monitor,
        (["a", "b", "a", "c"], [1.0] * 4),
    ),
    "incomplete": (
        sb.IncompleteTopK(name="q", every="10 seconds", streams=["x", "y"], bounds=(0, 9), **WINDOW),
        lambda: sb.incomplete.Monitor,
        (["a", "b", "a", "c"], ["x", "y", "y", "x"], [1.0, 2.0, 3.0, 4.0]),
    ),
    "uncertain": (
        sb.UncertainTopK(name="q", every="10 seconds", **WINDOW),
        lambda: sb.uncertain.Monitor,
        ([5.0, 9.0, 7.0, 4.0], [0.5, 0.4, 0.3, 0.9]),
    ),
}


@pytest.mark.parametrize("family", PUSHED)
def test_answers_so_far_are_rejected(family):
    query, kind, columns = PUSHED[family]
    monitor, feed, plain = kind()(query), sb.ChangeFeed(query), sb.ChangeFeed(query)
    monitor.push([S, 2 * S, 13 * S, 14 * S], *columns)
    first = monitor.answers()
    assert first.num_rows
    marked = monitor.so_far()
    assert not all(marked["final"].to_pylist())
    with pytest.raises(sb.InvalidInputError, match=r"rows are of open windows \(final is false\)"):
        feed.take(marked)
    monitor.finish()
    last = monitor.answers()
    at = first.column_names.index("rank")
    for table in (first, last):
        final = table.add_column(at, "final", pa.array([True] * table.num_rows))
        assert feed.take(final).equals(plain.take(table))


def test_corrected_answers_are_rejected_and_a_column_of_the_row_is_none_of_the_marks():
    query = sb.TopK(name="q", by="x", **WINDOW)
    frame = {"at": pa.array([S, 2 * S, 13 * S], pa.int64()).cast(pa.timestamp("us", "UTC")), "x": [5.0, 9.0, 7.0]}
    frame |= {"final": [False, True, False], "revision": [0, 5, 7]}
    with pytest.raises(sb.InvalidInputError, match="no column 'id'"):
        sb.ChangeFeed(query).take(sb.replay(query, pa.table(frame), time="at"))
    answers = sb.replay(query, pa.table({**frame, "id": [1, 2, 3]}), time="at", id="id")
    changes = sb.ChangeFeed(query).take(answers)
    assert {"final", "revision"} <= set(changes.column_names)
    assert [row["revision"] for row in changes.to_pylist() if row["change"] == "entered"] == [5, 0, 7]
    at = answers.column_names.index("rank")
    corrected = answers.add_column(at, pa.field("revision", pa.int32()), pa.array([0, 0, 2], pa.int32()))
    with pytest.raises(sb.InvalidInputError, match=r"1 of 3 rows correct final windows \(revision > 0\)"):
        sb.ChangeFeed(query).take(corrected)
