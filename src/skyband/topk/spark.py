"""Top-k queries on Spark: combines reducer, shards and output."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st
from pyspark.sql.pandas.types import to_arrow_schema

from skyband.errors import InvalidQueryError
from skyband.kernels.stream import Ints
from skyband.sharding.envelope import Envelope
from skyband.sharding.plan import without_copies
from skyband.sharding.rows import positions_of
from skyband.spark.expressions import HIDDEN, Columns, answer_type, plain, quoted
from skyband.spark.late_rows import late_rows
from skyband.spark.plan import (
    MOST_SHARDS,
    Late,
    Observed,
    Pipeline,
    Request,
    StreamInfo,
    shards_for,
    spelled,
    watermark_delays,
)
from skyband.spark.tasks import Batches, unpack
from skyband.spark.topology import SparkPlan, shard_sizes, spread, sums
from skyband.topk.algorithm_selection import choose_on_spark
from skyband.topk.algorithms import engine_named
from skyband.topk.plan import Scan, TopKPlan, scans_of
from skyband.topk.query import TopK
from skyband.topk.reducer import reduce_rows
from skyband.topk.shard_answers import answer_columns

__all__ = ["draft"]


@dataclass(frozen=True, kw_only=True, eq=False)
class _TopKSparkPlan(SparkPlan):
    """Rows with scores, and the plan for them. Each shard's answers are complete; no merge is needed."""

    moment = end = "window_end"

    given: DataFrame  # the rows without scores, with a watermark if it is set at the source
    time: str
    late: Late
    answer_names: tuple[str, ...]  # as users name them

    @property
    def description(self) -> dict[str, Any]:
        plan = self.plan
        return {"axis": plan.axis, "time": plan.time, "id": plan.id, "columns": self.types, "shards": plan.shards}

    @property
    def stream_info(self) -> StreamInfo:
        bound = sum(query.k * query.window.most_alive for query in self.plan.queries)
        filtered = all(scan.where for scan in self.plan.scans)
        return StreamInfo(self.plan.algorithm, self.plan.axis, bound, filtered)

    @property
    def names(self) -> tuple[str, ...]:
        return self.answer_names

    @property
    def reducer(self) -> Callable[[Batches], Iterable[Envelope]]:
        return partial(reduce_rows, self.plan)

    @property
    def positions(self) -> Callable[[pa.Table], Ints]:
        return partial(positions_of, time=self.plan.time)

    def assemble(self, control: str | None, counted: Observed | None = None) -> Pipeline:
        found = super().assemble(control, counted)
        if self.late != "return":
            return found
        df = self.given
        if not df.isStreaming:
            return found._replace(late=df.limit(0))
        keys = spread(self.plan.units)
        return found._replace(late=late_rows(df, self.time, keys, control, final_at_end=self.final_at_end))

    def collect(self, local: DataFrame, counted: Observed | None) -> DataFrame:
        if local.isStreaming:
            newest = [sf.max(name).alias(name) for name in ("newest", "last_end")]
            sizes = shard_sizes(self.plan.units)
            local = local.observe("skyband_out", *sums("late", "windows", "answered"), *newest, *sizes)
        elif counted is not None:
            local = local.observe(counted.answered, *sums("windows"))
        kinds = to_arrow_schema(self.answers, timezone="UTC")
        return local.select("answers").mapInArrow(unpack(kinds), self.answers)


def draft(request: Request) -> _TopKSparkPlan:
    """Reject unsupported requests, and plan the others."""
    df, late, scans = request.df, request.late, scans_of(request.workload)
    # Groups are distributed over all shards; a scan without groups is in one shard.
    shards = shards_for(request, df, MOST_SHARDS if any(scan.partition_by for scan in scans) else len(scans))
    there, delay = watermark_delays(df, request)
    watermark_lag = request.watermark_lag(delay)
    # Rows that every filter removes also advance time. A watermark at the source sees them. If all rows reach the
    # tasks, it is cheaper to use only the newest row of each batch.
    if delay is not None and (late == "return" or all(query.where for query in request.workload)):
        df, there, delay = df.withWatermark(spelled(df, request.time), f"{delay} milliseconds"), delay, None
    prepared = _prepare(df, request, shards, 1000 * ((there if delay is None else delay) or 0))
    return _TopKSparkPlan(
        **prepared._asdict(),
        delay=delay,
        watermark_lag=watermark_lag,
        final_at_end=request.final_at_end,
        given=df,
        time=spelled(df, request.time),
        late=late,
    )


