"""Answers as Arrow tables, with columns and types from the family's schema."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.kernels import expand
from skyband.kernels.stream import Floats, Ints
from skyband.queries.answer_schema import AnswerSchema

__all__ = ["answer_table", "arrow_schema", "names_of_rows", "ranks_of_rows", "shared_ranks"]

_KINDS = {"text": pa.string(), "rank": pa.int64(), "number": pa.float64(), "flag": pa.bool_()}


def arrow_schema(
    schema: AnswerSchema,
    own: Mapping[str, pa.DataType | None],
    *,
    group: pa.DataType | None = None,
    wanted: Collection[str] = (),
) -> pa.Schema:
    """Return the schema of a monitor's answers; `own` has the types from the input, None if not known yet.

    `wanted` are the requested optional columns. The column of the `group` follows the query.

    >>> from skyband.queries.families import FAMILIES
    >>> arrow_schema(FAMILIES["topk"].answers, {"id": pa.int64()}).names
    ['query', 'window_start', 'window_end', 'rank', 'id', 'score']
    """
    fields = [
        (column.name, (own.get(column.name) or pa.int64()) if column.kind == "own" else _KINDS[column.kind])
        for column in schema.table_columns
        if not column.optional or column.name in wanted
    ]
    if group is not None:
        fields.insert(1, ("group", group))
    return pa.schema(fields)


def answer_table(columns: Mapping[str, Any], wanted: pa.Schema) -> pa.Table:
    """Return the answers as a table with schema `wanted`; a missing column is null in every row."""
    rows = len(columns[wanted.names[0]])
    found = {field.name: columns.get(field.name) for field in wanted}
    arrays = [
        pa.nulls(rows, wanted.field(name).type) if column is None else _cast(column, wanted.field(name).type)
        for name, column in found.items()
    ]
    return pa.table(arrays, schema=wanted)


def names_of_rows(names: Sequence[str], places: Ints, counts: Ints) -> pa.Array:
    """Return the query name of each row; `places` has the query index of each answer."""
    return pa.array(names, pa.string()).take(pa.array(np.repeat(places, counts)))


def ranks_of_rows(counts: Ints) -> Ints:
    """Return the rank of each row in its answer.

    >>> ranks_of_rows(np.array([2, 3])).tolist()
    [1, 2, 1, 2, 3]
    """
    ranks = np.empty(int(counts.sum()), np.int64)
    expand.fill_ranks(counts, ranks)
    return ranks


def _cast(column: Any, kind: pa.DataType) -> Any:
    array = column if isinstance(column, pa.Array | pa.ChunkedArray) else pa.array(column)
    return array if array.type.equals(kind) else array.cast(kind)


def shared_ranks(counts: Ints, scores: Floats) -> Ints:
    """Return the rank of each row in its answer, where equal scores share a rank.

    >>> shared_ranks(np.array([3, 2]), np.array([9.0, 9.0, 7.0, 7.0, 7.0])).tolist()
    [1, 1, 3, 1, 1]
    """
    ranks = ranks_of_rows(counts)
    first = ranks == 1
    first[1:] |= scores[1:] != scores[:-1]
    found: Ints = ranks[np.maximum.accumulate(np.where(first, np.arange(ranks.size), 0))]
    return found
