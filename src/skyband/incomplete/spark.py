"""Queries over incomplete streams on Spark: a union of the streams, objects in shards, and a final merge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial, reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from skyband.errors import InvalidInputError, InvalidQueryError, UnsupportedError
from skyband.incomplete import shard
from skyband.incomplete.plan import IncompletePlan, IncompleteScan, scans_of
from skyband.incomplete.query import IncompleteTopK
from skyband.incomplete.reducer import ID, TIME, columns_of, gather_rows
from skyband.queries.families import FAMILIES
from skyband.sharding.bounded_input import complete_windows
from skyband.sharding.envelope import Envelope
from skyband.spark.expressions import HIDDEN, Columns, answer_type
from skyband.spark.plan import MOST_SHARDS, Request, StreamInfo, delay_of, shards_for, watermark_delays
from skyband.spark.tasks import Batches, Task, local_answers, shaped
from skyband.spark.topology import SparkPlan

__all__ = ["draft"]

MOST_WATCHED = 32  # streams with a reported lag; each is a column of an observation
_STREAM = f"{HIDDEN}from"  # the data frame that a row comes from
_SCHEMA = FAMILIES["incomplete"].answers


class _IncompleteSparkPlan(SparkPlan):
    """Spark plan of an incomplete-stream workload: tuples of all streams, and the shard plan."""

    counts = ("late", "over_limit")

    @property
    def stream_info(self) -> StreamInfo:
        methods = sorted({query.method for query in self.plan.queries})
        return StreamInfo(", ".join(methods), self.plan.axis, None, False, self._watched)

    @property
    def _watched(self) -> tuple[str, ...]:
        """The streams whose newest row is observed: all of them, or none if there are more than `MOST_WATCHED`."""
        names = dict.fromkeys(str(name) for query in self.plan.queries for name in query.streams or ())
        return tuple(names) if self.plan.axis == "time" and len(names) <= MOST_WATCHED else ()

    def source(self) -> DataFrame:
        """Return the rows, with an observation of the newest position of each stream."""
        if not self.rows.isStreaming or not self._watched:
            return self.rows
        at, stream = sf.unix_micros(sf.col(TIME).cast("timestamp")), sf.col(columns_of(0)[1])
        newest = [
            sf.max(sf.when(stream == name, at)).alias(f"newest_{place}") for place, name in enumerate(self._watched)
        ]
        return self.rows.observe("skyband_streams", *newest)

    @property
    def reducer(self) -> Callable[[Batches], Iterable[Envelope]]:
        return partial(gather_rows, self.plan)

    def merger(self, kinds: pa.Schema) -> Task:
        return _merge(self.plan, kinds)


def draft(request: Request) -> _IncompleteSparkPlan:
    """Validate the request and return its Spark plan."""
    frames = _frames_by_stream(request.df)
    queries = tuple(_with_streams(query, frames) for query in request.workload)
    scans = scans_of(queries)
    rows, types = _union(request, frames, queries, scans)
    first = next(iter(frames.values()))
    if (
        rows.isStreaming
        and len(frames) > 1
        and any(delay_of(frame, request.time) is not None for frame in frames.values())
    ):
        raise UnsupportedError(
            "a data frame has its own watermark. With several data frames, the slowest stream would delay all answers. "
            "Remove withWatermark() and pass watermark= instead, which follows the newest row of all streams."
        )
    there, delay = watermark_delays(first, request)
    plan = IncompletePlan(
        queries=queries,
        shards=_shards(request, queries, first),
        refuse_late=request.late == "refuse",
        delay=1000 * ((there if delay is None else delay) or 0),
    )
    return _IncompleteSparkPlan(
        rows=rows,
        plan=plan,
        answers=_answer_type(rows, queries),
        types=types,
        delay=delay,
        watermark_lag=request.watermark_lag(delay),
        final_at_end=request.final_at_end,
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


def _with_streams(query: IncompleteTopK, frames: Mapping[Any, DataFrame]) -> IncompleteTopK:
    """Return the query with `streams` set."""
    for name, example in (("object", "flow_id"), ("value", "bytes")):
        if getattr(query, name) is None:
            raise InvalidQueryError(
                f"query {query.name!r} has no {name}=. On Spark it is computed from the row's columns. Set {name}= to "
                f"an SQL expression, for example {name}={example!r}."
            )
    if None in frames:
        if query.stream is None:
            raise InvalidQueryError(
                f"query {query.name!r} has no stream=. With one data frame for all streams, a column must contain the "
                "stream name. Set stream= to an SQL expression, or pass df= as a dict of stream names to data frames."
            )
        if query.streams is None:
            raise InvalidQueryError(
                f"query {query.name!r} has no streams=. The number of streams bounds how far a score can rise, and the "
                "data frame does not contain it. List them all, for example streams=['a', 'b']."
            )
        return query
    if query.stream is not None:
        raise InvalidQueryError(
            f"query {query.name!r} has stream={query.stream!r}, but df= already has one data frame per stream. Remove "
            "stream=."
        )
    streams = tuple(query.streams or frames)
    for name in frames:
        if name not in streams:
            raise InvalidQueryError(
                f"df= has a data frame for the stream {name!r}, but query {query.name!r} declares "
                f"streams={list(streams)}. Add it to streams=, or remove it from df=."
            )
    return IncompleteTopK(**{**query.to_dict(), "streams": streams})


def _union(
    request: Request,
    frames: Mapping[Any, DataFrame],
    queries: tuple[IncompleteTopK, ...],
    scans: tuple[IncompleteScan, ...],
) -> tuple[DataFrame, dict[str, str]]:
    """Return the union of all data frames with the columns of all scans, and its types."""
    parts = [_read(request, frame, name, queries, scans) for name, frame in frames.items()]
    shapes = {tuple((field.name, field.dataType.simpleString()) for field in part.schema.fields) for part in parts}
    if len(shapes) > 1:
        differ = sorted({pair for shape in shapes for pair in shape if not all(pair in other for other in shapes)})
        kinds = ", ".join(sorted({kind for _, kind in differ}))
        raise InvalidInputError(
            f"the data frames of the streams have different types of time, object or id ({kinds}), so objects could "
            "not be matched across streams. Cast them to one type."
        )
    objects = {dict(next(iter(shapes)))[columns_of(number)[0]] for number in range(len(scans))}
    if len(objects) > 1:
        raise InvalidQueryError(
            f"the queries have objects of the types {', '.join(sorted(objects))}, but answers have one object column. "
            "Cast the objects to one type, or use one workload per type."
        )
    return reduce(DataFrame.unionByName, parts), dict(next(iter(shapes)))


def _read(
    request: Request, df: DataFrame, name: Any, queries: tuple[IncompleteTopK, ...], scans: tuple[IncompleteScan, ...]
) -> DataFrame:
    columns = Columns(df, _SCHEMA.names)
    at, identity = columns.time_and_id(request.time, request.id)
    selected = [at.alias(TIME), identity.alias(ID)]
    for number, scan in enumerate(scans):
        query = queries[scan.places[0]]
        kept = columns_of(number)
        stream = sf.lit(str(name)) if scan.stream is None else sf.expr(scan.stream).cast("string")
        if scan.stream is not None:
            columns.type_of(query, "stream", scan.stream)
        parts = (_object(columns, query), stream, _value(columns, query))
        selected += [column.alias(alias) for column, alias in zip(parts, kept, strict=True)]
    return df.select(*selected)


def _object(columns: Columns, query: IncompleteTopK) -> Column:
    return columns.label(query, "object", str(query.object), "ties are broken by the larger object")


def _value(columns: Columns, query: IncompleteTopK) -> Column:
    """Return the value column: NaN for missing values, null for filtered rows."""
    number = columns.number(query, "value", str(query.value), "value must be numeric to be aggregated into a score")
    return number if query.where is None else sf.when(columns.filter(query.where, query), number)


def _shards(request: Request, queries: tuple[IncompleteTopK, ...], df: DataFrame) -> int:
    """Return the number of shards: 1 for count windows and intervals, which need all objects in one place."""
    together = queries[0].axis == "count" or any(query.intervals for query in queries)
    shards = shards_for(request, df, 1 if together else MOST_SHARDS)
    if together and shards > 1:
        raise UnsupportedError(
            f"shards={shards} is not supported with count windows or intervals=True, which need all objects in one "
            "shard. Remove shards=."
        )
    return shards


def _answer_type(rows: DataFrame, queries: tuple[IncompleteTopK, ...]) -> st.StructType:
    time = rows.schema[TIME].dataType if queries[0].axis == "time" else st.LongType()
    own = {"time": time, "object": rows.schema[columns_of(0)[0]].dataType}
    return answer_type(_SCHEMA.columns, own, wanted=("best", "sure") if any(one.intervals for one in queries) else ())


def _merge(plan: IncompletePlan, kinds: pa.Schema) -> Task:
    """Return the task that merges the answers of all shards."""

    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        local = ((first, table) for _, first, table in local_answers(batches))
        for table in complete_windows(local, "time"):
            yield from shaped(shard.merged(plan, [table]), kinds).to_batches()

    return task
