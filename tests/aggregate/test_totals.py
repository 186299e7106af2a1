"""Shares and the row of other keys; random cases are in the tests of the monitor, the shards and brute force."""

from __future__ import annotations

import io

import numpy as np
import pytest

import skyband as sb
from skyband.aggregate import Monitor, replay


def test_the_rest_is_exact():
    query = sb.AggregateTopK(k=1, size=5, others=True, share=True)
    keys, values = ["a", "b", "c", "d", "e"], [3e300, 1e300, 0.1, -1e300, 0.2]
    assert replay(query, None, keys, values).select(["rank", "key", "score", "share"]).to_pylist() == [
        {"rank": 1, "key": "a", "score": 3e300, "share": 1.0},
        {"rank": 2, "key": None, "score": 0.1 + 0.2, "share": (0.1 + 0.2) / 3e300},
    ]


def test_there_is_no_rest_without_other_keys():
    query = sb.AggregateTopK(k=2, size=2, aggregate="count", others=True, share=True)
    assert replay(query, None, ["a", "b"])["share"].to_pylist() == [0.5, 0.5]


def test_columns_that_nobody_requests_are_absent():
    assert "share" not in replay(sb.AggregateTopK(k=2, size=2, others=True), None, ["a", "b"], [1, 2]).column_names


@pytest.mark.parametrize("field", ["others", "share"])
@pytest.mark.parametrize("aggregate", ["avg", "max", "stddev", "latest"])
def test_other_aggregates_do_not_add_up(field, aggregate):
    with pytest.raises(sb.InvalidQueryError, match=f"{field}=True.*do not add up"):
        sb.AggregateTopK(k=1, size=1, aggregate=aggregate, **{field: True})


def test_wider_values_while_answers_wait():
    monitor = Monitor(sb.AggregateTopK(k=1, size=2, others=True))
    monitor.push(None, ["a", "b", "a"], [1.0, 2.0, 3.0])
    monitor.push(None, ["b", "c", "d"], [1e300, 1e-300, 5e-324])
    assert monitor.answers()["score"].to_pylist() == [2.0, 1.0, 1e300, 3.0, 1e-300, 5e-324]


@pytest.mark.parametrize(
    "sql",
    [
        "TOPK sum(v), 3 BY KEY k OVER 1 HOUR WITH OTHERS WITH SHARE",
        "SELECT k, sum(v) FROM s [RANGE 1 HOUR] GROUP BY k ORDER BY sum(v) DESC LIMIT 3 WITH OTHERS WITH SHARE",
    ],
)
def test_sql(sql):
    query = sb.sql(sql)
    assert (query.others, query.share) == (True, True)
    assert query.to_sql() == "TOPK sum(v), 3 BY KEY k OVER 1 HOUR WITH OTHERS WITH SHARE"


def test_many_groups():
    count = 3000
    query = sb.AggregateTopK(k=1, size="10 seconds", aggregate="count", partition_by="g", others=True)
    at, keys, groups = np.arange(2 * count), np.arange(2 * count) % 7, np.arange(2 * count) // 2
    found = replay(query, at, keys, groups=groups)
    assert found["score"].to_pylist() == [1.0] * (2 * count)
    assert found["key"].null_count == count


def test_the_terminal_names_the_rest():
    from rich.console import Console

    from skyband.cli.terminal import window_table

    query = sb.AggregateTopK(k=1, size=3, aggregate="count", others=True)
    console = Console(width=80, file=io.StringIO())
    console.print(window_table(query, replay(query, None, ["a", "a", "b"]), 5))
    assert "(all others)" in console.file.getvalue()


def test_other_words_after_with_are_rejected():
    with pytest.raises(sb.SkybandError, match="OTHERS or SHARE"):
        sb.sql("SELECT k, sum(v) FROM s [RANGE 1 HOUR] GROUP BY k ORDER BY sum(v) DESC LIMIT 3 WITH REST")


def test_explain_names_the_queries_with_totals():
    queries = [sb.AggregateTopK(name="a", k=1, size=3, share=True), sb.AggregateTopK(name="b", k=1, size=3)]
    assert "added up at each window end of a\n" in sb.Workload(queries).explain()
