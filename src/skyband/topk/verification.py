"""The answers of a bounded input by brute force in plain Spark SQL: every row is copied to every window it is in.

This code shares nothing with the pipeline except the definition of a query. The two results are compared row by row.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from skyband.queries.answer_schema import moment_of
from skyband.queries.workload import Workload
from skyband.session_windows import SessionWindows
from skyband.spark.expressions import in_listed_windows, in_sessions, quoted, window_ends
from skyband.topk.brute_force import SHOWN, Difference
from skyband.topk.query import TopK
from skyband.windows import IrregularWindows

__all__ = ["Difference", "by_brute_force", "compare", "copies", "rounded"]

_AT, _SCORE, _TIE, _END, _ENTITY = "__at", "__score", "__tie", "__end", "__entity"


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
    keys = [key.alias(f"__key_{place}") for place, key in enumerate(_keys(kept, query, time))]
    entity = [] if query.distinct is None else [sf.expr(query.distinct).alias(_ENTITY)]
    objects = kept.select(
        sf.unix_micros(sf.col(quoted(time)).cast("timestamp")).alias(_AT),
        _score(kept, query).alias(_SCORE),
        tie.alias(_TIE),
        sf.col(quoted(time)).alias("__time"),
        *mine,
        *keys,
        *entity,
    ).where(f"{_AT} is not null and {_SCORE} is not null and not isnan({_SCORE})")
    if query.axis == "count":
        in_order = Window.partitionBy(*shared).orderBy(sf.col(_AT).asc(), sf.col(_TIE).asc_nulls_first())
        everything = Window.partitionBy(*shared)
        objects = objects.withColumn("__position", sf.row_number().over(in_order).cast("long") - 1)
        objects = objects.withColumn("__reached", sf.count("*").over(everything))
    else:
        objects = objects.withColumn("__position", sf.col(_AT)).withColumn("__reached", sf.lit(None).cast("long"))
    if isinstance(query.window, SessionWindows):
        return _ranked(in_sessions(objects, _AT, query.window, shared, _END), query, shared, groups, id_)
    if isinstance(query.window, IrregularWindows):
        found = in_listed_windows(objects, "__position", query.window, (rows, time), _END)
        if query.full_only:
            found = found.where(sf.col("__start") >= _first(objects, query))
        return _ranked(found, query, shared, groups, id_)
    windowed = objects.withColumn(_END, sf.explode(window_ends(query.sliding, sf.col("__position")))).where(
        f"__reached is null or {_END} <= __reached"
    )
    if query.full_only:
        windowed = windowed.where(sf.col(_END) - query.sliding.size >= _first(objects, query))
    return _ranked(windowed, query, shared, groups, id_)


def _score(rows: DataFrame, query: TopK) -> Column:
    """Return the score as answers contain it: a double, of values of any type."""
    value = sf.expr(str(query.by))
    kind = rows.select(value).schema[0].dataType
    if isinstance(kind, st.StringType | st.BinaryType):
        value = sf.conv(sf.rpad(sf.substring(sf.hex(value), 1, 12), 12, "0"), 16, 10)
    elif isinstance(kind, st.DateType):
        value = sf.unix_date(value)
    elif isinstance(kind, st.TimestampType | st.TimestampNTZType):
        value = sf.unix_micros(value.cast("timestamp"))
    elif isinstance(kind, st.BooleanType):
        value = value.cast("int")
    return value.cast("double") + 0.0


def _keys(rows: DataFrame, query: TopK, time: str) -> list[Column]:
    """Return what rows are ranked by, best first if they are sorted as `_in_order` does."""
    rule = query.ranking_rule
    if rule is not None and rule.half_life_ticks is not None:
        keys = _decayed_parts(_score(rows, query), time, rule.half_life_ticks)
    else:
        keys = [_positive_zero(rows, sf.expr(str(query.by)))]
    later = () if rule is None else rule.columns
    return keys + [_positive_zero(rows, sf.expr(column.text)) for column in later]


def _positive_zero(rows: DataFrame, value: Column) -> Column:
    if not isinstance(rows.select(value).schema[0].dataType, st.FloatType | st.DoubleType):
        return value
    return sf.when(~sf.isnan(value), value + 0.0)  # null instead of NaN


def _decayed_parts(score: Column, time: str, half_life: int) -> list[Column]:
    """Return sign, exponent and fraction of ``score * 2 ** (time / half_life)``, each with the sign of the score."""
    at = sf.unix_micros(sf.col(quoted(time)).cast("timestamp"))
    rest = sf.pmod(at, sf.lit(half_life))
    whole = ((at - rest) / half_life).cast("long")
    finite = (score != 0) & (sf.abs(score) != float("inf"))
    exponent = sf.floor(sf.log2(sf.abs(score)))  # about: the fraction is normalized below
    low = (exponent / 2).cast("long")
    # Two factors: one power of two may be too large for a double.
    fraction = sf.abs(score) * sf.pow(sf.lit(2.0), -low) * sf.pow(sf.lit(2.0), low - exponent)
    fraction = fraction * sf.pow(sf.lit(2.0), rest / half_life)
    more = sf.when(fraction >= 4, 2).when(fraction >= 2, 1).when(fraction < 1, -1).otherwise(0)
    sign = sf.signum(score)
    return [
        sf.when(sf.abs(score) == float("inf"), 2 * sign).otherwise(sign),
        sf.when(finite, sign * (exponent + more + whole)).otherwise(0.0),
        sf.when(finite, sign * fraction * sf.pow(sf.lit(2.0), -more)).otherwise(0.0),
    ]


def _in_order(query: TopK) -> list[Column]:
    """Return the order of rows by their keys."""
    rule = query.ranking_rule
    first = 3 if rule is not None and rule.half_life is not None else 1
    names = [sf.col(f"__key_{place}") for place in range(first)]
    order = [name.asc() if query.order == "asc" else name.desc() for name in names]
    for place, column in enumerate(() if rule is None else rule.columns, first):
        key = sf.col(f"__key_{place}")
        if column.order == "asc":
            order.append(key.asc_nulls_first() if column.nulls_first else key.asc_nulls_last())
        else:
            order.append(key.desc_nulls_first() if column.nulls_first else key.desc_nulls_last())
    return order


def _first(objects: DataFrame, query: TopK) -> int:
    if query.axis == "count":
        return 0
    row = objects.agg(sf.min(_AT)).first()
    return 0 if row is None or row[0] is None else int(row[0])


def _ranked(windowed: DataFrame, query: TopK, shared: list[str], groups: list[str], id_: str | None) -> DataFrame:
    best_first = _in_order(query)
    window = Window.partitionBy(_END, *shared)
    order = (*best_first, sf.col("__position").desc(), sf.col(_TIE).desc_nulls_last())
    if query.distinct is not None:
        of_entity = Window.partitionBy(_END, *shared, _ENTITY).orderBy(*order)
        windowed = windowed.withColumn("__of_entity", sf.row_number().over(of_entity)).where("__of_entity = 1")
    if query.ties == "rank":
        rank = sf.rank().over(window.orderBy(*best_first))
    else:
        rank = sf.row_number().over(window.orderBy(*order))
    end = sf.timestamp_micros(sf.col(_END)) if query.axis == "time" else sf.col(_END)
    columns = [sf.lit(query.name).alias("query")]
    for name in groups:
        place = list(query.partition_by).index(name) if name in query.partition_by else None
        columns.append((sf.lit(None) if place is None else sf.col(f"__group_{place}")).alias(name))
    columns += [
        end.alias("window_end"),
        sf.col("__rank").alias("rank"),
        _as_of(query).alias("score"),
        sf.col("__time"),
    ]
    columns += [] if id_ is None else [sf.col(_TIE).alias("__id")]
    return windowed.withColumn("__rank", rank).where(f"__rank <= {query.k}").select(*columns)


def _as_of(query: TopK) -> Column:
    """Return the score as of the end of the window, rounded if it decays."""
    half_life = None if query.ranking_rule is None else query.ranking_rule.half_life_ticks
    if half_life is None:
        return sf.col(_SCORE)
    age = sf.col(_END) - sf.col(_AT)
    rest = sf.pmod(age, sf.lit(half_life))
    whole = ((age - rest) / half_life).cast("long")
    return rounded(sf.col(_SCORE) * sf.pow(sf.lit(2.0), -(rest / half_life)) * sf.pow(sf.lit(2.0), -whole))


def rounded(score: Column) -> Column:
    """Return decayed scores with four digits: their last bits depend on how powers of two are computed."""
    digits = sf.when(sf.abs(score) >= 1e-300, sf.format_string("%.3e", score).cast("double")).otherwise(0.0)
    return sf.when(sf.abs(score) == float("inf"), score).otherwise(digits)
