"""Queries over uncertain streams on Spark: tuples in one place, where the shared plan runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st
from pyspark.sql.pandas.types import to_arrow_schema

from skyband.errors import InvalidQueryError, UnsupportedError
from skyband.queries.families import FAMILIES
from skyband.sharding.rows import positions_of
from skyband.spark import tasks
from skyband.spark.answer_types import answer_type
from skyband.spark.expressions import Columns, quoted
from skyband.spark.plan import Observed, Pipeline, Request, StreamInfo, checked_delay, delay_of, spelled
from skyband.spark.processor import OUTPUT, ShardProcessor
from skyband.spark.topology import at_the_shards, by_oldest, held_by_shard, merged, spread, sums
from skyband.uncertain.plan import UncertainPlan
from skyband.uncertain.query import UncertainTopK, refuse_other_sizes
from skyband.uncertain.reducer import ID, TIME, columns_of, stream_column, weigh_rows
from skyband.uncertain.schedules import METHODS

__all__ = ["draft"]

_SCHEMA = FAMILIES["uncertain"].answers


class _Weighed(NamedTuple):
    """Uncertain tuples, and the plan to answer them by."""

    rows: DataFrame
    plan: UncertainPlan
    answers: st.StructType
    types: dict[str, str]
    delay: int | None  # of the watermark that is to be set, in milliseconds
    watermark_lag: int | None  # how far the next watermark will stand behind the newest row, in microseconds
    final_at_end: bool  # whether nothing is final before the end of the stream

    @property
    def description(self) -> dict[str, Any]:
        return {"axis": self.plan.axis, "family": UncertainTopK.family, "columns": self.types, "shards": 1}

    @property
    def stream_info(self) -> StreamInfo:
        return StreamInfo(self.plan.method, self.plan.axis, None, False)

    def assemble(self, control: str | None, counted: Observed | None = None) -> Pipeline:
        keys, streaming = spread(1), self.rows.isStreaming
        cut_by = None if streaming else partial(positions_of, time="position")
        weigh = tasks.to_shards(partial(weigh_rows, self.plan), keys, cut_by)
        envelopes = self.rows.mapInArrow(weigh, tasks.ENVELOPES)
        if not streaming:
            answer = tasks.answer_in_order(self.plan, keys, "time")
            local = by_oldest(envelopes, 1, counted).mapInArrow(answer, tasks.LOCAL)
            return Pipeline(self._unpacked(local, counted), None)
        processor = ShardProcessor(self.plan, keys, self.watermark_lag, final_at_end=self.final_at_end)
        packed = (
            at_the_shards(envelopes, keys, control, self.delay)
            .groupBy("shard")
            .transformWithState(processor, OUTPUT, "Append", "EventTime")
        )
        told = [*sums("late"), sf.max("newest").alias("newest")]
        packed = packed.observe("skyband_held", *told, *held_by_shard("shard", 1))
        return Pipeline(self._unpacked(packed.select("answers")), None)

    def _unpacked(self, packed: DataFrame, counted: Observed | None = None) -> DataFrame:
        kinds = to_arrow_schema(self.answers, timezone="UTC")
        return merged(packed, _unpack(kinds), self.answers, "time", counted)


def draft(request: Request) -> _Weighed:
    """Refuse what cannot be answered, and settle how the rest will be."""
    df, queries, time = request.df, request.workload.queries, request.time
    method = _method(request.algorithm)
    refuse_other_sizes(queries)
    plan = UncertainPlan(
        queries=queries, method=method, refuse_late=request.late == "refuse", may_be_late=df.isStreaming
    )
    columns = Columns(df, _SCHEMA.names)
    at = columns.time(time)
    identity = columns.identity() if request.id is None else sf.col(quoted(columns.id(request.id)))
    selected = [sf.col(quoted(spelled(df, at))).alias(TIME), identity.alias(ID)]
    for number, together in enumerate(plan.classes):
        selected += _tuple_columns(columns, together[0], columns_of(number))
        selected += _labelled(columns, together, stream_column(number))
    rows = df.select(*selected)
    _refuse_mixed_labels(plan, rows)
    there = delay_of(df, time)
    delay = checked_delay(df, time, request.watermark, there) if df.isStreaming else None
    types = {name: rows.schema[name].dataType.simpleString() for name in (TIME, ID)}
    return _Weighed(
        rows, plan, _answer_type(rows, plan), types, delay, request.watermark_lag(delay), request.final_at_end
    )


def _method(algorithm: str) -> str:
    """The name of the plan."""
    if algorithm == "auto":
        return "greedy"
    if algorithm in METHODS:
        return algorithm
    raise UnsupportedError(f"algorithm={algorithm!r} is no plan of uncertain queries; there are {', '.join(METHODS)}.")


def _tuple_columns(columns: Columns, query: UncertainTopK, names: tuple[str, str, str]) -> list[Any]:
    """Score, probability and rule of a row, for queries that run together."""
    if query.by is None or query.probability is None:
        raise InvalidQueryError(
            f"query {query.name!r} needs by= and probability=; on Spark score and probability are computed from the "
            "row's columns. Give both as SQL expressions, for example by='speed', probability='confidence'."
        )
    score = columns.number(query, "by", query.by, "a score must be a number, or rows cannot be ranked")
    chance = columns.number(query, "probability", query.probability, "a probability must be a number")
    rule = sf.lit(None).cast("string")
    if query.rule is not None:
        columns.type_of(query, "rule", query.rule)
        rule = sf.expr(query.rule).cast("string")
    if query.where is not None:
        score = sf.when(columns.filter(query.where, query), score)
    return [column.alias(name) for column, name in zip((score, chance, rule), names, strict=True)]


def _labelled(columns: Columns, together: tuple[UncertainTopK, ...], name: str) -> list[Any]:
    """Which stream a row comes from, where queries that run together rank streams."""
    query = next((query for query in together if query.stream is not None), None)
    if query is None:
        return []
    rule = "of equal sums the larger stream comes first"
    return [columns.label(query, "stream", str(query.stream), rule).alias(name)]


def _refuse_mixed_labels(plan: UncertainPlan, rows: DataFrame) -> None:
    kinds = {rows.schema[name].dataType.simpleString() for name in _stream_columns(plan)}
    if len(kinds) > 1:
        raise InvalidQueryError(
            f"the streams of the queries are of the types {', '.join(sorted(kinds))}, and answers have one column for "
            "all of them; cast them to one type, or make two workloads."
        )


def _stream_columns(plan: UncertainPlan) -> list[str]:
    return [stream_column(number) for number, stream in enumerate(plan.streams) if stream is not None]


def _answer_type(rows: DataFrame, plan: UncertainPlan) -> st.StructType:
    own = {"time": rows.schema[TIME].dataType if plan.axis == "time" else st.LongType(), "id": rows.schema[ID].dataType}
    if streams := _stream_columns(plan):
        own["stream"] = rows.schema[streams[0]].dataType
    wanted = {"expected_rank"} if any(query.semantics == "expected-rank" for query in plan.queries) else set()
    return answer_type(_SCHEMA.columns, own, wanted=wanted | own.keys())


def _unpack(kinds: pa.Schema) -> tasks.Task:
    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _, _, table in tasks.local_answers(batches):
            yield from _as(table, kinds).to_batches()

    return task


def _as(table: pa.Table, kinds: pa.Schema) -> pa.Table:
    for name in kinds.names:
        if name not in table.column_names:  # other queries ask for it
            table = table.append_column(name, pa.nulls(table.num_rows, kinds.field(name).type))
    return table.select(kinds.names).cast(kinds)
