"""Convert answers of engines over incomplete streams to a table, sorted by time, query and rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from skyband.data.answer_table import answer_table, arrow_schema, names_of_rows, ranks_of_rows
from skyband.data.key_dictionary import restored
from skyband.incomplete.engine import ObjectAnswers
from skyband.incomplete.query import APPROXIMATE, IncompleteTopK, optional_columns
from skyband.kernels.stream import Ints
from skyband.queries.families import FAMILIES

__all__ = ["answer_rows", "wanted_columns"]

_SCHEMA = FAMILIES["incomplete"].answers


def wanted_columns(
    queries: Sequence[IncompleteTopK],
    position_kind: pa.DataType | None,
    object_kind: pa.DataType | None,
    lasts: bool,
) -> pa.Schema:
    """Return the schema of the answers, with the optional columns of the queries."""
    columns = arrow_schema(_SCHEMA, {"time": position_kind, "object": object_kind}, wanted=optional_columns(queries))
    return columns.append(pa.field("last", position_kind or pa.int64())) if lasts else columns


def answer_rows(
    found: Sequence[ObjectAnswers],
    queries: Sequence[IncompleteTopK],
    wanted: pa.Schema,
    values_of: Callable[[Ints], pa.Array],
) -> pa.Table:
    """Return the answers of all queries as one table."""
    tables = [_rows(one, query, wanted, values_of) for one, query in zip(found, queries, strict=True)]
    table = pa.concat_tables(tables)
    if len(queries) > 1:
        times = np.concatenate([np.repeat(one.ends, one.counts) for one in found])
        places = np.repeat(np.arange(len(tables)), [one.num_rows for one in tables])
        table = table.take(np.lexsort([places, times]))
    return table


def _rows(
    found: ObjectAnswers, query: IncompleteTopK, wanted: pa.Schema, values_of: Callable[[Ints], pa.Array]
) -> pa.Table:
    columns = {
        "query": names_of_rows([query.name], np.zeros_like(found.counts), found.counts),
        "time": np.repeat(found.ends, found.counts),
        "rank": ranks_of_rows(found.counts),
        "object": restored(values_of(found.objects), wanted.field("object").type),
        "score": found.scores,
        "last": found.lasts,
    }
    if query.intervals:
        columns |= {"best": found.best, "sure": found.sure.astype(bool)}
    approximate = query.method in APPROXIMATE
    columns["exact"] = found.exact.astype(bool) if approximate else np.ones(found.scores.size, bool)
    return answer_table(columns, wanted)
