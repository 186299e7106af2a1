"""Rows with much text, which would overflow the batches in which Spark passes rows to Python."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as sf

import skyband as sb
from skyband.spark import start, stream_handle, wide_rows
from skyband.spark.query_settings import while_starting
from skyband.spark.wide_rows import BATCH_BYTES
from tests.spark.frames import read_answers, read_stream, write_files

pytestmark = pytest.mark.long
SECOND = 1_000_000
QUERY = sb.TopK(name="q", k=3, size="400 seconds", by="s")


@pytest.fixture
def limits(monkeypatch):
    """The limits of bytes with which queries start, in order."""
    made = []

    def noted(session, settings):
        made.append(settings.get(BATCH_BYTES))
        return while_starting(session, settings)

    monkeypatch.setattr(stream_handle, "while_starting", noted)
    return made


def answered(spark, folder, text, rows=260, **more):
    batches = [[(n * SECOND, float(n * 7 % 261), n, "a") for n in range(low, low + 20)] for low in range(0, rows, 20)]
    write_files(folder / "in", batches)
    frame = spark.readStream.schema("ts timestamp, id long, g string, s double").parquet(str(folder / "in"))
    handle = start(
        text(frame),
        QUERY,
        sinks=[sb.sinks.Parquet(path=str(folder / "out"))],
        checkpoint=str(folder / "state"),
        time="ts",
        id="id",
        watermark="1 second",
        bounded=True,
        **more,
    )
    assert handle.await_end(600, progress=False)
    assert handle.metrics()["rows"] == rows
    return read_answers(folder / "out")


def test_values_of_ten_megabytes(spark, tmp_path, limits):
    """2.6 GB of text in one micro-batch, with a JVM of 1 GB."""
    found = answered(spark, tmp_path, lambda rows: rows.withColumn("text", sf.repeat(sf.lit("x"), 10_000_000)))
    best = sorted(range(260), key=lambda n: -(n * 7 % 261))[:3]
    assert [(row["id"], len(row["text"])) for row in found] == [(number, 10_000_000) for number in best]
    assert limits == [None, str(64 << 20), str(64 << 20)]


@pytest.mark.parametrize("kind", ["text", "bytes", "list", "narrow"])
def test_batches_are_limited_once_a_row_is_wide(spark, tmp_path, limits, monkeypatch, kind):
    monkeypatch.setattr(wide_rows, "_CUT", 1)  # so that each row is in a batch of its own
    column = {
        "text": sf.when(sf.col("id") == 33, sf.repeat(sf.lit("é"), 2049)).otherwise(sf.lit(None)),
        "bytes": sf.repeat(sf.lit("x"), 4097).cast("binary"),
        "list": sf.array(sf.lit("x")),
        "narrow": sf.repeat(sf.lit("x"), 4000),
    }[kind]
    found = answered(spark, tmp_path, lambda rows: rows.withColumn("a `wide` one", column), rows=60)
    assert [row["id"] for row in found] == sorted(range(60), key=lambda n: -(n * 7 % 261))[:3]
    expected = {"list": ["1", "1"], "narrow": [None, None]}.get(kind, [None, "1", "1"])
    assert limits == expected


def test_late_rows_are_wide_too(spark, tmp_path, limits):
    write_files(tmp_path / "in", [[(n * SECOND, 1.0, n, "a") for n in range(100, 120)], [(5 * SECOND, 2.0, 5, "b")]])
    rows = read_stream(spark, tmp_path / "in").withColumn("text", sf.repeat(sf.lit("x"), 5000))
    late = tmp_path / "late"
    for _ in range(2):
        handle = start(
            rows,
            sb.TopK(name="q", k=1, size="10 seconds", by="s"),
            write=lambda out: out.writeStream.format("noop").trigger(availableNow=True),
            late=lambda out: out.writeStream.format("parquet").option("path", str(late)).trigger(availableNow=True),
            checkpoint=str(tmp_path / "state"),
            time="ts",
            watermark="1 second",
        )
        assert handle.await_end(600, progress=False)
    assert [(row.id, len(row.text)) for row in spark.read.parquet(str(late)).collect()] == [(5, 5000)]
    assert str(64 << 20) in limits


def test_a_session_with_a_limit_keeps_it(spark, tmp_path, limits):
    before = spark.conf.get(BATCH_BYTES)
    spark.conf.set(BATCH_BYTES, "8388608")
    try:
        assert answered(spark, tmp_path, lambda rows: rows.withColumn("text", sf.repeat(sf.lit("x"), 5000)), rows=20)
    finally:
        spark.conf.set(BATCH_BYTES, before)
    assert limits == [None, None]
