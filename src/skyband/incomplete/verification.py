"""The answers of queries over incomplete streams over a bounded input, for comparison with the pipeline on Spark.

Spark SQL computes the columns of tuples; the definition ranks them in this process, which therefore holds all tuples of
a query at once.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from skyband.incomplete.brute_force import TUPLE, answers_of, group_name
from skyband.incomplete.query import IncompleteTopK
from skyband.queries.workload import Workload
from skyband.spark.expressions import quoted

__all__ = ["by_brute_force"]


def by_brute_force(rows: DataFrame, workload: Workload[IncompleteTopK], *, time: str, id_: str | None) -> DataFrame:
    """Return all answers: query, groups, time, rank, object and score."""
    bound = pa.timestamp("us", "UTC" if isinstance(rows.schema[time].dataType, st.TimestampType) else None)
    tables = [_tuples(rows, query, time, id_) for query in workload]
    kinds = {
        name: table.schema.field(group_name(place)).type
        for table, query in zip(tables, workload, strict=True)
        for place, name in enumerate(query.groups)
    }
    found = pa.concat_tables(
        [answers_of(table, query, bound, kinds) for table, query in zip(tables, workload, strict=True)]
    )
    return rows.sparkSession.createDataFrame(found.combine_chunks())


def _tuples(rows: DataFrame, query: IncompleteTopK, time: str, id_: str | None) -> pa.Table:
    kept = rows if query.where is None else rows.where(sf.expr(query.where))
    # Without an id, a hash of the row orders simultaneous tuples.
    tie = sf.xxhash64(*(sf.col(quoted(name)) for name in rows.columns)) if id_ is None else sf.col(quoted(id_))
    columns = (
        sf.unix_micros(sf.col(quoted(time)).cast("timestamp")),
        tie,
        sf.expr(str(query.object)),
        sf.expr(str(query.stream)).cast("string"),
        sf.expr(str(query.value)).cast("double"),
    )
    named = [column.alias(name) for column, name in zip(columns, TUPLE, strict=True)]
    groups = [sf.expr(name).alias(group_name(place)) for place, name in enumerate(query.groups)]
    return kept.select(*named, *groups).toArrow()
