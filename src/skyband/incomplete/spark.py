"""Queries over incomplete streams on Spark: a union of the streams, objects in shards, and a final merge."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from skyband.errors import InvalidInputError, UnsupportedError
from skyband.incomplete.pipeline import PIPELINE
from skyband.incomplete.projection import declared, project, taken
from skyband.incomplete.query import IncompleteTopK
from skyband.incomplete.reducer import TIME, columns_of
from skyband.queries.workload import Workload
from skyband.sharding.projection import Projection, ProjectionRequest
from skyband.spark.expressions import Columns, answer_type
from skyband.spark.late_rows import late_source
from skyband.spark.plan import MOST_SHARDS, Request, StreamInfo, delay_of, shards_for, watermark_delays
from skyband.spark.topology import SparkPlan

__all__ = ["draft"]

MOST_WATCHED = 32  # streams with a reported lag; each is a column of an observation


class _IncompleteSparkPlan(SparkPlan):
    """Spark plan of an incomplete-stream workload: tuples of all streams, and the shard plan."""

    pipeline = PIPELINE
    counts = ("late", "over_limit")

    @property
    def stream_info(self) -> StreamInfo:
        return StreamInfo(self.plan.method_name, self.plan.axis, None, False, self._watched)

    @property
    def _watched(self) -> tuple[str, ...]:
        """The streams whose newest row is observed: all of them, or none if there are more than `MOST_WATCHED`."""
        names = dict.fromkeys(str(name) for query in self.plan.queries for name in query.streams or ())
        return tuple(names) if self.plan.axis == "time" and len(names) <= MOST_WATCHED else ()

    @property
    def watched(self) -> tuple[str, str, tuple[str, ...]] | None:
        return (TIME, columns_of(0)[1], self._watched) if self.rows.isStreaming and self._watched else None

    def source(self) -> DataFrame:
        """Return the rows, with an observation of the newest position of each stream."""
        if not self.rows.isStreaming or not self._watched:
            return self.rows
        at, stream = sf.unix_micros(sf.col(TIME).cast("timestamp")), sf.col(columns_of(0)[1])
        newest = [
            sf.max(sf.when(stream == name, at)).alias(f"newest_{place}") for place, name in enumerate(self._watched)
        ]
        return self.rows.observe("skyband_streams", *newest)


def draft(request: Request) -> _IncompleteSparkPlan:
    """Validate the request and return its Spark plan."""
    frames = _frames_by_stream(request.df)
    by_name = None if None in frames else frames
    workload = Workload([declared(query, by_name) for query in request.workload])
    request = request._replace(workload=workload)
    first = next(iter(frames.values()))
    if (
        first.isStreaming
        and len(frames) > 1
        and any(delay_of(frame, request.time) is not None for frame in frames.values())
    ):
        raise UnsupportedError(
            "a data frame has its own watermark. With several data frames, the slowest stream would delay all answers. "
            "Remove withWatermark() and pass watermark= instead, which follows the newest row of all streams."
        )
    if request.late == "return" and by_name is not None:
        raise UnsupportedError(
            "late='return' is not supported for several data frames by name, because their rows have different "
            "columns. Pass one data frame with stream=, or use late='count'."
        )
    there, delay = watermark_delays(first, request)
    asked = request.projected(_shards(request, workload.queries, first), there if delay is None else delay)
    rows, found, types = _union(asked, frames)
    return _IncompleteSparkPlan(
        asked=asked,
        rows=rows,
        plan=found.plan,
        answers=answer_type(found.fields),
        types=types,
        delay=delay,
        watermark_lag=request.watermark_lag(delay),
        final_at_end=request.final_at_end,
        names=found.names,
        late_source=late_source(request, first, delay),
    )


def _frames_by_stream(df: Any) -> dict[Any, DataFrame]:
    """Return the data frames by stream name, or one data frame for all streams under None."""
    if isinstance(df, DataFrame):
        return {None: df}
    if not df:
        raise InvalidInputError("df={} contains no data frame. Pass at least one.")
    if len({frame.isStreaming for frame in df.values()}) > 1:
        raise InvalidInputError("df= mixes streaming and batch data frames. All must be streaming, or all batch.")
    return dict(df)


def _union(request: ProjectionRequest, frames: Mapping[Any, DataFrame]) -> tuple[DataFrame, Projection, dict[str, str]]:
    """Return the union of all data frames with the columns of all scans, and its types."""
    parts, shapes = [], set()
    for name, frame in frames.items():
        columns = Columns(frame, taken(request))
        found = project(columns, request, name)
        parts.append(columns.selected(found.columns))
        shapes.add(tuple((name, found.columns[name].kind.simpleString()) for name in found.checked))
    if len(shapes) > 1:
        differ = sorted({pair for shape in shapes for pair in shape if not all(pair in other for other in shapes)})
        kinds = ", ".join(sorted({kind for _, kind in differ}))
        raise InvalidInputError(
            f"the data frames of the streams have different types of time, object or id ({kinds}), so objects could "
            "not be matched across streams. Cast them to one type."
        )
    return reduce(DataFrame.unionByName, parts), found, dict(shapes.pop())


def _shards(request: Request, queries: tuple[IncompleteTopK, ...], df: DataFrame) -> int:
    """Return the number of shards: 1 for count windows and intervals, which need all objects in one place.

    With groups, all objects of a group are in one shard, which is enough for intervals.
    """
    together = queries[0].axis == "count" or any(query.intervals and not query.groups for query in queries)
    shards = shards_for(request, df, 1 if together else MOST_SHARDS)
    if together and shards > 1:
        raise UnsupportedError(
            f"shards={shards} is not supported with count windows or intervals=True, which need all objects in one "
            "shard. Remove shards=."
        )
    return shards
