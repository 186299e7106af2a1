"""Compare the answers of a job over a bounded input, or stored answers, with brute force over all rows."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from time import monotonic
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from skyband.connectors.files import FilesSource, ParquetSink
from skyband.connectors.sources import open_batch
from skyband.errors import InvalidInputError, UnsupportedError
from skyband.jobs.job import run
from skyband.jobs.verified import Verified, in_answers, returning, stored_files, written_to
from skyband.queries.answer_schema import moment_of
from skyband.queries.families import family_of
from skyband.queries.workload import Workload
from skyband.sharding.emission import FINAL, REVISION, marks_in
from skyband.spark.expressions import quoted
from skyband.topk.verification import compare, rounded
from skyband.workload_file import WorkloadFile

__all__ = ["Verified", "verify"]


def verify(
    spark: SparkSession,
    file: WorkloadFile,
    stream: str,
    progress: Callable[[str], None] = lambda _: None,
    *,
    answers: Path | None = None,
    unfinished: bool = False,
    joined: bool = False,
) -> Verified:
    """Compare the answers of a stream with brute force over all of its rows in plain Spark SQL.

    Without `answers`, they are computed as `run(file, "once")` does, with the file's settings. Otherwise `answers` is
    a folder that a run of the file has written to. With `unfinished`, windows after the newest one of each query can be
    missing; with `joined`, windows before its first one, because queries joined later. `progress` receives a line
    before each step.
    """
    source = file.streams[stream]
    if isinstance(source, FilesSource) and source.skips_unreadable:
        raise UnsupportedError(
            f"stream {stream!r}: unreadable_files: dead_letters is not supported by verify on Spark, because brute "
            "force reads the files with Spark's reader. Use verify --local."
        )
    if isinstance(source, FilesSource) and source.by_tasks_only is not None:
        raise UnsupportedError(
            f"stream {stream!r} is not supported by verify on Spark, because brute force reads the files with Spark's "
            f"reader. {source.by_tasks_only} Use verify --local."
        )
    workload, rows = file.workloads[stream], open_batch(spark, stream, source)
    if answers is not None:
        workload = written_to(file, stream, answers)
        given = {"unfinished": unfinished, "joined": joined}
        return _compared(file, stream, workload, rows, _read(spark, stream, answers), progress, **given)
    folder = Path(mkdtemp(prefix="skyband-verify-"))
    try:
        progress(f"{stream}: computing the answers in one pass…")
        began = monotonic()
        metrics = _answer(spark, file, stream, folder)
        seconds = monotonic() - began
        found = _compared(file, stream, workload, rows, _read(spark, stream, folder), progress)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return found._replace(windows=metrics["windows"], dropped_null=metrics["dropped_null"], seconds=seconds)


def _answer(spark: SparkSession, file: WorkloadFile, stream: str, folder: Path) -> dict[str, Any]:
    """Run the file once for one stream, with its settings, into `folder`; return the metrics."""
    mine = replace(
        file,
        streams={stream: file.streams[stream].without_dead_letters()},
        workloads={stream: file.workloads[stream]},
        sinks=(ParquetSink(path=str(folder)),),
        engine=file.engine.model_copy(update={"checkpoint": str(folder / "state")}),
    )
    running = run(mine, "once", spark=spark)
    running.await_end()
    return running.metrics()[stream]


def _read(spark: SparkSession, stream: str, folder: Path) -> DataFrame | None:
    """Read the answers that a sink has written for a stream; None if there are none.

    Text formats have no types: their columns are read as text, and cast for the comparison.
    """
    found = stored_files(stream, folder)
    if found is None:
        return None
    kind, paths = found[0], [path.absolute().as_uri() for path in found[1]]
    if kind == "parquet":
        return spark.read.parquet(*paths)
    if kind == "csv":
        return spark.read.csv(paths, header=True, inferSchema=False, multiLine=True, escape='"')
    return spark.read.json(paths, primitivesAsString=True)


def _compared(
    file: WorkloadFile,
    name: str,
    workload: Workload[Any],
    rows: DataFrame,
    found: DataFrame | None,
    progress: Callable[[str], None],
    *,
    unfinished: bool = False,
    joined: bool = False,
) -> Verified:
    progress(f"{name}: computing by brute force and comparing…")
    began = monotonic()
    stream = file.streams[name]
    time, id_ = _spelled(rows, str(stream.time)), stream.id and _spelled(rows, stream.id)
    definition = family_of(workload).part("verification")
    if hasattr(definition, "by_moments"):  # what is expected depends on the moments of the answers
        expected = definition.by_moments(rows, workload, time=time, id_=id_, found=None)
        found = expected if found is None else _as_expected(found, expected, {}, workload).persist()
        expected = definition.by_moments(rows, workload, time=time, id_=id_, found=found)
    else:
        expected = definition.by_brute_force(rows, workload, time=time, id_=id_)
    not_final = earlier = 0
    if found is None:
        found = expected.limit(0)
    else:
        found = _last_answers(found, workload)
        own = {"__time": time, **({"__id": id_} if id_ else {})}
        found = _as_expected(found, expected, own, workload)
    if hasattr(definition, "within_bounds"):
        expected = definition.within_bounds(expected, found, workload)
    if unfinished:
        expected, not_final = _emitted(expected, found)
    if joined:
        expected, earlier = _since_first(expected, found)
    difference = compare(expected, found)
    return Verified(rows.count(), None, 0, not_final, difference, None, monotonic() - began, earlier=earlier)


def _last_answers(found: DataFrame, workload: Workload[Any]) -> DataFrame:
    """Return the last final answer of each window, if provisional or corrected answers were stored, too."""
    marks = marks_in(found.columns)
    if FINAL in marks:
        found = found.where(sf.coalesce(sf.col(FINAL).cast("boolean"), sf.lit(True)))  # null: without the option
    if REVISION not in marks:
        return found
    window: list[str | Column] = ["query", moment_of(found.columns)]
    for name in dict.fromkeys(name for query in workload for name in query.groups):
        grouped = [query.name for query in workload if name in query.groups]
        window.append(sf.when(sf.col("query").isin(grouped), sf.col(quoted(_spelled(found, name)))))
    revision = sf.coalesce(sf.col(REVISION).cast("int"), sf.lit(0))
    newest = sf.max(revision).over(Window.partitionBy(*window))
    return found.withColumn("__newest", newest).where(revision == sf.col("__newest")).drop("__newest")


def _as_expected(found: DataFrame, expected: DataFrame, own: dict[str, str], workload: Workload[Any]) -> DataFrame:
    """Convert a sink's rows to the columns of brute force: types of the input, groups only for grouped queries."""
    columns = []
    for field in expected.schema.fields:
        there = _spelled(found, in_answers(own[field.name], workload) if field.name in own else field.name)
        if there not in found.columns:
            raise InvalidInputError(
                f"the answers have no column {there!r}, which the comparison needs. They were written with another "
                "workload file or by another program."
            )
        value = sf.col(quoted(there))
        if not isinstance(found.schema[there].dataType, st.StringType) or isinstance(field.dataType, st.StringType):
            value = value.cast(field.dataType)
        else:  # text that cannot be cast is a difference, not an error
            value = value.try_cast(field.dataType)
        grouped = [query.name for query in workload if field.name in query.groups]
        asked = returning(workload) if field.name in own else grouped
        if field.name in own or grouped:
            value = sf.when(sf.col("query").isin(asked), value)
        decayed = [query.name for query in workload if getattr(query, "half_life", None) is not None]
        if field.name == "score" and decayed:
            value = sf.when(sf.col("query").isin(decayed), rounded(value)).otherwise(value)
        columns.append(value.alias(field.name))
    return found.select(*columns)


def _emitted(expected: DataFrame, found: DataFrame) -> tuple[DataFrame, int]:
    """Return the expected answers up to each query's newest window in `found`, and the number of later rows."""
    moment = moment_of(found.columns)
    newest = found.groupBy("query").agg(sf.max(moment).alias("__extreme"))
    return _where(expected, newest, sf.col(moment) <= sf.col("__extreme"))


def _since_first(expected: DataFrame, found: DataFrame) -> tuple[DataFrame, int]:
    """Return the expected answers from each query's first window in `found` on, and the number of earlier rows."""
    moment = moment_of(found.columns)
    first = found.groupBy("query").agg(sf.min(moment).alias("__extreme"))
    return _where(expected, first, sf.col(moment) >= sf.col("__extreme"))


def _where(expected: DataFrame, extremes: DataFrame, condition: Column) -> tuple[DataFrame, int]:
    joined = expected.join(extremes, "query", "left")
    is_kept = sf.coalesce(condition, sf.lit(False))
    return joined.where(is_kept).select(*map(quoted, expected.columns)), joined.where(~is_kept).count()


def _spelled(rows: DataFrame, name: str) -> str:
    return next((known for known in rows.columns if known.lower() == name.lower()), name)
