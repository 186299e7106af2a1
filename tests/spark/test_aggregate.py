"""Aggregate queries on Spark: what one process answers, from files in disorder, with late rows, after restarts."""

from __future__ import annotations

import datetime as dt
import math
import os
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf

import skyband as sb
from skyband.aggregate.verification import by_brute_force
from skyband.spark import answers, start
from tests.aggregate import oracle
from tests.spark.frames import collected
from tests.waiting import process_all, wait_for

SECOND = 1_000_000
SCHEMA = "ts timestamp, k string, n int, v double, g string"


def query(name, aggregate="sum", **more):
    windows = {} if "gap" in more else {"size": "20 seconds", "slide": "5 seconds"}
    asked = {"k": 3, "key": "k", "value": "v", **windows, **more}
    return sb.AggregateTopK(name=name, aggregate=aggregate, **asked)


QUERIES = [
    query("sum"),
    query("max", "max", size="12 seconds", slide="6 seconds", k=2, full_only=True),
    query("min", "min", size="12 seconds", slide="6 seconds", k=2),
    query("avg", "avg", size="30 seconds", slide="7 seconds", k=9),
    query("often", "count", size="12 seconds"),
    query("spread", "stddev", size="30 seconds", slide="10 seconds"),
    query("newest", "latest", order="asc", having="count(*) > 1"),
    query("oldest", "first", size="12 seconds", slide="6 seconds"),
]


def drawn(seed, rows=300, infinite=True):
    """Rows in order of time, with ties, nulls, values that are hard to add and infinities."""
    random = Random(seed)
    hard = [1.0, 0.1, 0.2, 1e16, -1e16, 2.5, 1e300, -1e300, 1e-200, -0.0, None, math.nan]
    found, position = [], 0
    for number in range(rows):
        position += random.choice([0, 1, 2, 5]) * SECOND // 5
        value = math.inf if infinite and number % 50 == 0 else random.choice(hard)
        key = random.choice(["a", "b", "c", "dddddddddd", "ddddddddde", None])
        # Without ids, rows of a key with the same time are ordered by their values.
        found.append(oracle.Row(position, key, value, random.choice(["x", "y", None]), value))
    return found


def table(rows):
    return pa.table(
        {
            "ts": pa.array([row.position for row in rows], pa.int64()).cast(pa.timestamp("us", "UTC")),
            "k": pa.array([row.key for row in rows], pa.string()),
            "n": pa.array([None if row.key is None else len(row.key) for row in rows], pa.int32()),
            "v": pa.array([row.value for row in rows], pa.float64()),
            "g": pa.array([row.group for row in rows], pa.string()),
        }
    )


def micros(time):
    return (time - dt.datetime(1970, 1, 1, tzinfo=time.tzinfo)) // dt.timedelta(microseconds=1)


def told(rows, queries, group=None):
    """Rows of answers as the oracle has them."""
    places = {one.name: place for place, one in enumerate(queries)}
    found = [
        (
            row["query"],
            row[group] if group else None,
            *(micros(row[name]) for name in ("window_start", "window_end")),
            *(oracle.comparable(row[name]) for name in ("rank", "key", "score")),
        )
        for row in rows
    ]
    return sorted(found, key=lambda row: (row[3], places[row[0]], row[1] is None, row[1] or "", row[4]))


class Run:
    """A source folder, a sink and a checkpoint; may be started again and again."""

    def __init__(self, spark, folder):
        self.spark, self.folder, self.files = spark, folder, 0
        (folder / "in").mkdir()

    def add(self, *batches):
        for batch in batches:
            at = self.folder / f"{self.files:03}.parquet"
            pq.write_table(table(batch), at)
            os.utime(at, (10**9 + self.files, 10**9 + self.files))
            at.rename(self.folder / "in" / at.name)
            self.files += 1

    def start(self, queries, *, watermark="2 seconds", **more):
        source = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(self.folder / "in"))
        return start(
            source,
            queries,
            time="ts",
            watermark=watermark,
            write=lambda out: out.writeStream.format("parquet").option("path", str(self.folder / "out")),
            checkpoint=str(self.folder / "state"),
            **more,
        )

    def finish(self, queries, **more):
        handle = self.start(queries, bounded=True, **more)
        assert handle.await_end(300, progress=False)
        return handle.metrics()

    def found(self, queries, group=None):
        return told(collected(self.spark.read.parquet(str(self.folder / "out"))), queries, group)


