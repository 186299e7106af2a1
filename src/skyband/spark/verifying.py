"""A bounded input through the pipeline and by brute force: do the two agree?"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from time import monotonic
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from skyband.sharding.answering import ANSWER_COLUMNS
from skyband.spark.checking import Difference, by_brute_force, compare
from skyband.spark.running import Handle, launch
from skyband.spark.scoring import quoted
from skyband.spark.sources import files_of, open_batch, open_stream
from skyband.workfile import WorkloadFile

__all__ = ["Verified", "verify"]

BATCHES = 5  # that the input is cut into, where it has as many files


class Verified(NamedTuple):
    """What was compared, and how it turned out."""

    rows: int
    windows: int
    batches: int
    late: int  # rows behind the file's watermark; they were let in for the comparison
    difference: Difference
    seconds: float  # in the pipeline
    seconds_by_brute_force: float

    @property
    def agrees(self) -> bool:
        """Whether every answer is the same."""
        return not self.difference.missing and not self.difference.unexpected


def verify(
    spark: SparkSession, file: WorkloadFile, stream: str, told: Callable[[str], None] = lambda _: None
) -> Verified:
    """Answer a stream's files as a stream, in several micro-batches, and again by brute force; compare all answers.

    Brute force knows no watermark. Where rows are late, the stream is run again with a watermark that lets all in.
    `told` is given a line on what is done next.
    """
    rows = open_batch(spark, stream, file.streams[stream])
    folder = Path(mkdtemp(prefix="skyband-verify-"))
    try:
        told(f"{stream}: answering in one pass…")
        began = monotonic()
        handle = _answer(spark, file, stream, folder / "first", file.streams[stream].watermark)
        late = int(handle.metrics()["late"])
        out = folder / "first"
        if late:
            told(f"{stream}: {late:,} rows were late; answering again with a watermark that lets them in…")
            out, began = folder / "second", monotonic()
            handle = _answer(spark, file, stream, out, _span(rows, file.streams[stream].time))
        seconds = monotonic() - began
        told(f"{stream}: answering by brute force, and comparing…")
        began = monotonic()
        difference = _compared(spark, file, stream, rows, out)
        return Verified(
            rows=int(handle.metrics()["rows"]),
            windows=int(handle.metrics()["windows"]),
            batches=int(handle.metrics()["batches"]),
            late=late,
            difference=difference,
            seconds=seconds,
            seconds_by_brute_force=monotonic() - began,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _answer(spark: SparkSession, file: WorkloadFile, name: str, folder: Path, watermark: str) -> Handle:
    stream, engine = file.streams[name], file.engine
    handle = launch(
        open_stream(spark, name, stream, files_per_batch=max(1, len(files_of(stream)) // BATCHES)),
        file.workloads[name],
        write=lambda out: out.writeStream.format("parquet").option("path", str(folder / "answers")),
        checkpoint=str(folder / "state"),
        time=str(stream.time),
        id_=stream.id,
        watermark=watermark,
        bounded=True,
        algorithm=file.algorithm_of(name),
        late="count",
        output="answers",
        shards=engine.shards,
    )
    handle.await_end(progress=False)
    return handle


def _span(rows: DataFrame, time: str | None) -> str:
    """A watermark behind which no row can come."""
    at = sf.unix_micros(sf.col(quoted(str(time))).cast("timestamp"))
    found = rows.agg((sf.max(at) - sf.min(at)).alias("span")).first()
    return f"{int(found[0] or 0) // 1000 + 1000 if found else 1000} milliseconds"


def _compared(spark: SparkSession, file: WorkloadFile, name: str, rows: DataFrame, folder: Path) -> Difference:
    stream, workload = file.streams[name], file.workloads[name]
    time, id_ = _spelled(rows, str(stream.time)), stream.id and _spelled(rows, stream.id)
    expected = by_brute_force(rows, workload, time=time, id_=id_)
    grouped = {text.lower() for query in workload for text in query.partition_by}
    told = {"__time": time, **({"__id": id_} if id_ else {})}
    for column, own in list(told.items()):
        if own.lower() in grouped:  # answers without groups have nulls there, and cannot be told apart by it
            expected, told = expected.drop(column), {key: value for key, value in told.items() if key != column}
    if not list((folder / "answers").glob("*.parquet")):
        return compare(expected, expected.limit(0))
    found = spark.read.parquet(str(folder / "answers"))
    columns: list[Any] = [sf.col(quoted(column)) for column in expected.columns if column not in told]
    columns += [sf.col(quoted(_in_answers(own))).alias(column) for column, own in told.items()]
    return compare(expected, found.select(*columns))


def _spelled(rows: DataFrame, name: str) -> str:
    return next((known for known in rows.columns if known.lower() == name.lower()), name)


def _in_answers(column: str) -> str:
    """The name of a row's column in answers."""
    return f"row_{column}" if column.lower() in ANSWER_COLUMNS else column
