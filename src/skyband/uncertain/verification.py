"""The expected answers of uncertain queries on Spark, beside the answers that were found.

Spark SQL computes the columns of tuples; the definitions judge the answers in this process, which therefore holds all
tuples of a query at once.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from skyband.queries.workload import Workload
from skyband.spark.expressions import quoted
from skyband.uncertain.brute_force import TUPLE, answer_kinds, group_kinds, group_name, judged
from skyband.uncertain.query import UncertainTopK

__all__ = ["by_moments"]


def by_moments(
    rows: DataFrame, workload: Workload[UncertainTopK], *, time: str, id_: str | None, found: DataFrame | None
) -> DataFrame:
    """Return an empty frame of answers if `found` is None, else the answers that are expected beside it."""
    spark = rows.sparkSession
    used = rows.limit(0) if found is None else rows  # kinds need no rows
    tables = [_tuples(used, query, time, id_) for query in workload]
    streams = [table["stream"].type for table, query in zip(tables, workload, strict=True) if query.stream]
    bound = pa.timestamp("us", "UTC" if isinstance(rows.schema[time].dataType, st.TimestampType) else None)
    at: Any = bound if workload.axis == "time" else pa.int64()
    groups = group_kinds(tables, workload)
    kinds = answer_kinds(workload, at, tables[0]["id"].type, streams[0] if streams else pa.null(), groups)
    if found is None:
        return spark.createDataFrame(kinds.empty_table())
    return spark.createDataFrame(judged(tables, workload, found.toArrow().cast(kinds)))


def _tuples(rows: DataFrame, query: UncertainTopK, time: str, id_: str | None) -> pa.Table:
    # Without an id, a hash of the row orders simultaneous tuples, and identifies them in answers.
    tie = sf.xxhash64(*(sf.col(quoted(name)) for name in rows.columns)) if id_ is None else sf.col(quoted(id_))
    kept = rows if query.where is None else rows.where(sf.expr(query.where))

    def computed(text: str | None) -> Column:
        return sf.lit(None).cast("string") if text is None else sf.expr(text)

    score, chance = (computed(text).cast("double") for text in (query.by, query.probability))
    at = sf.unix_micros(sf.col(quoted(time)).cast("timestamp"))
    columns = (at, tie, score, chance, computed(query.rule), computed(query.stream))
    named = [column.alias(name) for column, name in zip(columns, TUPLE, strict=True)]
    groups = [sf.expr(name).alias(group_name(place)) for place, name in enumerate(query.groups)]
    return kept.select(*named, *groups).toArrow()
