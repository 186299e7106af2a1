"""Top-k queries on Spark: combines reducer, shards and output."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from skyband.spark.expressions import Columns, answer_type, quoted
from skyband.spark.late_rows import LateSource
from skyband.spark.plan import (
    MOST_SHARDS,
    Observed,
    PackedAnswers,
    Request,
    StreamInfo,
    shards_for,
    spelled,
    watermark_delays,
)
from skyband.spark.tasks import collect_answers, unpack
from skyband.spark.topology import SparkPlan, shard_sizes, sums
from skyband.spark.versions import arrow_schema
from skyband.topk.pipeline import PIPELINE
from skyband.topk.plan import TopKPlan, scans_of
from skyband.topk.projection import project, taken

__all__ = ["draft"]


@dataclass(frozen=True, kw_only=True, eq=False)
class _TopKSparkPlan(SparkPlan):
    """Rows with scores, and the plan for them. Each shard's answers are complete; no merge is needed."""

    pipeline = PIPELINE
    moment = "window_end"

    source_delay: int | None  # of a watermark that is set at the source, in milliseconds

    @property
    def watermark(self) -> int | None:
        # Tasks that read rows see the times of rows that every filter removes.
        return self.delay if self.delay is not None or not self.scans else self.source_delay

    @property
    def description(self) -> dict[str, Any]:
        plan = self.plan
        return {"axis": plan.axis, "time": plan.time, "id": plan.id, "columns": self.types, "shards": plan.shards}

    @property
    def stream_info(self) -> StreamInfo:
        filtered = not self.scans and all(scan.where for scan in self.plan.scans)
        return StreamInfo(self.plan.method_name, self.plan.axis, self.plan.bound, filtered)

    def collect(self, local: DataFrame, counted: Observed | None) -> DataFrame:
        if local.isStreaming:
            local = self._observed(local)
        elif counted is not None:
            local = local.observe(counted.answered, *sums("windows"))
        return local.select("answers").mapInArrow(unpack(self._kinds), self.answers)

    def packed(self, local: DataFrame, answers: DataFrame) -> PackedAnswers:
        columns = arrow_schema(answers.schema)
        unpack_all = partial(collect_answers, kinds=self._kinds, answers=columns)
        return PackedAnswers(self._observed(local).select("answers"), unpack_all)

    @property
    def _kinds(self) -> pa.Schema:
        return arrow_schema(self.answers)

    def _observed(self, local: DataFrame) -> DataFrame:
        counts = ["late", "windows", "answered", *(["late_used"] if self.plan.emission.lateness else [])]
        newest = [sf.max(name).alias(name) for name in ("newest", "last_end")]
        return local.observe("skyband_out", *sums(*counts), *newest, *shard_sizes(self.plan.units))


def draft(request: Request) -> _TopKSparkPlan:
    """Reject unsupported requests, and plan the others."""
    df, late, scans = request.df, request.late, scans_of(request.workload)
    # Groups are distributed over all shards; a scan without groups is in one shard.
    shards = shards_for(request, df, MOST_SHARDS if any(scan.partition_by for scan in scans) else len(scans))
    there, delay = watermark_delays(df, request)
    watermark_lag, source_delay = request.watermark_lag(delay), None
    # Rows that every filter removes also advance time. A watermark at the source sees them. If all rows reach the
    # tasks, it is cheaper to use only the newest row of each batch.
    if delay is not None and (late == "return" or all(query.where for query in request.workload)):
        df, there, delay = df.withWatermark(spelled(df, request.time), f"{delay} milliseconds"), delay, None
        source_delay = there
    asked = request.projected(shards, there if delay is None else delay)._replace(
        may_be_late=df.isStreaming and late != "refuse"
    )
    columns = Columns(df, taken(asked))
    found = project(columns, asked)
    return _TopKSparkPlan(
        asked=asked,
        rows=_matching_rows(columns.selected(found.columns), found.plan),
        plan=found.plan,
        answers=answer_type(found.fields),
        types={name: found.columns[name].kind.simpleString() for name in found.checked},
        delay=delay,
        watermark_lag=watermark_lag,
        final_at_end=request.final_at_end,
        names=found.names,
        late_source=LateSource(df, spelled(df, request.time)) if late == "return" else None,
        source_delay=source_delay,
    )


def _matching_rows(rows: DataFrame, plan: TopKPlan) -> DataFrame:
    """Drop rows that no scan uses, if every scan has a filter; the watermark has already seen their times."""
    if not all(scan.where for scan in plan.scans):
        return rows
    # Spark pushes a filter below the watermark, where it would hide times from it, unless it refers to the time.
    wanted = sf.col(quoted(plan.time)) < sf.lit("0001-01-01").cast(rows.schema[plan.time].dataType)
    for name in plan.scores:
        wanted = wanted | sf.col(name).isNotNull()
    return rows.where(wanted)
