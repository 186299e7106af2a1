"""Delivery of answers from Spark: micro-batches are collected in the driver process once, for all outlets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from skyband.queries.workload import Workload
from skyband.sharding.delivery import Wanted, parts_of, prepare_servers, servers_among
from skyband.sharding.plan import Output
from skyband.spark.outbox import Outbox
from skyband.spark.plan import Pipeline
from skyband.spark.versions import arrow_schema, is_remote

__all__ = ["Take", "collecting", "open_servers", "outbox_of", "write_to"]

Take = Callable[[pa.Table, int], None]  # the answers of a micro-batch, and its number


def write_to(wanted: Sequence[Wanted], workload: Workload[Any], output: Output) -> Take:
    """Return the function that passes each micro-batch of answers to all outlets."""

    def take(rows: pa.Table, batch: int) -> None:
        for outlet, part in parts_of(rows, wanted, workload, output):
            outlet.take(batch, part)

    return take


def collecting(pipeline: Pipeline, take: Take, outbox: Outbox | None) -> DataStreamWriter:
    """Return the writer that collects each micro-batch of answers once, and calls `take` with it and its number.

    With an outbox, which Spark Connect needs, `take` is called when the outbox delivers.
    """
    tables, unpack = pipeline.packed or (pipeline.answers, _same)
    if outbox is not None:
        return outbox.writer(tables, lambda rows, batch: take(unpack(rows), batch))
    return tables.writeStream.foreachBatch(lambda frame, batch: take(unpack(frame.toArrow()), batch))


def outbox_of(spark: SparkSession, checkpoint: str) -> Outbox | None:
    """Return the outbox of a stream, if its session is of Spark Connect."""
    return Outbox(spark, checkpoint) if is_remote(spark) else None


def _same(rows: pa.Table) -> pa.Table:
    return rows


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
