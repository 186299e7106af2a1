"""Aggregate queries on Spark: partials in every task, totals in shards of keys, and a final merge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from skyband.aggregate.plan import AggregatePlan, AggregateScan, scans_of
from skyband.aggregate.query import AggregateTopK
from skyband.aggregate.reducer import panes_of, sum_rows
from skyband.aggregate.shard import merged as merged_shards
from skyband.errors import InvalidQueryError
from skyband.kernels.stream import Ints
from skyband.queries.families import FAMILIES
from skyband.sharding.bounded_input import complete_windows
from skyband.sharding.envelope import Envelope
from skyband.spark.expressions import HIDDEN, Columns, answer_type, plain, quoted
from skyband.spark.plan import Request, StreamInfo, shards_for, watermark_delays
from skyband.spark.tasks import Batches, Task, local_answers
from skyband.spark.topology import SparkPlan

__all__ = ["draft"]

_SCHEMA = FAMILIES["aggregate"].answers
_TIME = f"{HIDDEN}time"
_KEYS = (st.IntegralType, st.FractionalType, st.StringType, st.BinaryType, st.DateType, st.TimestampType)
_MORE_KEYS = (st.TimestampNTZType, st.BooleanType)


@dataclass(frozen=True, kw_only=True, eq=False)
class _AggregateSparkPlan(SparkPlan):
    """Spark plan of an aggregate workload: rows with keys and values, and the shard plan."""

    moment, end = "window_end", "end"
    counts = ("late", "unrankable")

    answer_names: tuple[str, ...]  # as spelled by the user

    @property
    def description(self) -> dict[str, Any]:
        scans = [[scan.key, scan.value, scan.where, *scan.partition_by] for scan in self.plan.scans]
        # A resume check reports the first difference. Scans come first because other scans imply other columns.
        return {"axis": self.plan.axis, "family": self.plan.family, "feeds": scans, **super().description}

    @property
    def stream_info(self) -> StreamInfo:
        return StreamInfo("totals", "time", None, False)

    @property
    def names(self) -> tuple[str, ...]:
        return self.answer_names

    @property
    def reducer(self) -> Callable[[Batches], Iterable[Envelope]]:
        return partial(sum_rows, self.plan)

    @property
    def positions(self) -> Callable[[pa.Table], Ints]:
        return panes_of

    def merger(self, kinds: pa.Schema) -> Task:
        return _merge(self.plan, kinds, in_order=not self.rows.isStreaming)

    @property
    def merge_order(self) -> list[Column]:
        return [sf.floor(sf.col("unit") / self.plan.shards), *super().merge_order]


def _merge(plan: AggregatePlan, kinds: pa.Schema, *, in_order: bool) -> Task:
    """Return the task that merges the answers of all shards. It needs all answers of a micro-batch.

    `in_order` is True if answers arrive sorted by scan, as for a bounded input.
    """

    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        found = ((unit // plan.shards, first, table) for unit, first, table in local_answers(batches))
        for scan, tables in groupby(found if in_order else sorted(found, key=itemgetter(0)), key=itemgetter(0)):
            for table in complete_windows(((first, table) for _, first, table in tables), "end"):
                yield from merged_shards(plan, scan, [table]).cast(kinds).to_batches()

    return task


def draft(request: Request) -> _AggregateSparkPlan:
    """Validate the request and return its Spark plan."""
    df, queries, time = request.df, request.workload.queries, request.time
    columns = Columns(df, _SCHEMA.names)
    at = columns.time(time)
    scans = scans_of(queries)
    groups = [columns.groups(scan.partition_by, queries[scan.places[0]]) for scan in scans]
    shards = shards_for(request, df)
    keys = [_key(columns, scan, queries[scan.places[0]]) for scan in scans]
    types = {kind.simpleString(): kind for _, kind in keys}
    if len(types) > 1:
        raise InvalidQueryError(
            f"the queries have keys of the types {', '.join(sorted(types))}, but answers have one key column. "
            "Cast the keys to one type, or use one workload per type."
        )
    numbers = range(len(scans))
    plan = AggregatePlan(
        queries=queries,
        shards=shards,
        time=_TIME,
        groups=tuple(tuple(found) for found in groups),
        keys=tuple(f"{HIDDEN}key_{number}" for number in numbers),
        values=tuple(f"{HIDDEN}value_{number}" if scans[number].value else None for number in numbers),
        wanted=tuple(f"{HIDDEN}wanted_{number}" for number in numbers),
        homes=tuple(f"{HIDDEN}home_{number}" for number in numbers),
        utc=isinstance(df.schema[at].dataType, st.TimestampType),
    )
    _, delay = watermark_delays(df, request)
    by_name = {name: _nan_to_null(column, df) for found in groups for name, column in found.items()}
    selected = [sf.col(quoted(at)).alias(_TIME)]
    selected += [column.alias(name) for name, column in by_name.items()]
    for number, scan in enumerate(scans):
        selected += _scan_columns(
            columns, scan, number, plan, keys[number][0], [by_name[name] for name in groups[number]]
        )
    rows = df.select(*selected)
    bound = df.schema[at].dataType
    answers = _answer_type(plan, rows.schema, bound, keys[0][1])
    grouped = {plain(name): name for scan in scans for name in columns.spelled(scan.partition_by)}
    return _AggregateSparkPlan(
        rows=rows,
        plan=plan,
        answers=answers,
        types={field.name: field.dataType.simpleString() for field in answers.fields},
        delay=delay,
        watermark_lag=request.watermark_lag(delay),
        final_at_end=request.final_at_end,
        answer_names=tuple(grouped.get(name, name) for name in answers.names),
    )


def _key(columns: Columns, scan: AggregateScan, query: AggregateTopK) -> tuple[Column, st.DataType]:
    """Return the scan's key column, null for rows without a key, and its type."""
    if scan.key is None:
        raise InvalidQueryError(
            f"query {query.name!r} has no key=. On Spark the key is computed from the row's columns. Set key= to an "
            "SQL expression, for example key='client'."
        )
    kind = columns.type_of(query, "key", scan.key)
    if not isinstance(kind, _KEYS + _MORE_KEYS) or isinstance(kind, st.DecimalType):
        raise InvalidQueryError(
            f"query {query.name!r}: key={scan.key!r} is of type {kind.simpleString()}. A key must be a number, string, "
            "binary, date, timestamp or boolean, because ties are broken by the larger key. Cast it, for example to a "
            "string."
        )
    key = sf.expr(scan.key)
    if isinstance(kind, st.FloatType | st.DoubleType):
        key = sf.when(~sf.isnan(key), key + sf.lit(0.0).cast(kind))
    return key, kind


