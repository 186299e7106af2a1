"""Answers that this process collects: the same tables as by Spark's own way, in one job for each micro-batch."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

import skyband as sb
from skyband.data.arrow import to_bytes
from skyband.spark.delivery import collecting
from skyband.spark.stream_start import launch
from skyband.spark.tasks import collect_answers
from tests.spark.frames import read_stream, write_files

SECOND = 1_000_000
SCORES = [1.0, -0.0, 0.0, math.inf, -math.inf, math.nan, 2.5, 2.5]
WINDOWS = {"size": "20 seconds", "slide": "5 seconds"}
TOPK = [
    sb.TopK(name="all", k=3, by="s", **WINDOWS),
    sb.TopK(name="low", k=2, by="-s", where="odd", ties="rank", **WINDOWS),
    sb.TopK(name="each", k=1, by="s", partition_by=["g"], **WINDOWS),
]
SUM = [sb.AggregateTopK(name="sum", k=2, key="g", value="id", **WINDOWS)]
KINDS = (
    "*",
    "cast(id as decimal(20, 3)) as exact",
    "cast(s as float) as narrow",
    "cast(id as tinyint) as tiny",
    "cast(ts as date) as day",
    "cast(ts as timestamp_ntz) as local",
    "cast(g as binary) as raw",
    "array(id, null) as several",
    "map(coalesce(g, '-'), ts) as named",
    "struct(ts as at, struct(odd as flag) as deep) as nested",
    "interval '1' day * id as span",
)


def rows():
    """Rows with equal times and scores, nulls, and numbers that are none."""
    return [((100 + n // 2) * SECOND, SCORES[n % len(SCORES)], n, "abc"[n % 3] if n % 5 else None) for n in range(120)]


def by_spark(pipeline, take):
    """The answers as Spark unpacks and collects them."""
    return pipeline.answers.writeStream.foreachBatch(lambda frame, batch: take(frame.toArrow(), batch))


def ran(spark, folder, name, deliver, queries, output):
    found = {}
    handle = launch(
        read_stream(spark, folder / "in").selectExpr(*KINDS),
        queries,
        deliver=lambda pipeline: deliver(pipeline, lambda rows, batch: found.update({batch: rows})).trigger(
            availableNow=True
        ),
        checkpoint=str(folder / name),
        time="ts",
        id_="id" if isinstance(queries[0], sb.TopK) else None,
        watermark="1 second",
        bounded=False,
        algorithm="auto",
        late="count",
        output=output,
        shards=None,
        sole_watermark=True,
    )
    handle.await_end(300, progress=False)
    jobs = spark.sparkContext.statusTracker().getJobIdsForGroup(str(handle.query.runId))
    metrics = {key: value for key, value in handle.metrics().items() if key != "seconds"}
    return found, metrics, len(jobs)


@pytest.mark.parametrize(
    ("queries", "output"),
    [(TOPK, "both"), *(pytest.param(one, "answers", marks=pytest.mark.long) for one in (TOPK, SUM))],
)
def test_collected_answers_are_those_of_spark(spark, tmp_path, queries, output):
    every = rows()
    write_files(tmp_path / "in", [every[low : low + 30] for low in range(0, len(every), 30)])
    expected, counted, _ = ran(spark, tmp_path, "spark", by_spark, queries, output)
    found, metrics, jobs = ran(spark, tmp_path, "ours", collecting, queries, output)
    assert sorted(found) == sorted(expected)
    for batch, table in expected.items():
        assert found[batch].schema.equals(table.schema, check_metadata=True)
        assert repr(found[batch].to_pylist()) == repr(table.to_pylist())  # NaN equals nothing, not even itself
    assert sum(table.num_rows for table in found.values()) > 0
    assert metrics == counted
    assert jobs == metrics["batches"], "a micro-batch is computed once"


@pytest.mark.long
def test_in_a_session_of_another_time_zone(spark, tmp_path):
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        test_collected_answers_are_those_of_spark(spark, tmp_path, TOPK[:1], "answers")
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


def packed(*tables):
    return pa.table({"answers": pa.array([None, *map(to_bytes, tables)], pa.binary())})


def test_columns_get_their_names_and_types():
    kinds = pa.schema([("_1", pa.string()), ("_2", pa.timestamp("us", "UTC"))])
    answers = pa.schema([("g", pa.string()), ("ts", pa.timestamp("us", "UTC"))])
    at = datetime(2026, 11, 17, tzinfo=UTC)
    older = pa.table({"_1": pa.nulls(1), "_2": pa.array([at], pa.timestamp("us", "Asia/Kolkata"))})
    newer = pa.table({"_1": ["a"], "_2": pa.array([at + timedelta(1)], pa.timestamp("us", "UTC"))})
    found = collect_answers(packed(older, newer), kinds, answers)
    assert found.schema == answers
    assert found.to_pylist() == [{"g": None, "ts": at}, {"g": "a", "ts": at + timedelta(1)}]


def test_a_micro_batch_without_answers_has_all_columns():
    answers = pa.schema([("g", pa.string()), ("rank", pa.int64())])
    for none in (packed(), packed().slice(1)):
        found = collect_answers(none, answers, answers)
        assert (found.num_rows, found.schema) == (0, answers)
