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
from skyband.spark.plan import Pipeline
from skyband.spark.versions import arrow_schema

__all__ = ["Take", "collecting", "open_servers", "write_to"]

Take = Callable[[pa.Table, int], None]  # the answers of a micro-batch, and its number


def write_to(wanted: Sequence[Wanted], workload: Workload[Any], output: Output) -> Take:
    """Return the function that passes each micro-batch of answers to all outlets."""

    def take(rows: pa.Table, batch: int) -> None:
        for outlet, part in parts_of(rows, wanted, workload, output):
            outlet.take(batch, part)

    return take


def collecting(pipeline: Pipeline, take: Take) -> DataStreamWriter:
    """Return the writer that collects each micro-batch of answers once, and calls `take` with it and its number."""
    packed = pipeline.packed
    if packed is None:
        return pipeline.answers.writeStream.foreachBatch(lambda frame, batch: take(frame.toArrow(), batch))
    return packed.tables.writeStream.foreachBatch(lambda frame, batch: take(packed.unpack(frame.toArrow()), batch))


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
