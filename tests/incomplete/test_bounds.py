"""Bounds of values: of all streams together, or of each stream."""

from __future__ import annotations

import pytest

import skyband as sb

BY_STREAM = {"a": (0, 1), "b": (0, 100)}


def query(**more):
    return sb.IncompleteTopK(**{"k": 1, "size": 3, "streams": ["a", "b"], "bounds": BY_STREAM, **more})


def test_tighter_bounds_make_the_best_score_tighter():
    tuples = ["x", "x", "y"], ["b", "b", "a"], [60.0, 1.0, 0.5]
    best = []
    for bounds in ((0, 100), BY_STREAM):
        asked = query(k=2, every=1, intervals=True, bounds=bounds)
        best.append(sb.incomplete.replay(asked, None, *tuples)["best"].to_pylist()[0])
    assert best == [160.0, 61.0]


def test_objects_are_dropped_sooner():
    held = []
    for bounds in ((0, 100), BY_STREAM):
        monitor = sb.incomplete.Monitor(query(size=100, every=100, bounds=bounds))
        monitor.push(None, list(range(50)), ["b"] * 50, [2.0 * value for value in range(50)])
        held.append(monitor.candidates)
    assert held == [50, 1]  # 96 can reach 97, which 98 exceeds


def test_a_missing_value_counts_as_the_smallest_of_its_stream():
    asked = query(bounds={"a": (-1, 1), "b": (5, 9)}, k=2)
    for method in ("exact", "sorted-lists"):
        table = sb.incomplete.replay(
            sb.IncompleteTopK(**{**asked.to_dict(), "method": method}),
            None,
            ["x", "y", "x"],
            ["a", "b", "b"],
            [1, 9, 6],
        )
        assert dict(zip(table["object"].to_pylist(), table["score"].to_pylist(), strict=True)) == {"y": 8, "x": 7}


def test_a_value_is_compared_with_the_bounds_of_its_stream():
    with pytest.raises(
        sb.InvalidInputError, match=r"values\[1\]=2.0 is outside bounds\['a'\]=\(0.0, 1.0\) of query 'topk'"
    ):
        sb.incomplete.replay(query(), None, ["x", "y"], ["b", "a"], [2.0, 2.0])


def test_a_query_is_rebuilt_from_its_plain_values():
    import json

    again = sb.IncompleteTopK(**json.loads(json.dumps(query().to_dict())))
    assert again == query()
    assert again.bounds_of("b") == (0.0, 100.0)


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ({"a": (0, 1)}, "no bounds for the stream 'b'"),
        ({"a": (0, 1), "b": (0, 1), "c": (0, 1)}, "'c'"),
        ({"a": (0, 1), "b": 7}, r"bounds\['b'\]=7 must be a pair"),
        ({"a": (0, 1), "b": (1, 0)}, r"bounds\['b'\]=\(1, 0\) must be two finite numbers"),
        ({}, "must be a pair"),
    ],
)
def test_what_is_no_bound_is_refused(bounds, said):
    with pytest.raises(sb.SkybandError, match=said):
        query(bounds=bounds)


def test_explain_names_the_bounds_of_each_stream():
    assert "values of a 0 to 1, b 0 to 100; a missing value" in sb.Workload([query()]).explain()
