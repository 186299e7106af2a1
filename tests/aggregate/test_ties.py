"""`ties="rank"` of keys: all with the k-th score; the random cases of the other tests have it, too."""

from __future__ import annotations

import pyarrow as pa
import pytest

import skyband as sb
from skyband.aggregate import Monitor, replay

VISITS = ["ann", "bob", "ann", "cid", "dan", "bea"]


def ranked(table):
    return list(zip(table["rank"].to_pylist(), table["key"].to_pylist(), strict=True))


def test_all_keys_with_the_kth_score_are_included():
    query = sb.AggregateTopK(k=2, size=6, aggregate="count", ties="rank")
    assert ranked(replay(query, None, VISITS)) == [(1, "ann"), (2, "bea"), (2, "dan"), (2, "cid"), (2, "bob")]


def test_queries_with_and_without_ties_share_a_ranking():
    queries = [
        sb.AggregateTopK(name=f"{ties} {k}", k=k, size=6, aggregate="count", ties=ties)
        for ties in ("row_number", "rank")
        for k in (1, 2, 9)
    ]
    table = replay(queries, None, VISITS)
    counts = {row["values"]: row["counts"] for row in pa.compute.value_counts(table["query"]).to_pylist()}
    assert counts == {"row_number 1": 1, "row_number 2": 2, "row_number 9": 5, "rank 1": 1, "rank 2": 5, "rank 9": 5}


def test_the_row_of_other_keys_shares_no_rank():
    query = sb.AggregateTopK(k=1, size=4, aggregate="count", ties="rank", others=True, having="count(*) >= 2")
    assert ranked(replay(query, None, ["a", "a", "b", "c"])) == [(1, "a"), (2, None)]  # two rows of other keys
    by_parts = replay(query, None, {"x": ["a", "a", "b", "c"], "y": [1, 1, 2, 3]})
    assert by_parts.select(["rank", "x", "y"]).to_pylist()[1] == {"rank": 2, "x": None, "y": None}


def test_more_ties_than_a_buffer_has_rows():
    query = sb.AggregateTopK(k=2, size=40_000, aggregate="count", ties="rank")
    monitor = Monitor(query)
    monitor.push(None, list(range(40_000)))
    table = monitor.answers()
    assert table.num_rows == 40_000
    assert set(table["rank"].to_pylist()) == {1}
    assert monitor.metrics()["windows"] == 1


@pytest.mark.parametrize(
    ("more", "scores"),
    [({"method": "sketch"}, "upper bounds"), ({"half_life": "1 minute"}, "rounded from weights")],
)
def test_scores_that_are_not_exact_share_no_ranks(more, scores):
    with pytest.raises(sb.InvalidQueryError, match=f"ties='rank' and .* scores are {scores}"):
        sb.AggregateTopK(k=2, size="1 hour", aggregate="count", ties="rank", **more)


def test_stored_queries_without_ties_have_no_such_field():
    query = sb.AggregateTopK(k=2, size=6, aggregate="count")
    assert "ties" not in query.to_dict()
    tied = sb.AggregateTopK(**{**query.to_dict(), "ties": "rank"})
    assert sb.AggregateTopK(**tied.to_dict()) == tied != query


def test_explain_names_the_queries():
    query = sb.AggregateTopK(name="top", k=2, size="1 hour", key="page", aggregate="count", ties="rank")
    assert "equal scores share a rank" in str(sb.Workload([query]).explain())
