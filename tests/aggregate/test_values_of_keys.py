"""Distinct counts, estimates and quantiles; random cases are in the tests of the monitor, shards and brute force."""

from __future__ import annotations

import math
import statistics
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.aggregate import Monitor, replay
from skyband.aggregate.kernels.items import select


def scores(aggregate, values, **more):
    query = sb.AggregateTopK(k=1, size=len(values), aggregate=aggregate, **more)
    return replay(query, None, ["a"] * len(values), values)["score"].to_pylist()


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["x", "y", "x", "", "y"]),
        pa.array([b"x", b"y", b"x", b"", b"y"]),
        pa.array([2**62, 2**62 + 1, 2**62, -1, 2**62 + 1]),
        pa.array([1, 2, 1, 3, 2], pa.date32()),
        pa.array([1, 2, 1, 3, 2], pa.timestamp("us", "UTC")),
        pa.array([-0.0, 1.5, 0.0, math.inf, 1.5]),
        pa.array([2**64 - 1, 2**64 - 2, 2**64 - 1, 0, 2**64 - 2], pa.uint64()),
    ],
    ids=lambda values: str(values.type),
)
@pytest.mark.parametrize("aggregate", ["count_distinct", "approx_count_distinct"])
def test_values_of_any_type_are_counted(aggregate, values):
    assert scores(aggregate, values) == [3.0]


def test_a_value_in_several_panes_counts_once():
    query = sb.AggregateTopK(k=2, size=4, slide=1, aggregate="count_distinct")
    found = replay(query, None, ["a"] * 7, list("xyxyzzz")).slice(3)
    assert found["score"].to_pylist() == [2.0, 3.0, 3.0, 2.0]


def test_rows_without_a_value_do_not_count():
    monitor = Monitor(sb.AggregateTopK(k=3, size=4, aggregate="count_distinct", having="count(*) >= 2"))
    monitor.push(None, ["a", "a", "b", "a", "b", "c"], ["x", None, None, "y", "x", "x"])
    assert monitor.metrics()["dropped_null"] == 2
    assert monitor.answers().select(["key", "score"]).to_pylist() == [{"key": "a", "score": 2.0}]


def test_values_of_another_type_are_rejected():
    monitor = Monitor(sb.AggregateTopK(k=3, size=9, aggregate="count_distinct"))
    monitor.push(None, ["a"], ["x"])
    with pytest.raises(sb.InvalidInputError, match="values changed type from string to int64"):
        monitor.push(None, ["a"], [1])
    monitor.push(None, ["a"] * 8, ["y"] * 8)
    assert monitor.answers()["score"].to_pylist() == [2.0]


def test_the_type_is_known_after_a_restart():
    query = sb.AggregateTopK(k=3, size=4, slide=2, aggregate="count_distinct")
    monitor = Monitor(query)
    monitor.push(None, ["a", "a", "b"], ["x", "y", "x"])
    monitor = Monitor.resume(monitor.snapshot())
    with pytest.raises(sb.InvalidInputError, match="values changed type"):
        monitor.push(None, ["a"], [1])
    monitor.push(None, ["a"], ["x"])
    assert monitor.answers()["score"].to_pylist() == [2.0, 2.0, 1.0]


@pytest.mark.parametrize("seed", range(30))
def test_quantiles_of_many_values(seed):
    random = Random(seed)
    values = [random.choice([random.gauss(0, 1), random.randint(-3, 3)]) for _ in range(random.randint(1, 400))]
    assert scores("median", values) == pytest.approx([statistics.median(values)], rel=1e-12)
    for fraction in (0.0, 1.0, random.random()):
        found = scores("quantile", values, quantile=fraction)
        assert found == pytest.approx([np.quantile(values, fraction)], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("seed", range(50))
def test_selection_by_rank(seed):
    random = Random(seed)
    numbers = random.sample(range(-50, 50), random.randint(1, 60))
    random.choice([numbers.sort, numbers.reverse, lambda: None])()
    counts = [random.choice([1, 1, 2, 9]) for _ in numbers]
    ordered = sorted(number for number, count in zip(numbers, counts, strict=True) for _ in range(count))
    for rank in range(len(ordered)):
        found = select(np.array(numbers), np.array(counts), len(numbers), rank)
        assert found == (ordered[rank], ordered[min(rank + 1, len(ordered) - 1)])


@pytest.mark.parametrize("number", [1, 10, 100, 1000, 10_000, 200_000])
def test_estimates_have_their_standard_error(number):
    keys = np.repeat(np.arange(6), number)
    values = np.arange(6 * number)
    query = sb.AggregateTopK(k=6, size=6 * number, aggregate="approx_count_distinct")
    found = np.array(replay(query, None, keys, values)["score"])
    assert np.abs(found / number - 1).max() < 4 * 1.04 / 1024**0.5
    assert abs(found.mean() / number - 1) < 4 * 1.04 / 1024**0.5 / 6**0.5


def test_estimates_need_a_bounded_number_of_partials():
    monitor = Monitor(sb.AggregateTopK(k=1, size=1_000_000, aggregate="approx_count_distinct"))
    monitor.push(None, np.zeros(500_000, int), np.arange(500_000))
    assert monitor.candidates < 12 * 1024


def test_both_infinities_have_no_value_between_them():
    assert scores("median", [-math.inf, math.inf]) == []
    assert scores("median", [-math.inf, 1.0, math.inf]) == [1.0]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"aggregate": "quantile"}, "needs quantile= between 0 .* got None"),
        ({"aggregate": "quantile", "quantile": 90}, "between 0 .* got 90"),
        ({"aggregate": "quantile", "quantile": True}, "got True"),
        ({"aggregate": "median", "quantile": 0.5}, "quantile=0.5 is only for aggregate='quantile'"),
        ({"aggregate": "median", "having": "quantile(value) > 3"}, "it is not known which"),
        ({"aggregate": "sum", "having": "count_distinct(value) > 3"}, "need count_distinct and sum of the same key"),
        (
            {"aggregate": "count_distinct", "having": "approx_count_distinct(value) > 3"},
            "need count_distinct and approx_count_distinct",
        ),
        ({"aggregate": "median", "share": True}, "do not add up"),
        (
            {"aggregate": "count", "having": "count(distinct value) > 3", "others": True},
            "partials do not add up to the total of all keys",
        ),
        ({"aggregate": "count_distinct", "key": "k"}, "value=None, but aggregate='count_distinct' needs values"),
        ({"aggregate": "median", "row": True}, "not that of a single row"),
    ],
)
def test_what_cannot_be_computed_is_rejected(fields, said):
    with pytest.raises(sb.InvalidQueryError, match=said):
        sb.AggregateTopK(k=1, size=1, **fields)


