"""The answers of aggregate queries over a bounded input by brute force in plain Spark SQL.

Every row is copied to every window it is in, and grouped by key. In Spark SQL, a sum of doubles depends on their order,
so exact sums are computed from the list of a key's values. This code shares nothing with the pipeline except the
definition of a query.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from pyspark.sql import Column, DataFrame, GroupedData, Window
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from skyband.aggregate import bound_checks
from skyband.aggregate.brute_force import OWN, decayed_score, defined_score, in_order, meets
from skyband.aggregate.query import AggregateTopK
from skyband.queries.workload import Workload
from skyband.session_windows import SessionWindows
from skyband.spark.expressions import in_listed_windows, in_sessions, quoted, window_ends
from skyband.windows import IrregularWindows

__all__ = ["by_brute_force", "within_bounds"]

_AT, _VALUE, _END, _SCORE, _ID = "__at", "__value", "__end", "__score", "__order"
_REACHED = "__reached"  # the number of rows of a group, for count windows
_RANKED = "__ranked"  # what keys are ordered by


def by_brute_force(rows: DataFrame, workload: Workload[AggregateTopK], *, time: str, id_: str | None) -> DataFrame:
    """Return all answers: query, groups, window end, rank, key and score. Rows need no id.

    If a query has ``row=True``, also the ``__time`` and ``__id`` of the returned row.
    """
    groups = list(dict.fromkeys(name for query in workload for name in query.groups))
    shared = any(query.share for query in workload)
    own = {name: old for name, old in zip(OWN, (time, id_), strict=True) if old is not None}
    own = own if any(query.row for query in workload) else {}
    found = [_answers(rows, query, groups, time, id_, shared, own) for query in workload]
    every = found[0]
    for one in found[1:]:
        every = every.unionByName(one)
    if any(query.sketched for query in workload):
        every = every.withColumns({"error": sf.lit(0.0), "guaranteed": sf.lit(True)})
    return every


def within_bounds(expected: DataFrame, found: DataFrame, workload: Workload[AggregateTopK]) -> DataFrame:
    """Return the expected answers of all queries. `expected` has the exact totals of all keys of sketches."""
    sketches = {query.name: query for query in workload if query.sketched}
    if not sketches:
        return expected
    names = expected.columns
    windows = [sf.col(quoted(name)) for name in ("query", *names[1 : names.index("window_end")], "window_end")]
    of_sketch = sf.col("query").isin(list(sketches))
    both = expected.where(of_sketch).groupBy(*windows).cogroup(found.where(of_sketch).groupBy(*windows))
    checked = both.applyInArrow(partial(_checked_window, sketches), expected.schema)
    return expected.where(~of_sketch).unionByName(checked)


def _checked_window(sketches: dict[str, AggregateTopK], totals: Any, answers: Any) -> Any:
    """Return the rows expected in one window, as Arrow tables."""
    if not totals.num_rows:  # a window without rows is not expected
        return totals
    name = totals["query"][0].as_py()
    return bound_checks.within_bounds(totals, answers.select(totals.column_names), [sketches[name]])


def _answers(
    rows: DataFrame,
    query: AggregateTopK,
    groups: list[str],
    time: str,
    id_: str | None,
    shared: bool,
    own: dict[str, str],
) -> DataFrame:
    kept = rows if query.where is None else rows.where(sf.expr(query.where))
    mine = {name: f"__group_{place}" for place, name in enumerate(query.groups)}
    keys = {text: f"__key_{place}" for place, text in enumerate(query.key_columns)}
    value = sf.lit(0.0) if query.value is None else sf.expr(query.value)
    if query.items != "values":
        value = value.cast("double")
    tie = sf.lit(None) if id_ is None else sf.col(quoted(id_))
    if id_ is None and query.axis == "count":
        tie = sf.xxhash64(*(sf.col(quoted(name)) for name in rows.columns))
    objects = kept.select(
        sf.unix_micros(sf.col(quoted(time)).cast("timestamp")).alias(_AT),
        *(sf.expr(text).alias(column) for text, column in keys.items()),
        value.alias(_VALUE),
        tie.alias(_ID),
        *([] if query.delete is None else [sf.expr(query.delete).cast("boolean").alias("__delete")]),
        *(sf.expr(name).alias(column) for name, column in mine.items()),
        *(sf.col(quoted(old)).alias(name) for name, old in own.items()),
    )
    objects = _without_nan(objects)
    if query.delete is not None:
        deleted = sf.when(sf.col("__delete"), sf.lit(float("nan"))).otherwise(sf.col(_VALUE))
        objects = objects.withColumn(_VALUE, deleted)
    # dropna would drop NaN, too, which stands for a delete.
    objects = objects.where(" and ".join(f"{name} is not null" for name in (_AT, _VALUE, *keys.values())))
    windowed = _windowed(objects, query, (rows, time), list(mine.values()), list(keys.values()))
    listed = sf.udf(partial(meets, query), "boolean", useArrow=False)(_values(query))
    met = sf.lit(True) if query.having is None else listed
    values = _values(query).alias("__values")
    grouped = windowed.groupBy(_END, *mine.values(), *keys.values())
    if query.decay is None:
        scored = grouped.agg(
            _score(query),
            sf.max(_AT).alias(_AT),
            met.alias("__met"),
            *([values] if query.totals else []),
            *([_chosen(query, list(own)).alias("__row")] if query.row else []),
        ).withColumn(_RANKED, sf.col(_SCORE))
    else:
        scored = _decayed(grouped, query)
    best_first = Window.partitionBy(_END, *mine.values()).orderBy(
        sf.col(_RANKED).asc() if query.ascending else sf.col(_RANKED).desc(),
        sf.col(_AT).desc(),
        *(sf.col(column).desc() for column in keys.values()),
    )
    ranked = scored.where(f"__met and not isnan({_RANKED})").withColumn("rank", sf.row_number().over(best_first))
    if query.shares_ranks:
        better_first = Window.partitionBy(_END, *mine.values()).orderBy(
            sf.col(_RANKED).asc() if query.ascending else sf.col(_RANKED).desc()
        )
        ranked = ranked.withColumn("rank", sf.rank().over(better_first))
    if not query.sketched:
        ranked = ranked.where(f"rank <= {query.k}")
    ranked = ranked.withColumn("__share", sf.lit(None).cast("double"))
    if query.totals:
        ranked = _with_totals(ranked, scored, query, [_END, *mine.values()], list(keys.values()))
    share = [sf.col("__share").alias("share")] if shared else []
    return ranked.select(
        sf.lit(query.name).alias("query"),
        *((sf.col(mine[name]) if name in mine else sf.lit(None)).alias(name) for name in groups),
        (sf.timestamp_micros(sf.col(_END)) if query.axis == "time" else sf.col(_END)).alias("window_end"),
        sf.col("rank"),
        *(sf.col(column).alias("key" if len(keys) == 1 else text) for text, column in keys.items()),
        sf.col(_SCORE).alias("score"),
        *share,
        *(
            (sf.col(f"__row.{name}") if query.row else sf.lit(None).cast(rows.schema[old].dataType)).alias(name)
            for name, old in own.items()
        ),
    )


def _windowed(
    objects: DataFrame, query: AggregateTopK, rows: tuple[DataFrame, str], groups: list[str], keys: list[str]
) -> DataFrame:
    """Return the objects of each window, with its end. `rows` are all rows, and the column of their times."""
    if isinstance(query.window, SessionWindows):
        return in_sessions(objects, _AT, query.window, groups, _END)
    if query.axis == "count":
        objects = _numbered(objects, groups, keys)
    if isinstance(query.window, IrregularWindows):
        windowed, start = in_listed_windows(objects, _AT, query.window, rows, _END), sf.col("__start")
    else:
        windowed = objects.withColumn(_END, sf.explode(window_ends(query.sliding, sf.col(_AT))))
        start = sf.col(_END) - query.sliding.size
    if query.axis == "count":
        windowed = windowed.where(sf.col(_END) <= sf.col(_REACHED))
    if query.full_only:
        first = objects.agg(sf.min(_AT)).first()
        windowed = windowed.where(start >= (first[0] if first and first[0] else 0))
    return windowed


def _numbered(objects: DataFrame, groups: list[str], keys: list[str]) -> DataFrame:
    """Return the objects with their numbers in their group instead of their times, and the size of the group."""
    by_group = Window.partitionBy(*groups)
    in_order = by_group.orderBy(sf.col(_AT).asc(), sf.col(_ID).asc_nulls_first(), _VALUE, *keys)
    counted = objects.withColumn("__number", sf.row_number().over(in_order).cast("long") - 1)
    return counted.withColumn(_REACHED, sf.count("*").over(by_group)).withColumn(_AT, sf.col("__number"))


def _with_totals(
    ranked: DataFrame, scored: DataFrame, query: AggregateTopK, windows: list[str], keys: list[str]
) -> DataFrame:
    """Add the share of each score, and a row for all other keys of a window."""
    score = sf.udf(defined_score(query), "double", useArrow=False)
    every = sf.flatten(sf.collect_list("__values"))
    same = [scored[name].eqNullSafe(sf.col(f"__of{name}")) for name in windows]
    totals = scored.groupBy(*(sf.col(name).alias(f"__of{name}") for name in windows)).agg(score(every).alias("__total"))
    named = ranked.select(*(sf.col(name).alias(f"__of{name}") for name in (*windows, *keys)))
    others = scored.join(named, [*same, *(scored[key] == sf.col(f"__of{key}") for key in keys)], "left_anti")
    rest = others.groupBy(*windows).agg(score(every).alias(_SCORE))
    last = ranked.groupBy(*(sf.col(name).alias(f"__of{name}") for name in windows)).agg(
        (sf.count("rank") + 1).cast("int").alias("rank")
    )
    more = rest.join(last, [rest[name].eqNullSafe(sf.col(f"__of{name}")) for name in windows])
    if query.others:
        ranked = ranked.unionByName(more.select(*windows, _SCORE, "rank"), allowMissingColumns=True)
    if not query.share:
        return ranked
    found = ranked.join(totals, [ranked[name].eqNullSafe(sf.col(f"__of{name}")) for name in windows])
    defined = f"__total <> 0 and not isnan(__total) and abs(__total) < double('infinity') and not isnan({_SCORE})"
    return found.withColumn("__share", sf.expr(f"case when {defined} then {_SCORE} / __total end"))


def _decayed(grouped: GroupedData, query: AggregateTopK) -> DataFrame:
    """Return the order and the score of each key, from its values and their times."""
    rows = sf.collect_list(sf.struct(_VALUE, _AT))
    scored = grouped.agg(rows.alias("__rows"), sf.max(_AT).alias(_AT)).withColumn("__met", sf.lit(True))
    found = sf.udf(partial(_decayed_score, query), "array<double>", useArrow=False)("__rows", _END)
    scored = scored.withColumn("__found", found)
    return scored.withColumn(_RANKED, sf.col("__found")[0]).withColumn(_SCORE, sf.col("__found")[1])


def _decayed_score(query: AggregateTopK, rows: list[tuple[float, int]], end: int) -> list[float]:
    return list(decayed_score(query)([value for value, _ in rows], [at for _, at in rows], end))


def _without_nan(objects: DataFrame) -> DataFrame:
    """Replace NaN, which is missing, by null, and -0.0 by 0.0."""
    columns = []
    for field in objects.schema.fields:
        column = sf.col(field.name)
        if isinstance(field.dataType, st.FloatType | st.DoubleType):
            column = sf.when(~sf.isnan(column), column + sf.lit(0.0).cast(field.dataType))
        columns.append(column.alias(field.name))
    return objects.select(*columns)


def _values(query: AggregateTopK) -> Column:
    """Return the values of a key; in the order of its rows, if it matters: null ids are first, NaN is last."""
    if not in_order(query):
        return sf.collect_list(_VALUE)
    return sf.transform(sf.sort_array(sf.collect_list(sf.struct(_AT, _ID, _VALUE))), lambda row: row[_VALUE])


def _chosen(query: AggregateTopK, own: list[str]) -> Column:
    """Return the row with the score, of equal ones the last."""
    rows = sf.sort_array(sf.collect_list(sf.struct(_AT, _ID, _VALUE, *own)))
    if query.aggregate == "first":
        return sf.element_at(rows, 1)
    if query.aggregate == "latest":
        return sf.element_at(rows, -1)
    best = sf.max(_VALUE) if query.aggregate == "max" else sf.min(_VALUE)
    return sf.element_at(sf.filter(rows, lambda row: row[_VALUE] == best), -1)


def _score(query: AggregateTopK) -> Column:
    score = defined_score(query)
    in_sql = {
        "count": sf.count(_VALUE),
        "max": sf.max(_VALUE),
        "min": sf.min(_VALUE),
        "count_distinct": sf.count_distinct(_VALUE),
    }.get(query.aggregate)
    if in_sql is None:
        in_sql = sf.udf(score, "double", useArrow=False)(_values(query))
    return in_sql.cast("double").alias(_SCORE)
