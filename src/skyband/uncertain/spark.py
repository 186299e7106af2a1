"""Queries over uncertain streams on Spark: each shard runs the shared plan over all tuples of its groups."""

from __future__ import annotations

from skyband.errors import UnsupportedError
from skyband.spark.expressions import Columns, answer_type
from skyband.spark.late_rows import late_source
from skyband.spark.plan import MOST_SHARDS, Request, StreamInfo, shards_for, watermark_delays
from skyband.spark.topology import SparkPlan
from skyband.uncertain.pipeline import PIPELINE
from skyband.uncertain.projection import project, taken

__all__ = ["draft"]


class _UncertainSparkPlan(SparkPlan):
    """Spark plan of an uncertain workload. A group is in one shard, so answers need no merge."""

    pipeline = PIPELINE

    @property
    def stream_info(self) -> StreamInfo:
        return StreamInfo(self.plan.method_name, self.plan.axis, None, False)


def _shards(request: Request) -> int:
    """Return the number of shards: 1 unless all queries have groups, because a group cannot be split."""
    queries = request.workload.queries
    together = queries[0].axis == "count" or not all(query.groups for query in queries)
    shards = shards_for(request, request.df, 1 if together else MOST_SHARDS)
    if together and shards > 1:
        one = next((query for query in queries if not query.groups), queries[0])
        raise UnsupportedError(
            f"shards={shards} is not supported for query {one.name!r}: the probability of a rank depends on all tuples "
            "of the window, so only groups over event time are distributed over shards. Remove shards=, or set "
            "partition_by in all queries."
        )
    return shards


def draft(request: Request) -> _UncertainSparkPlan:
    """Validate the request and return its Spark plan."""
    df = request.df
    asked = request.projected(_shards(request))._replace(may_be_late=df.isStreaming)
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
