"""Queries over uncertain streams on Spark: one shard runs the shared plan over all tuples."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from skyband.errors import InvalidQueryError, UnsupportedError
from skyband.queries.families import FAMILIES
from skyband.sharding.envelope import Envelope
from skyband.spark.expressions import Columns, answer_type
from skyband.spark.plan import Request, StreamInfo, watermark_delays
from skyband.spark.tasks import Batches
from skyband.spark.topology import SparkPlan
from skyband.uncertain.plan import UncertainPlan
from skyband.uncertain.query import UncertainTopK, require_one_size_per_class
from skyband.uncertain.reducer import ID, TIME, columns_of, stream_column, weigh_rows
from skyband.uncertain.schedules import METHODS

__all__ = ["draft"]

_SCHEMA = FAMILIES["uncertain"].answers


class _UncertainSparkPlan(SparkPlan):
    """Spark plan of an uncertain workload. It has one shard, so its answers need no merge."""

    @property
    def stream_info(self) -> StreamInfo:
        return StreamInfo(self.plan.method, self.plan.axis, None, False)

    @property
    def reducer(self) -> Callable[[Batches], Iterable[Envelope]]:
        return partial(weigh_rows, self.plan)


def draft(request: Request) -> _UncertainSparkPlan:
    """Validate the request and return its Spark plan."""
    df, queries, time = request.df, request.workload.queries, request.time
    method = _method(request.algorithm)
    require_one_size_per_class(queries)
    plan = UncertainPlan(
        queries=queries, method=method, refuse_late=request.late == "refuse", may_be_late=df.isStreaming
    )
    columns = Columns(df, _SCHEMA.names)
    at, identity = columns.time_and_id(time, request.id)
    selected = [at.alias(TIME), identity.alias(ID)]
    for number, together in enumerate(plan.classes):
        selected += _tuple_columns(columns, together[0], columns_of(number))
        selected += _labelled(columns, together, stream_column(number))
    rows = df.select(*selected)
    _reject_mixed_labels(plan, rows)
    _, delay = watermark_delays(df, request)
    return _UncertainSparkPlan(
        rows=rows,
        plan=plan,
        answers=_answer_type(rows, plan),
        types={name: rows.schema[name].dataType.simpleString() for name in (TIME, ID)},
        delay=delay,
        watermark_lag=request.watermark_lag(delay),
        final_at_end=request.final_at_end,
    )


def _method(algorithm: str) -> str:
    """Return the name of the schedule method."""
    if algorithm == "auto":
        return "greedy"
    if algorithm in METHODS:
        return algorithm
    raise UnsupportedError(
        f"algorithm={algorithm!r} is not supported for UncertainTopK queries. Use one of {', '.join(METHODS)}."
    )


def _tuple_columns(columns: Columns, query: UncertainTopK, names: tuple[str, str, str]) -> list[Any]:
    """Return the score, probability and rule columns of a class of queries."""
    if query.by is None or query.probability is None:
        raise InvalidQueryError(
            f"query {query.name!r} needs by= and probability=. On Spark they are computed from the row's columns. Set "
            "both to SQL expressions, for example by='speed', probability='confidence'."
        )
    score = columns.number(query, "by", query.by, "by must be numeric to rank rows")
    chance = columns.number(query, "probability", query.probability, "probability must be numeric")
    rule = sf.lit(None).cast("string")
    if query.rule is not None:
        columns.type_of(query, "rule", query.rule)
        rule = sf.expr(query.rule).cast("string")
    if query.where is not None:
        score = sf.when(columns.filter(query.where, query), score)
    return [column.alias(name) for column, name in zip((score, chance, rule), names, strict=True)]


def _labelled(columns: Columns, together: tuple[UncertainTopK, ...], name: str) -> list[Any]:
    """Return the stream column of a class of queries, if one of them ranks streams."""
    query = next((query for query in together if query.stream is not None), None)
    if query is None:
        return []
    rule = "ties are broken by the larger stream"
    return [columns.label(query, "stream", str(query.stream), rule).alias(name)]


def _reject_mixed_labels(plan: UncertainPlan, rows: DataFrame) -> None:
    kinds = {rows.schema[name].dataType.simpleString() for name in _stream_columns(plan)}
    if len(kinds) > 1:
        raise InvalidQueryError(
            f"the queries have streams of the types {', '.join(sorted(kinds))}, but answers have one stream column. "
            "Cast the streams to one type, or use one workload per type."
        )


def _stream_columns(plan: UncertainPlan) -> list[str]:
    return [stream_column(number) for number, stream in enumerate(plan.streams) if stream is not None]


def _answer_type(rows: DataFrame, plan: UncertainPlan) -> st.StructType:
    own = {"time": rows.schema[TIME].dataType if plan.axis == "time" else st.LongType(), "id": rows.schema[ID].dataType}
    if streams := _stream_columns(plan):
        own["stream"] = rows.schema[streams[0]].dataType
    wanted = {"expected_rank"} if any(query.semantics == "expected-rank" for query in plan.queries) else set()
    return answer_type(_SCHEMA.columns, own, wanted=wanted | own.keys())