class _Prepared(NamedTuple):
    """Rows with scores, the plan for them, and the schema of the answers."""

    rows: DataFrame
    plan: TopKPlan
    answers: st.StructType
    answer_names: tuple[str, ...]
    types: dict[str, str]


def _prepare(df: DataFrame, request: Request, shards: int, delay: int) -> _Prepared:
    """Validate the workload against the columns of `df`, and let Spark compute scores and groups.

    A group column is null in the answers of queries without groups. With `row_copies`, answers also contain the row's
    own value as ``row_<name>``.
    """
    workload, algorithm = request.workload, request.algorithm
    engine = engine_named(choose_on_spark(workload.queries).algorithm if algorithm == "auto" else algorithm)
    engine.refuse_ties(workload.queries)
    columns = Columns(df, tuple(column.name for column in answer_columns(request.output)))
    at = columns.time(request.time)
    scans = scans_of(workload)
    scores = [_score(columns, scan, workload.queries[scan.places[0]]) for scan in scans]
    groups = [columns.groups(scan.partition_by, workload.queries[scan.places[0]]) for scan in scans]
    by_name = {name: column for found in groups for name, column in found.items()}
    named = columns.returned(
        workload, {name for scan in scans for name in columns.spelled(scan.partition_by)}, row_copies=request.row_copies
    )
    returned = {plain(name): old for name, old in named.items()}
    names = {old: new for new, old in returned.items()}
    selected = [sf.col(quoted(old)).alias(new) for new, old in returned.items()]
    time_name, id_name = names.get(at, at), f"{HIDDEN}id"
    if at not in names:
        time_name = f"{HIDDEN}time"
        selected.append(sf.col(quoted(at)).alias(time_name))
    if request.id is not None and (known := columns.id(request.id)) in names:
        id_name = names[known]
    else:
        selected.append(columns.time_and_id(at, request.id)[1].alias(id_name))
    selected += [column.alias(name) for name, column in by_name.items()]
    selected += [column.alias(f"{HIDDEN}score_{number}") for number, column in enumerate(scores)]
    rows = df.select(*selected)
    grouped = {plain(name): name for scan in scans for name in columns.spelled(scan.partition_by)}
    kept = set(returned) | {name for name, spelled in grouped.items() if spelled in columns}
    plan = TopKPlan(
        queries=workload.queries,
        algorithm=engine.name,
        shards=shards,
        time=time_name,
        id=id_name,
        scores=tuple(f"{HIDDEN}score_{number}" for number in range(len(scans))),
        groups=tuple(tuple(found) for found in groups),
        columns=tuple(sorted(kept)),
        returned=tuple(returned),
        may_be_late=df.isStreaming and request.late != "refuse",
        delay=delay,
        output=request.output,
    )
    types = {name: rows.schema[name].dataType.simpleString() for name in without_copies(plan.columns)}
    matching = _matching_rows(rows, plan)
    shown = {**grouped, **dict(zip(returned, named, strict=True))}
    answers = _answer_type(rows.schema, plan)
    return _Prepared(matching, plan, answers, tuple(shown.get(name, name) for name in answers.names), types)


def _score(columns: Columns, scan: Scan, query: TopK) -> Column:
    """The scan's score; null if the filter removes the row, NaN if the row has no score."""
    if scan.by is None:
        raise InvalidQueryError(
            f"query {query.name!r} has no by=. On Spark, the score is computed from the row's columns. "
            "Set by= to an SQL expression, for example by='price * size'."
        )
    number = columns.number(query, "by", scan.by, "a score must be a number, or rows cannot be ranked")
    return number if scan.where is None else sf.when(columns.filter(scan.where, query), number)


def _matching_rows(rows: DataFrame, plan: TopKPlan) -> DataFrame:
    """Drop rows that no scan uses, if every scan has a filter; the watermark has already seen their times."""
    if not all(scan.where for scan in plan.scans):
        return rows
    # Spark pushes a filter below the watermark, where it would hide times from it, unless it refers to the time.
    wanted = sf.col(quoted(plan.time)) < sf.lit("0001-01-01").cast(rows.schema[plan.time].dataType)
    for name in plan.scores:
        wanted = wanted | sf.col(name).isNotNull()
    return rows.where(wanted)


def _answer_type(rows: st.StructType, plan: TopKPlan) -> st.StructType:
    bound = rows[plan.time].dataType if plan.axis == "time" else st.LongType()
    return answer_type(
        answer_columns(plan.output),
        {"window_start": bound, "window_end": bound},
        groups={name: rows[name].dataType for name in plan.group_columns},
        rest={name: rows[name].dataType for name in plan.returned},
    )
