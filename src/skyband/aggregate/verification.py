"""The answers of aggregate queries over a bounded input by brute force in plain Spark SQL.

Every row is copied to every window it is in, and grouped by key. In Spark SQL, a sum of doubles depends on their order,
so exact sums are computed from the list of a key's values. This code shares nothing with the pipeline except the
definition of a query.
"""

from __future__ import annotations

from functools import partial

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from skyband.aggregate.brute_force import defined_score, meets
from skyband.aggregate.query import AggregateTopK
from skyband.queries.workload import Workload
from skyband.spark.expressions import quoted, window_ends

__all__ = ["by_brute_force"]

_AT, _KEY, _VALUE, _END, _SCORE = "__at", "__key", "__value", "__end", "__score"


def by_brute_force(rows: DataFrame, workload: Workload[AggregateTopK], *, time: str, id_: str | None) -> DataFrame:
    """Return all answers: query, groups, window end, rank, key and score. Rows need no id."""
    groups = list(dict.fromkeys(name for query in workload for name in query.groups))
    found = [_answers(rows, query, groups, time) for query in workload]
    every = found[0]
    for one in found[1:]:
        every = every.unionByName(one)
    return every


def _answers(rows: DataFrame, query: AggregateTopK, groups: list[str], time: str) -> DataFrame:
    kept = rows if query.where is None else rows.where(sf.expr(query.where))
    mine = {name: f"__group_{place}" for place, name in enumerate(query.groups)}
    value = sf.lit(0.0) if query.value is None else sf.expr(query.value).cast("double")
    objects = kept.select(
        sf.unix_micros(sf.col(quoted(time)).cast("timestamp")).alias(_AT),
        sf.expr(str(query.key)).alias(_KEY),
        value.alias(_VALUE),
        *(sf.expr(name).alias(column) for name, column in mine.items()),
    )
    objects = _without_nan(objects).where(f"{_AT} is not null and {_KEY} is not null and {_VALUE} is not null")
    windowed = objects.withColumn(_END, sf.explode(window_ends(query.window, sf.col(_AT))))
    if query.full_only:
        first = objects.agg(sf.min(_AT)).first()
        windowed = windowed.where(sf.col(_END) - query.window.size >= (first[0] if first and first[0] else 0))
    listed = sf.udf(partial(meets, query), "boolean", useArrow=False)(sf.collect_list(_VALUE))
    met = sf.lit(True) if query.having is None else listed
    scored = windowed.groupBy(_END, *mine.values(), _KEY).agg(_score(query), sf.max(_AT).alias(_AT), met.alias("__met"))
    best_first = Window.partitionBy(_END, *mine.values()).orderBy(
        sf.col(_SCORE).asc() if query.ascending else sf.col(_SCORE).desc(), sf.col(_AT).desc(), sf.col(_KEY).desc()
    )
    ranked = scored.where(f"__met and not isnan({_SCORE})").withColumn("rank", sf.row_number().over(best_first))
    return ranked.where(f"rank <= {query.k}").select(
        sf.lit(query.name).alias("query"),
        *((sf.col(mine[name]) if name in mine else sf.lit(None)).alias(name) for name in groups),
        sf.timestamp_micros(sf.col(_END)).alias("window_end"),
        sf.col("rank"),
        sf.col(_KEY).alias("key"),
        sf.col(_SCORE).alias("score"),
    )


def _without_nan(objects: DataFrame) -> DataFrame:
    """Replace NaN, which is missing, by null, and -0.0 by 0.0."""
    columns = []
    for field in objects.schema.fields:
        column = sf.col(field.name)
        if isinstance(field.dataType, st.FloatType | st.DoubleType):
            column = sf.when(~sf.isnan(column), column + sf.lit(0.0).cast(field.dataType))
        columns.append(column.alias(field.name))
    return objects.select(*columns)


def _score(query: AggregateTopK) -> Column:
    score = defined_score(query)
    in_sql = {"count": sf.count(_VALUE), "max": sf.max(_VALUE), "min": sf.min(_VALUE)}.get(query.aggregate)
    if in_sql is None:
        in_sql = sf.udf(score, "double", useArrow=False)(sf.collect_list(_VALUE))
    return in_sql.cast("double").alias(_SCORE)
