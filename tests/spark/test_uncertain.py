"""Uncertain streams on Spark: what one process answers, from files in any order, after a restart; and bad input."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.spark import answers, start
from tests.spark.frames import read_sink

SCHEMA = "ts timestamp, sighting long, size double, sure double, berg string"
SHARED = {"by": "size", "probability": "sure", "rule": "berg", "size": "20 seconds"}
QUERIES = [
    sb.UncertainTopK(name="often", k=2, every="2 seconds", **SHARED),
    sb.UncertainTopK(name="deep", k=5, every="6 seconds", **SHARED),
]


def some_rows(n=200):
    rng = np.random.default_rng(6)
    return pa.table(
        {
            "ts": pa.array(np.cumsum(rng.integers(1, 400_000, n)) + 1_000_000).cast(pa.timestamp("us", "UTC")),
            "sighting": np.arange(n),
            "size": rng.integers(0, 30, n).astype(float),
            "sure": rng.integers(1, 10, n) / 100,
            "berg": [f"b{number}" if number < 9 else None for number in rng.integers(0, 12, n)],
        }
    )


def expected(rows):
    out = sb.uncertain.replay(QUERIES, *(rows[name] for name in ("ts", "size", "sure", "berg", "sighting")))
    return [told(row) for row in out.to_pylist()]


def told(row):
    return row["query"], row["time"].timestamp(), row["rank"], row["id"], row["score"], round(row["probability"], 12)


def in_order(rows):
    places = {query.name: place for place, query in enumerate(QUERIES)}
    return sorted(map(told, rows), key=lambda row: (row[1], places[row[0]], row[2]))


def test_a_batch_data_frame(spark):
    rows = some_rows()
    out = answers(spark.createDataFrame(rows, SCHEMA).repartition(3), QUERIES, time="ts", id="sighting")
    assert out.columns == ["query", "time", "rank", "id", "score", "probability"]
    assert in_order(out.toArrow().to_pylist()) == expected(rows)


def test_a_stream_that_is_stopped_in_between(spark, tmp_path):
    rows = some_rows()
    folder = tmp_path / "in"
    folder.mkdir()

    def write(low, high, number):
        at = folder / f"{number}.parquet"
        pq.write_table(rows.slice(low, high - low), folder / ".part")
        (folder / ".part").rename(at)
        os.utime(at, (1_000_000_000 + number, 1_000_000_000 + number))

    def run(**more):
        handle = start(
            spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder)),
            QUERIES,
            time="ts",
            id="sighting",
            watermark="0 seconds",
            write=lambda out: (
                out.writeStream.format("parquet").option("path", str(tmp_path / "out")).trigger(availableNow=True)
            ),
            checkpoint=str(tmp_path / "checkpoint"),
            **more,
        )
        assert handle.await_end(180)
        return handle.metrics()

    write(0, 60, 0)
    write(60, 110, 1)
    run()
    write(110, 200, 2)
    metrics = run(bounded=True)
    assert in_order(read_sink(tmp_path / "out")) == expected(rows)
    assert metrics["late"] == 0
    assert metrics["algorithm"] == "greedy"


@pytest.mark.parametrize(
    ("change", "asked", "said"),
    [
        ({"probability": None, "by": None}, {}, "needs by= and probability="),
        ({"probability": "berg"}, {}, "a probability must be a number"),
        ({}, {"algorithm": "mintopk"}, "is no plan of uncertain queries"),
        ({}, {"shards": 2}, "depends on all tuples"),
        ({}, {"output": "changes"}, "is for top-k queries"),
    ],
)
def test_what_cannot_be_answered(spark, change, asked, said):
    query = sb.UncertainTopK(**{**QUERIES[0].to_dict(), **change})
    with pytest.raises(sb.SkybandError, match=said):
        answers(spark.createDataFrame([], SCHEMA), query, time="ts", **asked)
