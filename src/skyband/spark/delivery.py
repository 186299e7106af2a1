"""Delivery of answers from Spark: micro-batches are collected in the driver process once, for all outlets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from skyband.queries.workload import Workload
from skyband.sharding.delivery import Wanted, parts_of, prepare_servers, servers_among
from skyband.sharding.plan import Output
from skyband.spark.outbox import Outbox
from skyband.spark.plan import Pipeline
from skyband.spark.versions import arrow_schema, is_remote

__all__ = ["Take", "collecting", "open_servers", "write_to"]

Take = Callable[[pa.Table, int], None]  # the answers of a micro-batch, and its number


def write_to(wanted: Sequence[Wanted], workload: Workload[Any], output: Output) -> Take:
    """Return the function that passes each micro-batch of answers to all outlets."""

    def take(rows: pa.Table, batch: int) -> None:
        for outlet, part in parts_of(rows, wanted, workload, output):
            outlet.take(batch, part)

    return take


def collecting(pipeline: Pipeline, take: Take, outbox: Outbox | None = None) -> DataStreamWriter:
    """Return the writer that collects each micro-batch of answers once, and calls `take` with it and its number.

    Over Spark Connect, `take` is called when the outbox delivers.
    """
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
