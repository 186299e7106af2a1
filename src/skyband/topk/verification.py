"""The answers of a bounded input by brute force in plain Spark SQL: every row is copied to every window it is in.

This code shares nothing with the pipeline except the definition of a query. The two results are compared row by row.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from skyband.queries.answer_schema import moment_of
from skyband.queries.workload import Workload
from skyband.spark.expressions import quoted, window_ends
from skyband.topk.brute_force import SHOWN, Difference
from skyband.topk.query import TopK
from skyband.windows import IrregularWindows

__all__ = ["Difference", "by_brute_force", "compare", "copies"]

_AT, _SCORE, _TIE, _END = "__at", "__score", "__tie", "__end"


def copies(query: TopK) -> int:
    """Number of windows that contain a row, which is how often brute force processes it."""
    return query.window.most_alive


def by_brute_force(rows: DataFrame, workload: Workload, *, time: str, id_: str | None) -> DataFrame:
    """Return all answers: query, groups, window end, rank, score, and the row's ``__time`` and ``__id``."""
    groups = list(dict.fromkeys(name for query in workload for name in query.partition_by))
    found = [_answers(rows, query, groups, time, id_) for query in workload]
    every = found[0]
    for one in found[1:]:
        every = every.unionByName(one)
    return every


def compare(expected: DataFrame, found: DataFrame) -> Difference:
    """Compare both by the columns of the brute-force answers."""
    same_columns = found.select(*(sf.col(quoted(name)) for name in expected.columns))
    one = expected.groupBy(*map(quoted, expected.columns)).agg(sf.count("*").alias("__n"))
    other = same_columns.groupBy(*map(quoted, expected.columns)).agg((-sf.count("*")).alias("__n"))
    differing = (
        one.unionByName(other)
        .groupBy(*map(quoted, expected.columns))
        .agg(sf.sum("__n").alias("__n"))
        .where("__n <> 0")
        .persist()
    )
    try:
        counts = differing.agg(
            sf.sum(sf.when(sf.col("__n") > 0, sf.col("__n")).otherwise(0)).alias("missing"),
            sf.sum(sf.when(sf.col("__n") < 0, -sf.col("__n")).otherwise(0)).alias("unexpected"),
        ).first()
        some = differing.orderBy(moment_of(expected.columns), "query", "rank").limit(SHOWN).collect()
    finally:
        differing.unpersist()
    examples = []
    for row in some:
        values = row.asDict()
        what = "missing" if values.pop("__n") > 0 else "unexpected"
        examples.append({"what": what, **values})
    missing, unexpected = (int(counts[0] or 0), int(counts[1] or 0)) if counts else (0, 0)
    return Difference(expected.count(), missing, unexpected, examples)


def _answers(rows: DataFrame, query: TopK, groups: list[str], time: str, id_: str | None) -> DataFrame:
    kept = rows if query.where is None else rows.where(sf.expr(query.where))
    # Without an id, ties are broken by a hash of the row.
    tie = sf.xxhash64(*(sf.col(quoted(name)) for name in rows.columns)) if id_ is None else sf.col(quoted(id_))
    mine = [sf.expr(name).alias(f"__group_{place}") for place, name in enumerate(query.partition_by)]
    shared = [f"__group_{place}" for place, _ in enumerate(query.partition_by)]
    objects = kept.select(
        sf.unix_micros(sf.col(quoted(time)).cast("timestamp")).alias(_AT),
        (sf.expr(str(query.by)).cast("double") + 0.0).alias(_SCORE),
        tie.alias(_TIE),
        sf.col(quoted(time)).alias("__time"),
        *mine,
    ).where(f"{_AT} is not null and {_SCORE} is not null and not isnan({_SCORE})")
    if query.axis == "count":
        in_order = Window.partitionBy(*shared).orderBy(sf.col(_AT).asc(), sf.col(_TIE).asc_nulls_first())
        everything = Window.partitionBy(*shared)
        objects = objects.withColumn("__position", sf.row_number().over(in_order).cast("long") - 1)
        objects = objects.withColumn("__reached", sf.count("*").over(everything))
    else:
        objects = objects.withColumn("__position", sf.col(_AT)).withColumn("__reached", sf.lit(None).cast("long"))
    if isinstance(query.window, IrregularWindows):
        return _ranked(_in_listed(objects, rows, query, query.window, time), query, shared, groups, id_)
    windowed = objects.withColumn(_END, sf.explode(window_ends(query.sliding, sf.col("__position")))).where(
        f"__reached is null or {_END} <= __reached"
    )
    if query.full_only:
        windowed = windowed.where(sf.col(_END) - query.sliding.size >= _first(objects, query))
    return _ranked(windowed, query, shared, groups, id_)


def _in_listed(objects: DataFrame, rows: DataFrame, query: TopK, window: IrregularWindows, time: str) -> DataFrame:
    """Return the objects of every window, joined with a table of all windows."""
    at = sf.unix_micros(sf.col(quoted(time)).cast("timestamp"))
    bounds = rows.agg(sf.min(at), sf.max(at)).first()
    pairs: list[tuple[int, int]] = []
    if bounds is not None and bounds[0] is not None:
        starts, ends = window.reported(int(bounds[0]), int(bounds[1]))
        pairs = list(zip(starts.tolist(), ends.tolist(), strict=True))
    listed = rows.sparkSession.createDataFrame(pairs, f"__start long, {_END} long")
    inside = (sf.col("__position") >= sf.col("__start")) & (sf.col("__position") < sf.col(_END))
    windowed = objects.join(sf.broadcast(listed), inside)
    return windowed.where(sf.col("__start") >= _first(objects, query)) if query.full_only else windowed


def _first(objects: DataFrame, query: TopK) -> int:
    if query.axis == "count":
        return 0
    row = objects.agg(sf.min(_AT)).first()
    return 0 if row is None or row[0] is None else int(row[0])


def _ranked(windowed: DataFrame, query: TopK, shared: list[str], groups: list[str], id_: str | None) -> DataFrame:
    best_first = sf.col(_SCORE).desc() if query.order == "desc" else sf.col(_SCORE).asc()
    window = Window.partitionBy(_END, *shared)
    if query.ties == "rank":
        rank = sf.rank().over(window.orderBy(best_first))
    else:
        order = (best_first, sf.col("__position").desc(), sf.col(_TIE).desc_nulls_last())
        rank = sf.row_number().over(window.orderBy(*order))
    end = sf.timestamp_micros(sf.col(_END)) if query.axis == "time" else sf.col(_END)
    columns = [sf.lit(query.name).alias("query")]
    for name in groups:
        place = list(query.partition_by).index(name) if name in query.partition_by else None
        columns.append((sf.lit(None) if place is None else sf.col(f"__group_{place}")).alias(name))
    columns += [
        end.alias("window_end"),
        sf.col("__rank").alias("rank"),
        sf.col(_SCORE).alias("score"),
        sf.col("__time"),
    ]
    columns += [] if id_ is None else [sf.col(_TIE).alias("__id")]
    return windowed.withColumn("__rank", rank).where(f"__rank <= {query.k}").select(*columns)
