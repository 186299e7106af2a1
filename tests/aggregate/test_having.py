"""Conditions on aggregates: what is accepted, what is rejected, and how, and queries that share all but a condition."""

from __future__ import annotations

import math

import pytest

import skyband as sb
from skyband.aggregate.having import Condition
from tests.aggregate import oracle

WINDOW = {"k": 3, "size": "1 hour", "key": "player", "value": "points"}


@pytest.mark.parametrize(
    ("having", "aggregate", "found"),
    [
        ("count(*) >= 3", "sum", [("count", ">=", 3.0)]),
        ("  COUNT( * )>=3 ", "sum", [("count", ">=", 3.0)]),
        ("count(points) != 3", "sum", [("count", "<>", 3.0)]),
        ("score < -1.5e3", "avg", [("avg", "<", -1500.0)]),
        ("Sum(Points) == 0 AND max(value) < inf", "count", [("sum", "=", 0.0), ("max", "<", math.inf)]),
    ],
)
def test_conditions_are_read(having, aggregate, found):
    query = sb.AggregateTopK(**WINDOW, aggregate=aggregate, having=having)
    assert list(query.conditions) == [Condition(*one) for one in found]
    assert sb.AggregateTopK(**query.to_dict()) == query


@pytest.mark.parametrize(
    ("having", "said"),
    [
        (3, "having must be a condition such as .*, or None, got 3"),
        (" ", "having must be a condition"),
        ("count(*)", "'count\\(\\*\\)' must compare an aggregate with a number"),
        ("count(*) >= many", "must compare an aggregate with a number"),
        ("count(*) >= nan", "must compare an aggregate with a number"),
        ("count(*) >= 3 or score > 1", "must compare an aggregate with a number"),
        ("mode(points) > 3", "must begin with 'score' or with one of the aggregates sum"),
        ("count > 3", "must begin with 'score'"),
        ("sum(bytes) > 3", r"sum\(bytes\) aggregates other values than the query.*Write sum\(points\)"),
        ("sum(*) > 3", r"Write sum\(points\)"),
    ],
)
def test_other_conditions_are_rejected(having, said):
    with pytest.raises(sb.InvalidQueryError, match=said):
        sb.AggregateTopK(**WINDOW, having=having)


def test_a_condition_may_need_values():
    with pytest.raises(sb.InvalidQueryError, match=r"having='avg\(value\) > 1' needs values"):
        sb.AggregateTopK(k=1, size=3, key="k", aggregate="count", having="avg(value) > 1")
    query = sb.AggregateTopK(k=1, size=3, aggregate="count", having="avg(value) > 1")
    with pytest.raises(sb.InvalidInputError, match=r"having='avg\(value\) > 1', which needs values"):
        sb.aggregate.replay(query, None, ["a", "a", "b"])
    assert sb.aggregate.replay(query, None, ["a", "a", "b"], [1.0, 1.0, 2.0])["key"].to_pylist() == ["b"]


def test_order_is_rejected_by_name():
    with pytest.raises(sb.InvalidQueryError, match=r"order must be one of 'desc' .*, got 'up'"):
        sb.AggregateTopK(k=1, size=3, order="up")


def test_queries_that_differ_in_a_condition_share_partials():
    asked = [
        sb.AggregateTopK(name=f"{order} {having}", k=9, size=6, slide=2, order=order, having=having)
        for order in ("desc", "asc")
        for having in (None, "count(*) > 1", "count(*) > 1 and score >= 0", "score = inf")
    ]
    keys = list("aabbbccdaabd")
    values = [3.0, -1.0, 0.5, 0.5, -2.0, math.inf, -math.inf, 4.0, 0.0, -0.0, math.inf, -7.0]
    rows = [oracle.Row(None, key, value) for key, value in zip(keys, values, strict=True)]
    assert len(sb.Workload(asked).explain().split("partials 2")) == 1
    monitor = sb.aggregate.Monitor(asked)
    monitor.push(None, keys, values)
    assert oracle.listed(monitor.answers()) == oracle.answers(asked, rows)
    # The key c has no sum in the two windows with both infinities: once for each of the eight queries. Keys that
    # only miss a condition are not counted.
    assert monitor.metrics()["unrankable"] == sum(
        math.isnan(oracle.score("sum", [row for row in rows[low : low + 6] if row.key == key]))
        for low in (-4, -2, 0, 2, 4, 6)
        for key in "abcd"
        if any(row.key == key for row in rows[max(low, 0) : low + 6])
    ) * len(asked)