def _nan_to_null(group: Column, df: DataFrame) -> Column:
    """Return a group column with NaN replaced by null, as in process, and -0.0 by 0.0."""
    kind = df.select(group.alias("group")).schema["group"].dataType
    if not isinstance(kind, st.FloatType | st.DoubleType):
        return group
    return sf.when(~sf.isnan(group), group + sf.lit(0.0).cast(kind))


def _scan_columns(
    columns: Columns, scan: AggregateScan, number: int, plan: AggregatePlan, key: Column, groups: list[Column]
) -> list[Column]:
    """Return the columns of a scan: key, value, whether the row counts (null if filtered out), and its shard."""
    query = plan.queries[scan.places[0]]
    offered = [key.alias(plan.keys[number])]
    counts = key.isNotNull()
    if scan.value is not None:
        value = columns.number(query, "value", scan.value, "value must be numeric to be aggregated") + sf.lit(0.0)
        counts = counts & ~sf.isnan(value)
        offered.append(value.alias(str(plan.values[number])))
    wanted = counts if scan.where is None else sf.when(columns.filter(scan.where, query), counts)
    home = sf.pmod(sf.xxhash64(*groups, key), sf.lit(plan.shards)).cast("int")
    return [*offered, wanted.alias(plan.wanted[number]), home.alias(plan.homes[number])]


def _answer_type(plan: AggregatePlan, rows: st.StructType, time: st.DataType, key: st.DataType) -> st.StructType:
    groups = {name: rows[name].dataType for name in plan.group_columns}
    return answer_type(_SCHEMA.columns, {"window_start": time, "window_end": time, "key": key}, groups=groups)