@pytest.fixture
def run(spark, tmp_path):
    return Run(spark, tmp_path)


DELETES = [
    query("alive", "latest", delete="g = 'x'"),
    query("low", "latest", delete="g = 'x'", order="asc", having="score < 2", size="12 seconds", slide="6 seconds"),
]


def with_deletes(rows):
    """Rows of group x delete their key; of rows with the same time, deletes are the newest, then larger values."""
    return [
        row._replace(
            delete=row.group == "x",
            id=(row.group == "x", 0.0 if row.value is None or math.isnan(row.value) else row.value),
            group=None,
        )
        for row in rows
    ]


def test_deletes(spark):
    rows = drawn(6)
    out = answers(spark.createDataFrame(table(rows)).repartition(3), DELETES, time="ts")
    assert told(collected(out), DELETES) == oracle.answers(DELETES, with_deletes(rows))


@pytest.mark.long
def test_a_stream_of_deletes_that_is_started_again(run):
    rows = drawn(7)
    run.add(rows[:100], rows[100:150])
    handle = run.start(DELETES)
    process_all(handle.query)
    handle.stop()
    unknown = handle.metrics()["unknown_deletes"]
    run.add(rows[150:])
    unknown += run.finish(DELETES)["unknown_deletes"]
    monitor = sb.aggregate.Monitor(DELETES, time="ts")
    monitor.push(table(rows))
    monitor.finish()
    assert unknown == monitor.metrics()["unknown_deletes"] > 10
    assert run.found(DELETES) == oracle.answers(DELETES, with_deletes(rows))


@pytest.mark.long
def test_brute_force_of_newest_values(spark):
    df = spark.createDataFrame(table(drawn(8, rows=150)))
    asked = [*DELETES, query("plain", "latest", having="first(v) <> 1"), query("oldest", "first")]
    expected = by_brute_force(df, sb.Workload(asked), time="ts", id_=None)
    names = ["query", "window_end", "rank", "key", "score"]
    rows = collected(answers(df, asked, time="ts").select(names))
    assert sorted(map(repr, collected(expected.select(names)))) == sorted(map(repr, rows))


def test_batch(spark):
    rows = drawn(1)
    out = answers(spark.createDataFrame(table(rows)).repartition(3), QUERIES, time="ts")
    assert out.columns == ["query", "window_start", "window_end", "rank", "key", "score"]
    assert told(collected(out), QUERIES) == oracle.answers(QUERIES, rows)


def test_stddev_is_the_sample_one_of_spark(spark):
    random = Random(9)
    rows = [oracle.Row(n * SECOND, random.choice("abcdef"), random.gauss(1000, 3)) for n in range(200)]
    frame = spark.createDataFrame(table(rows))
    asked = query("spread", "stddev", k=10, size="10 seconds", slide="10 seconds")
    found = {(row["window_end"], row["key"]): row["score"] for row in collected(answers(frame, asked, time="ts"))}
    theirs = frame.groupBy(sf.window("ts", "10 seconds").end.alias("end"), "k").agg(sf.stddev("v").alias("spread"))
    expected = {(row["end"], row["k"]): row["spread"] for row in collected(theirs) if row["spread"] is not None}
    assert found == pytest.approx(expected, rel=1e-9)
    assert len(found) < theirs.count(), "a key with one value has no deviation, here as there"


def test_several_feeds_in_one_workload(spark):
    rows = drawn(2)
    queries = [
        query("all"),
        query("of group", partition_by=["g"]),
        query("some", "count", where="v > 0", value=None),
        query("hour", key="upper(k)", size="1 hour", slide="1 hour"),
    ]
    found = collected(answers(spark.createDataFrame(table(rows)), queries, time="ts"))
    in_some = [row for row in rows if row.value is not None and not row.value <= 0]  # NaN is greater than all, to Spark
    upper = [row._replace(key=row.key and row.key.upper()) for row in rows]
    expected = {
        "all": oracle.answers(queries[:1], rows),
        "of group": oracle.answers(queries[1:2], rows, grouped=True),
        "some": oracle.answers(queries[2:3], in_some, valued=False),
        "hour": oracle.answers(queries[3:], upper),
    }
    for name, wanted in expected.items():
        mine = [row for row in found if row["query"] == name]
        assert told(mine, queries, "g") == wanted, name


