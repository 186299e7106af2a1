"""Flat answers as the Arrow table a user reads: by time, query and rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from skyband.incomplete.engine import ObjectAnswers
from skyband.incomplete.query import IncompleteTopK
from skyband.kernels import expand
from skyband.kernels.stream import Ints

__all__ = ["answer_table", "empty_table"]


def empty_table(
    queries: Sequence[IncompleteTopK],
    position_kind: pa.DataType | None,
    object_kind: pa.DataType | None,
    lasts: bool,
) -> pa.Table:
    """The columns, and no row."""
    columns = {
        "query": pa.string(),
        "time": position_kind or pa.int64(),
        "rank": pa.int64(),
        "object": object_kind or pa.int64(),
        "score": pa.float64(),
    }
    if any(query.intervals for query in queries):
        columns |= {"best": pa.float64(), "sure": pa.bool_()}
    if lasts:
        columns["last"] = position_kind or pa.int64()
    return pa.schema(list(columns.items())).empty_table()


def answer_table(
    found: Sequence[ObjectAnswers],
    queries: Sequence[IncompleteTopK],
    position_kind: pa.DataType | None,
    object_kind: pa.DataType | None,
    values_of: Callable[[Ints], pa.Array],
    lasts: bool,
) -> pa.Table:
    """The answers of all queries."""
    table = pa.concat_tables(
        [_table(place, one, query, values_of) for place, (one, query) in enumerate(zip(found, queries, strict=True))],
        promote_options="permissive",
    )
    if len(queries) > 1:
        table = table.take(np.lexsort([table["place"].to_numpy(), table["time"].to_numpy()]))
    kinds = empty_table(queries, position_kind, object_kind, lasts).schema
    for name in kinds.names:
        if name not in table.column_names:  # no query of these answers tells intervals
            table = table.append_column(name, pa.nulls(table.num_rows, kinds.field(name).type))
    objects = table["object"].combine_chunks()
    wanted = kinds.field("object").type
    table = table.set_column(table.column_names.index("object"), "object", _as(objects, wanted))
    return table.select(kinds.names).cast(kinds)


def _table(place: int, found: ObjectAnswers, query: IncompleteTopK, values_of: Callable[[Ints], pa.Array]) -> pa.Table:
    rows = found.objects.size
    ranks = np.empty(rows, np.int64)
    expand.fill_ranks(found.counts, ranks)
    columns = {
        "place": np.full(rows, place),
        "query": pa.array([query.name]).take(pa.array(np.zeros(rows, np.int64))),
        "time": np.repeat(found.ends, found.counts),
        "rank": ranks,
        "object": values_of(found.objects),
        "score": found.scores,
        "last": found.lasts,
    }
    if query.intervals:
        columns |= {"best": found.best, "sure": found.sure.astype(bool)}
    return pa.table(columns)


def _as(stored: pa.ChunkedArray | pa.Array, kind: pa.DataType) -> pa.Array:
    """Objects as they came in; dates and times were held as whole numbers."""
    if pa.types.is_temporal(kind):
        return stored.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
    return stored.cast(kind)
