"""Delivery of answers from Spark: micro-batches are collected in the driver process once, for all outlets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import DataFrame

from skyband.queries.workload import Workload
from skyband.sharding.delivery import Wanted, parts_of, prepare_servers, servers_among
from skyband.sharding.plan import Output
from skyband.spark.versions import arrow_schema

__all__ = ["open_servers", "write_to"]


def write_to(wanted: Sequence[Wanted], workload: Workload[Any], output: Output) -> Callable[[DataFrame, int], None]:
    """Return the function that Spark calls with each micro-batch of answers. It collects them once for all outlets."""

    def take(frame: DataFrame, batch: int) -> None:
        for outlet, rows in parts_of(frame.toArrow(), wanted, workload, output):
            outlet.take(batch, rows)

    return take


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
