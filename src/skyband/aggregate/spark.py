"""Aggregate queries on Spark: partials in every task, totals in shards of keys, and a final merge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as sf

from skyband.aggregate.pipeline import PIPELINE
from skyband.aggregate.projection import project, taken
from skyband.spark.expressions import Columns, answer_type
from skyband.spark.plan import Request, StreamInfo, shards_for, watermark_delays
from skyband.spark.topology import SparkPlan

__all__ = ["draft"]


@dataclass(frozen=True, kw_only=True, eq=False)
class _AggregateSparkPlan(SparkPlan):
    """Spark plan of an aggregate workload: rows with keys and values, and the shard plan."""

    pipeline = PIPELINE
    moment = "window_end"
    counts = ("late", "unrankable")

    @property
    def description(self) -> dict[str, Any]:
        scans = [[scan.key, scan.value, scan.where, *scan.partition_by] for scan in self.plan.scans]
        # A resume check reports the first difference. Scans come first because other scans imply other columns.
        return {"axis": self.plan.axis, "family": self.plan.family, "feeds": scans, **super().description}

    @property
    def stream_info(self) -> StreamInfo:
        return StreamInfo(self.plan.method_name, "time", None, False)

    @property
    def merge_order(self) -> list[Column]:
        return [sf.floor(sf.col("unit") / self.plan.shards), *super().merge_order]


def draft(request: Request) -> _AggregateSparkPlan:
    """Validate the request and return its Spark plan."""
    df = request.df
    asked = request.projected(shards_for(request, df))
    columns = Columns(df, taken(asked))
    found = project(columns, asked)
    _, delay = watermark_delays(df, request)
    answers = answer_type(found.fields)
    return _AggregateSparkPlan(
        asked=asked,
        rows=columns.selected(found.columns),
        plan=found.plan,
        answers=answers,
        types={field.name: field.dataType.simpleString() for field in answers.fields},
        delay=delay,
        watermark_lag=request.watermark_lag(delay),
        final_at_end=request.final_at_end,
        names=found.names,
    )
