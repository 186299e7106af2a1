"""Answers of shards, as the columns that a workload's answers have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.aggregate.plan import AggregatePlan, own_name
from skyband.data.arrow import one
from skyband.data.composite_key import unpacked_keys
from skyband.expressions.types import arrow_type
from skyband.queries.families import FAMILIES

__all__ = ["ROW", "answer_table", "tuples_of"]

ROW = "row."  # prefix of the columns of returned rows, in answers of shards


def answer_table(plan: AggregatePlan, scan: int, chosen: pa.Table, found: Mapping[str, pa.Array]) -> pa.Table:
    """Return ranked rows of a scan as answers.

    `chosen` has the columns of the shards: the place of the query, groups, key and returned row. `found` has the other
    columns; bounds of windows are integers.
    """
    kind = pa.timestamp("us", "UTC" if plan.utc else None) if plan.axis == "time" else pa.int64()
    columns: dict[str, Any] = {
        "query": pa.array([query.name for query in plan.queries], pa.string()).take(one(chosen["query"]))
    }
    for name in plan.group_columns:
        columns[name] = one(chosen[name]) if name in plan.groups[scan] else _row_column(chosen, own_name(name))
    found = {
        **found,
        **{name: found[name].cast(kind) for name in ("window_start", "window_end")},
        **_key_columns(plan, one(chosen[plan.keys[scan]])),
    }
    schema = FAMILIES["aggregate"].answers.with_keys(plan.parts)
    columns |= {column.name: found[column.name] for column in schema.columns[1:] if plan.is_wanted(column)}
    columns |= {name: _row_column(chosen, name) for name in plan.returned}
    return pa.table(columns)


def _row_column(table: pa.Table, name: str) -> pa.Array:
    """Return a column of the returned rows; null if no row of these answers has it."""
    known = f"{ROW}{name}" in table.column_names
    return one(table[f"{ROW}{name}"]) if known else pa.nulls(table.num_rows)


def _key_columns(plan: AggregatePlan, keys: pa.Array) -> dict[str, pa.Array]:
    """Return the key of answers: one column, or those that were packed into it."""
    if not plan.parts:
        return {"key": keys}
    kinds = [arrow_type(kind) for kind in plan.part_kinds]
    return dict(zip(plan.parts, unpacked_keys(keys, kinds), strict=True))


def tuples_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return the rows of a table as hashable tuples: NaN equals null, -0.0 equals 0.0.

    >>> tuples_of(pa.table({"a": [float("nan"), -0.0]}))
    [(None,), (0.0,)]
    """
    columns = []
    for name in table.column_names:
        array = one(table[name])
        if pa.types.is_floating(array.type):
            array = pc.add(pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array), 0.0)
        columns.append(array.to_pylist())
    return list(zip(*columns, strict=True))
