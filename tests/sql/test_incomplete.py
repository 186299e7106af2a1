"""Queries over incomplete streams in SQL: OBJECT tells them from the others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import skyband as sb
from tests.sql.strategies import incomplete_queries

ANY_TEXT = st.text(min_size=1).filter(str.strip)
FLOWS = {"k": 5, "size": "1 hour", "every": "1 minute", "object": "flow", "stream": "router", "value": "load"}


@given(query=incomplete_queries())
def test_every_query_comes_back(query):
    text = str(query)
    assert sb.sql(text) == query
    assert "\n" not in text
    assert str(sb.sql(text)) == text


@given(query=incomplete_queries(ANY_TEXT))
def test_even_what_is_no_sql_comes_back(query):
    assert sb.sql(str(query)) == query


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("TOPK sum(load), 5 OBJECT flow STREAM router OVER 1 HOUR EVERY 1 MINUTE", {}),
        ("SELECT TOP 5 * FROM r [RANGE 1 HOUR SLIDE 1 MINUTE] OBJECT flow STREAM router ORDER BY sum(load) DESC", {}),
        ("SELECT TOP 5 * FROM r [RANGE 1 HOUR SLIDE 1 MINUTE] ORDER BY sum(load) DESC OBJECT flow STREAM router", {}),
        (
            "TOPK max(load), 5 WHERE x > 1 OBJECT flow STREAM router OVER 1 HOUR EVERY 1 MINUTE METHOD 'sorted-lists'",
            {"aggregate": "max", "where": "x > 1", "method": "sorted-lists"},
        ),
        (
            "TOPK sum(load), 5 OBJECT flow STREAM router PARTITION BY region, upper(site) OVER 1 HOUR EVERY 1 MINUTE",
            {"partition_by": ["region", "upper(site)"]},
        ),
        (
            (
                "SELECT TOP 5 * FROM r [RANGE 1 HOUR SLIDE 1 MINUTE] PARTITION BY region OBJECT flow STREAM router "
                "ORDER BY sum(load) DESC"
            ),
            {"partition_by": ["region"]},
        ),
        (
            (
                "TOPK a + sqrt(b), 5 OBJECT flow VALUE load STREAM router STREAMS ('a', 'b') "
                "BOUNDS ('a' (0, 1), 'b' (0, 9)) "
                "OVER 1 HOUR EVERY 1 MINUTE occurrences once"
            ),
            {
                "aggregate": "a + sqrt(b)",
                "streams": ["a", "b"],
                "bounds": {"a": (0, 1), "b": (0, 9)},
                "occurrences": "once",
            },
        ),
        (
            (
                "TOPK sum(load), 5 OBJECT flow STREAM router STREAMS (-1, 2) WEIGHTS (2 0.5) BOUNDS (-3, 1e2) "
                "OVER 1 HOUR "
                "EVERY 1 MINUTE"
            ),
            {"streams": [-1, 2], "weights": {2: 0.5}, "bounds": (-3, 100)},
        ),
    ],
)
def test_what_it_says(text, fields):
    assert sb.sql(text) == sb.IncompleteTopK(**{**FLOWS, **fields})


def test_a_query_over_arrays_has_no_sql():
    assert sb.IncompleteTopK(k=3, size=5).to_sql() is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("TOPK sum(a), 5 METHOD exact OBJECT f OVER 1 HOUR", "METHOD must follow OBJECT"),
        ("TOPK sum(a), 5 OBJECT f PROBABILITY p OVER 1 HOUR", "IncompleteTopK and UncertainTopK queries cannot be"),
        ("TOPK a, 5 PROBABILITY p OBJECT f OVER 1 HOUR", "UncertainTopK and IncompleteTopK queries cannot be"),
        ("TOPK a, 5 OBJECT f OVER 1 HOUR", "so VALUE is missing"),
        ("TOPK sum(a), 5 OBJECT f VALUE a OVER 1 HOUR", "the value is given twice"),
        ("TOPK 5 OBJECT f OVER 1 HOUR", "the query has no score"),
        (
            "TOPK sum(a), 5 WITH TIES OBJECT f OVER 1 HOUR METHOD approximate",
            "ties='rank' is not supported with method",
        ),
        ("TOPK sum(a), 5 OBJECT f OVER 1 HOUR FULL WINDOWS ONLY", "does not support FULL WINDOWS ONLY"),
        ("TOPK sum(a), 5 OBJECT f BY KEY g OVER 1 HOUR", "so it does not support keys"),
        ("TOPK count(*), 5 OBJECT f OVER 1 HOUR", "aggregate='count' must be one of"),
        ("TOPK sum(a), 5 OBJECT f STREAMS () OVER 1 HOUR", "expected a stream in quotes, or an integer"),
        ("TOPK sum(a), 5 OBJECT f STREAMS ('a') WEIGHTS ('a') OVER 1 HOUR", "expected a number in WEIGHTS"),
        ("TOPK sum(a), 5 OBJECT f BOUNDS (3, 1) OVER 1 HOUR", "the smaller first"),
        ("TOPK sum(a), 5 OBJECT f OCCURRENCES many OVER 1 HOUR", "a number of occurrences, or ONCE"),
        ("TOPK sum(a), 5 OBJECT f METHOD fast OVER 1 HOUR", "method must be one of"),
    ],
)
def test_what_is_refused(text, message):
    with pytest.raises(sb.InvalidSQLError) as caught:
        sb.sql(text)
    assert message in str(caught.value)
