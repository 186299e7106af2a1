"""Queries of the other families: what they refuse, what they keep, what is told of them."""

from __future__ import annotations

import json

import pytest

import skyband as sb

INCOMPLETE = {"k": 3, "size": "1 hour", "streams": ["a", "b"]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"k": 0}, "k must be between 1 and 2147483647, got 0"),
        ({"every": "2 hours"}, "every must be between 1 microsecond and '1 hour' .*, got '2 hours'"),
        ({"size": 10, "every": 11}, "every must be between 1 and 10 .*, got 11"),
        ({"every": 5}, "on different axes"),
        ({"streams": "ab"}, "streams='ab' must be a non-empty list of stream names"),
        ({"streams": []}, "must be a non-empty list of stream names"),
        ({"streams": ["a", "a"]}, "must not contain a stream twice"),
        ({"streams": ["a", 1]}, "all strings or all integers"),
        ({"aggregate": "median"}, "Only monotone aggregates bound the score"),
        ({"aggregate": "min", "weights": {"a": 1}}, "is not supported with aggregate='min'"),
        ({"weights": {"c": 1}}, "'c'"),
        ({"weights": {"a": -1}}, "of at least 0"),
        ({"weights": {"a": float("nan")}}, "must be a finite number"),
        ({"weights": 3}, "must map streams to factors"),
        ({"bounds": (1, 0)}, "the smaller first"),
        ({"bounds": (0, float("inf"))}, "two finite numbers"),
        ({"bounds": "01"}, "must be a pair of the smallest and the largest value"),
        ({"bounds": (-1, 1), "occurrences": 2}, "must not be negative"),
        ({"bounds": (0, 1e308), "weights": {"a": 10}}, "exceed the float range"),
        ({"occurrences": 0}, "must be an integer between 1 and 2147483647"),
        ({"method": "guess"}, "method must be one of 'exact'.*, got 'guess'"),
        ({"method": "approximate", "intervals": True}, "Use method='exact'"),
        ({"object": " "}, "must be an SQL expression"),
    ],
)
def test_an_incomplete_query_that_means_nothing(change, said):
    with pytest.raises(sb.SkybandError, match=said):
        sb.IncompleteTopK(**{**INCOMPLETE, **change})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"aggregate": "mean"}, "aggregate must be one of 'sum'.*, got 'mean'"),
        ({"key": "client"}, "value=None, but aggregate='sum' needs values"),
        ({"slide": "2 hours"}, "slide must be between .*, got '2 hours'"),
        ({"partition_by": [1]}, "partition_by must contain only column names, got 1 in"),
    ],
)
def test_an_aggregate_query_that_means_nothing(change, said):
    with pytest.raises(sb.InvalidQueryError, match=said):
        sb.AggregateTopK(**{"k": 3, "size": "1 hour", **change})


@pytest.mark.parametrize(
    "query",
    [
        sb.IncompleteTopK(name="q", every="1 minute", weights={"a": 2, "b": 0}, bounds=(0, 9), **INCOMPLETE),
        sb.IncompleteTopK(k=1, size=10, streams=[3, 1], occurrences=4, method="approximate"),
        sb.AggregateTopK(k=1, size="1 day", key="a", value="b", partition_by=["c"], origin="2024-01-01"),
    ],
)
def test_a_query_survives_json(query):
    assert type(query)(**json.loads(json.dumps(query.to_dict()))) == query


def test_families_do_not_mix():
    with pytest.raises(sb.InvalidQueryError, match="must be of one family"):
        sb.Workload([sb.TopK(name="a", k=1, size=5), sb.AggregateTopK(name="b", k=1, size=5)])
    with pytest.raises(sb.UnsupportedError, match=r"Use skyband\.aggregate\.replay"):
        sb.replay(sb.AggregateTopK(k=1, size=5), None, [1.0])
    with pytest.raises(sb.UnsupportedError, match="cost"):
        sb.Workload(sb.AggregateTopK(name="b", k=1, size=5)).cost(sb.AggregateTopK(name="c", k=1, size=5))


def test_pages_tell_what_is_kept():
    page = sb.Workload(sb.IncompleteTopK(intervals=True, weights={"a": 2}, **INCOMPLETE)).explain(on_spark=True)
    for text in (
        "1 query over event time, on incomplete streams: the ",
        "Memory: the objects that can still enter an answer, plus a short record of every tuple in the window.",
        "weights a 2",
        "whether it is certain to stay among the k best",
        "a missing value counts as 0, at best as 1",
        "to drop tuples beyond `occurrences`",
        "the answers of all shards are merged",
    ):
        assert text in page
    queries = [
        sb.AggregateTopK(name=name, k=1, size="1 hour", slide=slide)
        for name, slide in (("a", "1 minute"), ("b", "5 minutes"))
    ]
    page = sb.Workload(queries).explain()
    assert f"2 queries over event time: {queries[0].ranked_text} in 1 hour, every 1 minute; " in page
    assert "one partial result per key in each of at most 60 panes of 1 minute, plus" in page
    assert "1 set of partials" in page
    assert "at most 60 panes" in page
