"""Keys of several columns, shares and other keys on Spark: the answers of the oracle, and brute force in Spark SQL."""

from __future__ import annotations

import pytest

import skyband as sb
from skyband.aggregate.verification import by_brute_force
from skyband.spark import answers
from tests.aggregate import oracle
from tests.spark.frames import collected
from tests.spark.test_aggregate import Run, drawn, query, table, told
from tests.waiting import process_all


def listed(rows, names):
    return sorted([tuple(oracle.comparable(row[name]) for name in names) for row in rows], key=repr)


@pytest.mark.long
def test_several_keys_with_shares_and_the_rest(spark):
    rows = drawn(5, rows=200)
    keys = ["k", "n"]
    queries = [
        query("plain", key=keys),
        query("rest", key=keys, others=True, share=True, k=2),
        query("often", "count", key=keys, value=None, others=True, partition_by=["g"], having="count(*) > 1", k=1),
        query("low", key=keys, order="asc", others=True, share=True, k=1),
    ]
    frame = spark.createDataFrame(table(rows))
    out = answers(frame.repartition(3), queries, time="ts", shards=2)
    assert out.columns == ["query", "g", "window_start", "window_end", "rank", "k", "n", "score", "share"]
    found = collected(out)
    for one in queries:
        mine = [{**row, "key": row["k"]} for row in found if row["query"] == one.name]
        objects = rows if one.value else [row._replace(value=1.0) for row in rows]
        wanted = oracle.answers([one], objects, grouped=bool(one.partition_by), valued=True)
        assert told(mine, queries, "g") == [row[:7] for row in wanted], one.name
        if one.share:
            by_rank = sorted(mine, key=lambda row: (row["window_end"], row["rank"]))
            assert [row["share"] for row in by_rank] == [row[7] for row in wanted]
        assert all(row["n"] == (None if row["k"] is None else len(row["k"])) for row in mine)
    names = ["query", "g", "window_end", "rank", "k", "n", "score", "share"]
    theirs = by_brute_force(frame, sb.Workload(queries), time="ts", id_=None)
    assert listed(collected(theirs), names) == listed(found, names)


def test_distinct_values_and_quantiles(spark):
    rows = [row._replace(id=None) for row in drawn(7, rows=250, infinite=False)]
    queries = [
        query("values", "count_distinct", having="count(*) > 1"),
        query("about", "approx_count_distinct", size="12 seconds"),
        query("middle", "median", order="asc"),
        query("high", "quantile", quantile=0.8, size="12 seconds"),
        query("total"),
    ]
    frame = spark.createDataFrame(table(rows)).repartition(3)
    found = collected(answers(frame, queries, time="ts", shards=2))
    assert told(found, queries) == oracle.answers(queries, rows)
    lengths = query("lengths", "count_distinct", value="n", key="g", k=2)
    texts = query("texts", "count_distinct", value="k", key="g", k=2)
    mine = collected(answers(frame, [lengths, texts], time="ts", shards=2))
    theirs = collected(by_brute_force(frame, sb.Workload([lengths, texts]), time="ts", id_=None))
    names = ["query", "window_end", "rank", "key", "score"]
    assert listed(mine, names) == listed(theirs, names)


@pytest.mark.long
def test_distinct_values_after_a_restart(spark, tmp_path):
    run, rows = Run(spark, tmp_path), drawn(8, rows=200, infinite=False)
    queries = [query("values", "count_distinct"), query("about", "approx_count_distinct"), query("middle", "median")]
    run.add(rows[:100])
    first = run.start(queries)
    process_all(first.query)
    first.stop()
    run.add(rows[100:])
    run.finish(queries)
    assert run.found(queries) == oracle.answers(queries, rows)
