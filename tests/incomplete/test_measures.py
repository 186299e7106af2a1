"""Precision and relative error mean what the paper means by them, also where answers are short or missing."""

from __future__ import annotations

import pyarrow as pa
import pytest

import skyband as sb
from skyband.incomplete.measures import by_answer, precision, relative_error


def table(*answers, query="q"):
    """Answers as (time, [(object, score), …])."""
    rows = [
        {"query": query, "time": time, "rank": rank, "object": object_, "score": score}
        for time, ranked in answers
        for rank, (object_, score) in enumerate(ranked, 1)
    ]
    kinds = {"query": pa.string(), "time": pa.int64(), "rank": pa.int64(), "object": pa.string(), "score": pa.float64()}
    return pa.Table.from_pylist(rows, pa.schema(list(kinds.items())))


EXACT = table((10, [("a", 4.0), ("b", 2.0)]), (20, [("c", 1.0), ("a", 0.5)]))


def test_the_same_answers_are_perfect():
    assert precision(EXACT, EXACT) == 1.0
    assert relative_error(EXACT, EXACT) == 0.0


def test_the_order_of_objects_is_no_matter_of_precision():
    other = table((10, [("b", 4.0), ("a", 2.0)]), (20, [("a", 1.0), ("z", 0.5)]))
    assert precision(EXACT, other) == 0.75
    assert relative_error(EXACT, other) == 0.0


def test_scores_are_compared_rank_by_rank():
    other = table((10, [("a", 3.0), ("b", 1.0)]), (20, [("c", 1.0), ("a", 0.5)]))
    found = by_answer(EXACT, other)
    assert found["time"].to_pylist() == [10, 20]
    assert found["relative_error"].to_pylist() == [(1 / 4 + 1 / 2) / 2, 0.0]
    assert relative_error(EXACT, other) == 0.1875


def test_short_and_missing_answers_count_as_wrong():
    other = table((10, [("a", 4.0)]))
    assert by_answer(EXACT, other)["precision"].to_pylist() == [0.5, 0.0]
    assert by_answer(EXACT, other)["relative_error"].to_pylist() == [0.5, 1.0]


def test_an_exact_answer_of_fewer_objects_is_measured_by_those():
    exact = table((10, [("a", 4.0)]))
    assert precision(exact, EXACT) == 1.0


def test_scores_of_zero_and_below():
    exact = table((10, [("a", 0.0), ("b", 0.0), ("c", -2.0)]))
    other = table((10, [("a", 0.0), ("b", -1.0), ("c", -3.0)]))
    assert by_answer(exact, other)["relative_error"].to_pylist() == [(0 + 1 + 0.5) / 3]


def test_queries_are_kept_apart():
    exact = pa.concat_tables([EXACT, table((10, [("z", 1.0)]), query="r")])
    other = pa.concat_tables([EXACT, table((10, [("a", 1.0)]), query="r")])
    found = by_answer(exact, other)
    assert found.select(["query", "time", "precision"]).to_pylist() == [
        {"query": "q", "time": 10, "precision": 1.0},
        {"query": "r", "time": 10, "precision": 0.0},
        {"query": "q", "time": 20, "precision": 1.0},
    ]


def test_what_is_no_answer_is_refused():
    with pytest.raises(sb.InvalidInputError, match="approximate has no column score"):
        precision(EXACT, EXACT.drop_columns("score"))
    with pytest.raises(sb.InvalidInputError, match="exact has no column"):
        relative_error([1, 2], EXACT)
    with pytest.raises(sb.InvalidInputError, match="exact has no answer"):
        precision(EXACT.slice(0, 0), EXACT)
