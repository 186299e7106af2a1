"""Delivery of answers from Spark: micro-batches are collected in the driver process once, for all outlets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from skyband.queries.workload import Workload
from skyband.sharding.delivery import Wanted, check_servers, parts_of, prepare_servers, servers_among
from skyband.sharding.plan import Output
from skyband.spark.outbox import Outbox
from skyband.spark.plan import Pipeline
from skyband.spark.task_files import are_written_by_tasks, commit, staged
from skyband.spark.versions import arrow_schema, is_remote

__all__ = ["Stage", "Take", "check_answers", "collecting", "open_servers", "write_to", "writing"]

Take = Callable[[pa.Table, int], None]  # the answers of a micro-batch, and its number
Stage = Callable[[DataFrame], pa.Table]  # lets tasks write answers, and returns what `Take` gets instead of them


def write_to(wanted: Sequence[Wanted], workload: Workload[Any], output: Output) -> Take:
    """Return the function that passes each micro-batch of answers to all outlets."""

    def take(rows: pa.Table, batch: int) -> None:
        for outlet, part in parts_of(rows, wanted, workload, output):
            outlet.take(batch, part)

    return take


def writing(
    wanted: Sequence[Wanted], workload: Workload[Any], output: Output, spark: SparkSession
) -> tuple[Take, Stage | None]:
    """Return the function that passes each micro-batch to all outlets, and the one that lets tasks write files.

    The second one is None if the driver process collects all answers.
    """
    if not are_written_by_tasks(wanted, spark):
        return write_to(wanted, workload, output), None

    def take(found: pa.Table, batch: int) -> None:
        commit(found, batch, wanted, workload, output)

    return take, lambda frame: staged(frame, wanted, workload, output)


def collecting(
    pipeline: Pipeline, take: Take, outbox: Outbox | None = None, stage: Stage | None = None
) -> DataStreamWriter:
    """Return the writer that collects each micro-batch of answers once, and calls `take` with it and its number.

    Over Spark Connect, `take` is called when the outbox delivers. With `stage`, tasks write the answers.
    """
    if stage is not None:
        return pipeline.answers.writeStream.foreachBatch(lambda frame, batch: take(stage(frame), batch))
    tables, unpack = pipeline.packed or (pipeline.answers, _same)

    def unpacked(rows: pa.Table, batch: int) -> None:
        take(unpack(rows), batch)

    if outbox is not None and is_remote(tables.sparkSession):
        return outbox.writer(tables, unpacked)
    if outbox is not None:
        outbox.deliver_left(unpacked)
    return tables.writeStream.foreachBatch(lambda frame, batch: unpacked(frame.toArrow(), batch))


def _same(rows: pa.Table) -> pa.Table:
    return rows


def check_answers(wanted: Sequence[Wanted], workload: Workload[Any], output: Output, answers: DataFrame) -> None:
    """Check that the servers can write these answers. Changes nothing."""
    if servers_among(wanted):
        check_servers(wanted, workload, output, arrow_schema(answers.schema).empty_table())


def open_servers(
    wanted: Sequence[Wanted],
    workload: Workload[Any],
    output: Output,
    answers: DataFrame,
    *,
    replace: bool = False,
    kept: bool = False,
) -> None:
    """Prepare the servers for these answers. See `prepare_servers`."""
    if servers_among(wanted):
        empty = arrow_schema(answers.schema).empty_table()
        prepare_servers(wanted, workload, output, empty, replace=replace, kept=kept)
