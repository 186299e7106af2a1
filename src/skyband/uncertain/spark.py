"""Queries over uncertain streams on Spark: one shard runs the shared plan over all tuples."""

from __future__ import annotations

from skyband.spark.expressions import Columns, answer_type
from skyband.spark.late_rows import late_source
from skyband.spark.plan import Request, StreamInfo, watermark_delays
from skyband.spark.topology import SparkPlan
from skyband.uncertain.pipeline import PIPELINE
from skyband.uncertain.projection import project, taken

__all__ = ["draft"]


class _UncertainSparkPlan(SparkPlan):
    """Spark plan of an uncertain workload. It has one shard, so its answers need no merge."""

    pipeline = PIPELINE

    @property
    def stream_info(self) -> StreamInfo:
        return StreamInfo(self.plan.method_name, self.plan.axis, None, False)


def draft(request: Request) -> _UncertainSparkPlan:
    """Validate the request and return its Spark plan."""
    df = request.df
    asked = request.projected(1)._replace(may_be_late=df.isStreaming)
    columns = Columns(df, taken(asked))
    found = project(columns, asked)
    _, delay = watermark_delays(df, request)
    return _UncertainSparkPlan(
        asked=asked,
        rows=columns.selected(found.columns),
        plan=found.plan,
        answers=answer_type(found.fields),
        types={name: found.columns[name].kind.simpleString() for name in found.checked},
        delay=delay,
        watermark_lag=request.watermark_lag(delay),
        final_at_end=request.final_at_end,
        names=found.names,
        late_source=late_source(request, df, delay),
    )