@pytest.mark.parametrize("bounded", [pytest.param(one, marks=pytest.mark.long) for one in (False, True)])
def test_a_stream_in_disorder_with_a_late_row(run, bounded):
    """A stream that is followed drops the late row and counts it; a bounded one has none."""
    rows = drawn(3)
    # Neighbours are swapped within the delay; one row comes when its panes are long gone.
    batches = [rows[low : low + 60] for low in range(0, 300, 60)]
    mixed = [sorted(batch, key=lambda row: (row.position // (2 * SECOND), row.value is None)) for batch in batches]
    late = oracle.Row(rows[30].position, "a", 7.0, None, 7.0)
    run.add(*mixed[:4], [*mixed[4], late])
    if bounded:
        metrics = run.finish(QUERIES)
    else:
        handle = run.start(QUERIES)
        handle.finish()
        metrics = handle.metrics()
    accepted = sorted([*rows, late], key=lambda row: row.position) if bounded else rows
    wanted = oracle.answers(QUERIES, accepted)
    assert run.found(QUERIES) == wanted
    missing = sum(not oracle.is_object(row, False, True) for row in rows)
    assert (metrics["rows"], metrics["dropped_null"], metrics["late"]) == (301, missing, 0 if bounded else 1)
    assert metrics["answers"] == len(wanted)
    assert metrics["candidates"] == 0


def test_restart_in_mid_stream_gives_every_answer_once(run):
    rows = drawn(4, infinite=False)
    grouped = [query("of group", partition_by=["g"]), query("high", "max", partition_by=["g"], size="10 seconds")]
    run.add(rows[:100])
    first = run.start(grouped)
    process_all(first.query)
    first.stop()
    run.add(rows[100:200], rows[200:])
    added = query("joined", "min", partition_by=["g"], k=1)
    run.finish([*grouped, added])
    expected = oracle.answers([*grouped, added], rows, grouped=True)
    joined = rows[99].position  # a query that is new answers windows that begin after all rows seen
    expected = [row for row in expected if row[0] != "joined" or row[2] > joined]
    assert run.found([*grouped, added], "g") == expected
    with pytest.raises(sb.SnapshotError, match="feeds="):
        run.start([query("other", key="n")])


@pytest.mark.long
def test_flush_and_advance_end_windows_without_rows(run):
    rows = [oracle.Row(SECOND, "a", 1.0), oracle.Row(3 * SECOND, "b", 2.0)]
    run.add(rows)
    asked = [query("sum", size="10 seconds", slide="10 seconds")]
    handle = run.start(asked)
    handle.advance(9 * SECOND)
    process_all(handle.query)
    assert handle.metrics()["answers"] == 0
    run.add([oracle.Row(9 * SECOND, "a", 5.0)])
    process_all(handle.query)
    handle.flush()
    wait_for(lambda: handle.metrics()["answers"])
    handle.stop()
    assert run.found(asked) == oracle.answers(asked, [*rows, oracle.Row(9 * SECOND, "a", 5.0)])


@pytest.mark.long
def test_rows_come_back_whole_after_a_restart(run):
    rows = drawn(6, rows=120, infinite=False)
    asked = [query(kind, kind, row=True, where="g is not null") for kind in ("max", "latest")]
    asked.append(query("each", partition_by=["g"]))  # for the others, g is a column of the row
    run.add(rows[:60])
    first = run.start(asked, id="k")
    process_all(first.query)
    first.stop()
    run.add(rows[60:])
    run.finish(asked, id="k")
    found = (
        run.spark.read.parquet(str(run.folder / "out"))
        .drop("ts")
        .orderBy("window_end", "query", sf.when(sf.expr("query = 'each'"), sf.col("g")), "rank")
    )
    local = sb.replay(asked, table(rows), time="ts", id="k").drop_columns(["ts"])
    expected = local.to_pylist()
    expected.sort(key=lambda row: (row["window_end"], row["query"], row["query"] == "each" and (row["g"] or "")))
    assert [{**row.asDict(), "window_start": None, "window_end": None} for row in found.collect()] == [
        {**row, "window_start": None, "window_end": None} for row in expected
    ]
    whole = [row for row in expected if row["query"] != "each"]
    assert all(row["g"] is not None and row["v"] == row["score"] for row in whole)
    with pytest.raises(sb.SnapshotError, match=r"was written with feeds=.* cannot be resumed"):
        run.start([query("sum", where="g is not null")])


@pytest.mark.long
def test_windows_that_grow_after_a_restart(run):
    rows = drawn(8, rows=150, infinite=False)
    asked = [
        query("so far", size="30 seconds", cumulative=True, others=True),
        query("ever", "latest", size=None, slide="15 seconds", row=True),
        query("sliding", "max"),
    ]
    run.add(rows[:60])
    first = run.start(asked, id="k")
    process_all(first.query)
    first.stop()
    run.add(rows[60:])
    run.finish(asked, id="k")
    found = run.spark.read.parquet(str(run.folder / "out")).orderBy("window_end", "query", "rank")
    names = ["query", "window_end", "rank", "key", "score", "v"]
    local = sb.replay(asked, table(rows), time="ts", id="k").select(names)
    expected = sorted(local.to_pylist(), key=lambda row: (row["window_end"], row["query"], row["rank"]))
    assert [{**row.asDict(), "window_end": None} for row in found.select(names).collect()] == [
        {**row, "window_end": None} for row in expected
    ]
    assert len(expected) > 60


def test_keys_of_other_types(spark):
    rows = drawn(5, rows=80)
    asked = query("length", "count", key="n", value=None)
    found = told(collected(answers(spark.createDataFrame(table(rows), SCHEMA), asked, time="ts")), [asked])
    numbered = [row._replace(key=None if row.key is None else len(row.key)) for row in rows]
    assert found == oracle.answers([asked], numbered, valued=False)


def test_whole_numbers_that_are_not_exact_stop_the_query(spark):
    df = spark.createDataFrame(table(drawn(8, rows=60)), SCHEMA)
    small = answers(df, query("small", value="cast(n as bigint)"), time="ts")
    assert small.count() > 0
    with pytest.raises(PySparkException, match=r"beyond 2\*\*53[^\n]* The value is -?\d{16,}, with key [a-d]+\."):
        answers(df, query("large", value="cast(n as bigint) * 9007199254740993"), time="ts").collect()


def test_more_keys_than_a_limit_stop_the_query(spark):
    df = spark.createDataFrame(table(drawn(8, rows=60)), SCHEMA)
    asked = query("all", "count", value=None, max_keys=60)
    assert collected(answers(df, asked, time="ts", shards=2))
    few = query("few", "count", value=None, max_keys=1)
    with pytest.raises(PySparkException, match=r"query 'few' has max_keys=1, but .* in one of 2 shards\. No answer"):
        answers(df, few, time="ts", shards=2).collect()


def test_times_without_a_zone(spark):
    rows = drawn(8, rows=60)
    df = spark.createDataFrame(table(rows), SCHEMA).selectExpr("cast(ts as timestamp_ntz) as ts", "k", "v")
    asked = query("sum", origin=1)
    assert told(collected(answers(df, asked, time="ts")), [asked]) == oracle.answers([asked], rows)


def test_what_cannot_be_answered_is_refused(spark):
    df = spark.createDataFrame(table(drawn(6, rows=5)), SCHEMA)
    for asked, said, more in [
        (query("x", key=None), "no key=", {}),
        (query("x", value="k"), "value must be numeric", {}),
        (query("x", key="array(k)"), "larger key", {}),
        ([query("x"), query("y", key="n")], "one key column", {}),
    ]:
        with pytest.raises(sb.SkybandError, match=said):
            answers(df, asked, time="ts", **more)


@pytest.mark.long
def test_a_stream_with_a_watermark_of_its_own(spark, run):
    rows = drawn(7, rows=60)
    run.add(rows)
    stream = spark.readStream.schema(SCHEMA).parquet(str(run.folder / "in")).withWatermark("ts", "1 second")
    handle = start(
        stream,
        QUERIES,
        time="ts",
        write=lambda out: out.writeStream.format("parquet").option("path", str(run.folder / "out")),
        checkpoint=str(run.folder / "state"),
        bounded=True,
    )
    assert handle.await_end(300, progress=False)
    assert run.found(QUERIES) == oracle.answers(QUERIES, rows)
