"""Aggregate queries on Spark: partials in every task, totals in shards of keys, and a final merge."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from skyband.aggregate.pipeline import PIPELINE
from skyband.aggregate.plan import AggregatePlan
from skyband.aggregate.projection import project, taken
from skyband.kernels.stream import Ints
from skyband.spark.expressions import Columns, answer_type
from skyband.spark.late_rows import LateSource, late_source
from skyband.spark.plan import MOST_SHARDS, Request, StreamInfo, shards_for, watermark_delays
from skyband.spark.topology import SparkPlan, without_marks
from skyband.windows import ALWAYS

__all__ = ["draft"]


@dataclass(frozen=True, kw_only=True, eq=False)
class _AggregateSparkPlan(SparkPlan):
    """Spark plan of an aggregate workload: rows with keys and values, and the shard plan."""

    pipeline = PIPELINE
    moment = "window_end"
    counts = ("late", "unrankable")

    @property
    def description(self) -> dict[str, Any]:
        scans = [
            [
                scan.key if isinstance(scan.key, str) else list(scan.key_columns),
                list(scan.source) if isinstance(scan.source, tuple) else scan.source,
                scan.where,
                *scan.partition_by,
                *([] if scan.delete is None else [{"delete": scan.delete}]),
                *([] if scan.session is None else [{"gap": scan.session.gap, "max_length": scan.session.max_length}]),
            ]
            for scan in self.plan.scans
        ]
        # A resume check reports the first difference. Scans come first because other scans imply other columns.
        return {"axis": self.plan.axis, "family": self.plan.family, "feeds": scans, **super().description}

    @property
    def stream_info(self) -> StreamInfo:
        return StreamInfo(self.plan.method_name, self.plan.axis, None, False)

    @property
    def merge_order(self) -> list[Column]:
        return [sf.floor(sf.col("unit") / self.plan.shards), *super().merge_order]


def draft(request: Request) -> _AggregateSparkPlan:
    """Validate the request and return its Spark plan."""
    df = request.df
    queries = request.workload.queries
    ordered = all(query.axis == "count" or query.window_kind == "session" for query in queries)
    ungrouped = ordered and not any(query.groups for query in queries)
    asked = request.projected(shards_for(request, df, 1 if ungrouped else MOST_SHARDS))
    columns = Columns(df, taken(asked))
    found = project(columns, asked)
    _, delay = watermark_delays(df, request)
    answers = answer_type(found.fields)
    return _AggregateSparkPlan(
        asked=asked,
        rows=columns.selected(found.columns),
        plan=found.plan,
        answers=answers,
        types={name: kind.simpleString() for name, kind in without_marks(answers, found.plan)},
        delay=delay,
        watermark_lag=request.watermark_lag(delay),
        final_at_end=request.final_at_end,
        names=found.names,
        late_source=_late_source(request, df, found.plan, delay),
    )


def _late_source(request: Request, df: DataFrame, plan: AggregatePlan, delay: int | None) -> LateSource | None:
    found = late_source(request, df, delay)
    return None if found is None else found._replace(is_late=partial(_is_late, plan))


def _is_late(plan: AggregatePlan, positions: Ints, clock: int) -> Any:
    """Return which rows are late for some scan: those of panes that have ended. Others still count."""
    late = positions < ALWAYS
    for scan in range(len(plan.scans)):
        ends = positions + 1 if plan.is_ordered(scan) else plan.shape(scan).panes.ends_of(positions)
        late |= ends <= clock
    return late
