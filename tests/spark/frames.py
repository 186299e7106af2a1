"""Rows ``(position, score, id, group)`` as Spark's data frames and files, and answers back as plain values."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = "ts timestamp, id long, g string, s double, odd boolean"


def table(rows):
    """What a query of `tests.sharding.cases` is told of: ``s`` is the score, ``g`` the group, ``odd`` the filter."""
    ts, scores, ids, groups = list(zip(*rows, strict=True)) if rows else ([], [], [], [])
    return pa.table(
        {
            "ts": pa.array(ts, pa.int64()).cast(pa.timestamp("us", "UTC")),
            "id": pa.array(ids, pa.int64()),
            "g": pa.array(groups, pa.string()),
            "s": pa.array(scores, pa.float64()),
            "odd": pa.array([id_ % 2 == 1 for id_ in ids], pa.bool_()),
        }
    )


def frame(spark, rows, partitions=3):
    """The rows as a batch data frame of several partitions."""
    return spark.createDataFrame(table(rows), SCHEMA).repartition(partitions)


def write_files(folder, batches, begin=0):
    """A file for each batch. Spark reads the older file first, so that each is a second older than the next."""
    folder.mkdir(exist_ok=True)
    for number, batch in enumerate(batches, begin):
        at = folder / f".{number:03}.parquet"
        pq.write_table(table(batch), at)
        os.utime(at, (1_000_000_000 + number, 1_000_000_000 + number))
        at.rename(folder / f"{number:03}.parquet")


def read_stream(spark, folder):
    """The files as a stream, one a micro-batch."""
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))


def collected(out):
    """The rows of a data frame as dictionaries."""
    return out.toArrow().to_pylist()


def read_sink(folder):
    """The rows of a parquet sink without Spark. Only what it lists counts: dead tasks may have left other files."""
    logs = sorted((folder / "_spark_metadata").glob("[0-9]*"))
    lines = [line for log in logs for line in log.read_text().splitlines()[1:]]
    files = sorted({"/" + json.loads(line)["path"].removeprefix("file:").lstrip("/") for line in lines})
    return [
        row for file in files for row in _in_utc(pq.ParquetFile(Path(file), coerce_int96_timestamp_unit="us").read())
    ]


def read_answers(folder):
    """The rows of the parquet files that a job has written, in the order of micro-batches."""
    return [row for path in sorted(folder.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


def read_lines(folder, files="*.jsonl"):
    """The lines of JSON that a job has written."""
    return [json.loads(line) for path in sorted(folder.glob(files)) for line in path.read_text().splitlines()]


def _in_utc(found):
    for number, field in enumerate(found.schema):
        if pa.types.is_timestamp(field.type):
            found = found.set_column(number, field.name, found[field.name].cast(pa.timestamp("us", "UTC")))
    return found.to_pylist()
