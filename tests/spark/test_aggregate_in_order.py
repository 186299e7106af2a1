"""Aggregates on Spark whose windows follow from the order of rows: what one process answers, after restarts too."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as sf

import skyband as sb
from skyband.aggregate.verification import by_brute_force
from skyband.spark import answers
from tests.spark.frames import collected
from tests.spark.test_aggregate import drawn, query, run, table  # noqa: F401 - a fixture
from tests.waiting import process_all

pytestmark = pytest.mark.long

COUNTED = [
    query("sum", size=30, slide=10, share=True, others=True),
    query("each", "latest", size=12, slide=5, partition_by=["g"], row=True),
    query("spread", "median", size=20, slide=7, partition_by=["g"], having="count(*) > 1"),
    query("kinds", "count_distinct", size=25, slide=25, order="asc"),
]

SESSIONS = [
    query("visits", gap="2 seconds", partition_by=["g"], share=True, others=True),
    query("newest", "latest", gap="1 second", max_length="5 seconds", partition_by=["g"], row=True),
    query("middle", "median", gap="1 second", max_length="3 seconds", having="count(*) > 1"),
    query("sliding", "max"),
]


def same_rows(found, queries, rows, *names):
    """Whether rows are the answers of a process, and how many there are."""
    local = sb.replay(queries, table(rows), time="ts", id="k").select(names).to_pylist()
    kept = [row.asDict() for row in found.select(*names).collect()]
    assert sorted(map(repr, kept)) == sorted(map(repr, local))
    return len(local)


@pytest.mark.parametrize("queries", [COUNTED, SESSIONS], ids=["count", "session"])
def test_a_stream_that_is_started_again(run, queries):  # noqa: F811
    rows = drawn(14, rows=240, infinite=False)
    run.add(rows[:70])
    first = run.start(queries, id="k")
    process_all(first.query)
    first.stop()
    run.add(rows[70:150], rows[150:])
    run.finish(queries, id="k")
    found = run.spark.read.parquet(str(run.folder / "out"))
    assert same_rows(found, queries, rows, "query", "rank", "key", "score", "share", "v") > 60


@pytest.mark.parametrize("queries", [COUNTED, SESSIONS], ids=["count", "session"])
@pytest.mark.parametrize("id_", ["k", None])
def test_a_batch_and_the_brute_force_of_verify(spark, queries, id_):
    df = spark.createDataFrame(table(drawn(15, rows=200))).repartition(3)
    out = answers(df, queries, time="ts", id=id_, shards=2)
    names = ["query", "g", "window_end", "rank", "key", "score", "share"]
    expected = by_brute_force(df, sb.Workload(queries), time="ts", id_=id_)
    own = sf.when(sf.col("query").isin("each", "spread", "visits", "newest"), sf.col("g")).alias("g")
    rows = collected(out.withColumn("g", own).select(names))
    assert len(rows) > 60
    assert sorted(map(repr, collected(expected.select(names)))) == sorted(map(repr, rows))