def test_values_that_are_no_numbers_have_no_quantile():
    with pytest.raises(sb.InvalidInputError, match="values must be numbers, got type string"):
        replay(sb.AggregateTopK(k=1, size=1, aggregate="median"), None, ["a"], ["x"])


def test_queries_over_data_frames_with_sums_beside_them():
    frame = pa.table(
        {
            "ts": pa.array([1, 2, 3, 4], pa.timestamp("us")),
            "page": ["a", "a", "b", "a"],
            "user": ["x", "y", "x", "x"],
            "took": [1.0, 2.0, 5.0, 7.0],
        }
    )
    asked = {"k": 1, "size": "10 microseconds", "key": "page"}
    queries = [
        sb.AggregateTopK(name="users", aggregate="count_distinct", value="user", **asked),
        sb.AggregateTopK(name="about", aggregate="approx_count_distinct", value="upper(user)", **asked),
        sb.AggregateTopK(name="middle", aggregate="median", value="took", order="asc", **asked),
        sb.AggregateTopK(name="slow", aggregate="quantile", quantile=0.75, value="took", **asked),
        sb.AggregateTopK(name="total", value="took", **asked),
    ]
    found = replay(queries, frame, time="ts").select(["query", "key", "score"]).to_pylist()
    assert [tuple(row.values()) for row in found] == [
        ("users", "a", 2.0),
        ("about", "a", 2.0),
        ("middle", "a", 2.0),
        ("slow", "b", 5.0),
        ("total", "a", 10.0),
    ]


@pytest.mark.parametrize(
    ("sql", "fields"),
    [
        ("TOPK count(DISTINCT user), 5 BY KEY page OVER 1 HOUR", {"aggregate": "count_distinct", "value": "user"}),
        ("TOPK approx_count_distinct(user), 5 BY page OVER 1 HOUR", {"aggregate": "approx_count_distinct"}),
        (
            "SELECT TOP 5 page, median(took) AS m FROM s [RANGE 1 HOUR] GROUP BY page ORDER BY m DESC",
            {"aggregate": "median", "value": "took"},
        ),
        ("TOPK percentile(took, 0.9), 5 BY KEY page OVER 1 HOUR", {"aggregate": "quantile", "quantile": 0.9}),
        ("TOPK quantile(took, 1e-3), 5 BY KEY page OVER 1 HOUR", {"aggregate": "quantile", "quantile": 0.001}),
        (
            "TOPK count(*), 5 BY KEY page HAVING count(DISTINCT user) > 2 OVER 1 HOUR",
            {"aggregate": "count", "items": "values"},
        ),
    ],
)
def test_sql(sql, fields):
    if "HAVING" in sql:
        sql = sql.replace("count(*)", "count(user)", 1)
    query = sb.sql(sql)
    assert {name: getattr(query, name) for name in fields} == fields
    assert sb.sql(str(query)) == query


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("TOPK percentile(took), 5 BY KEY page OVER 1 HOUR", "percentile needs a second argument"),
        ("TOPK percentile(took, x), 5 BY KEY page OVER 1 HOUR", "a number from 0 to 1"),
        ("TOPK percentile(took, 9), 5 BY KEY page OVER 1 HOUR", "between 0"),
        ("TOPK median(took, 0.5), 5 BY KEY page OVER 1 HOUR", "more than one argument"),
    ],
)
def test_sql_that_is_rejected(sql, said):
    with pytest.raises(sb.SkybandError, match=said):
        sb.sql(sql)


def test_explain_says_what_is_held():
    query = sb.AggregateTopK(name="users", k=1, size=3, aggregate="count_distinct")
    assert "one partial per distinct value of a key and pane" in sb.Workload(query).explain()
