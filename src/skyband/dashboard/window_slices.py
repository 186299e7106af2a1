"""A table of answers, cut into windows: where each begins and ends among the rows, whose it is, and its edge scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.dashboard.query_info import QueryInfo
from skyband.dashboard.wire import Group, group_key, group_of
from skyband.queries.answer_schema import moment_of

__all__ = ["WindowSlice", "coded", "cut", "moment_column", "spelled", "start_column"]


NO_GROUP = group_key([])


class WindowSlice(NamedTuple):
    """A window's rows in a table."""

    query: str
    group: Group
    key: str  # of the group
    moment: int
    start: int | None
    begin: int
    stop: int
    first: float  # score of the best row, NaN where there is none
    last: float  # score of the last row


def cut(rows: pa.Table, asked: Callable[[str], QueryInfo]) -> Iterator[WindowSlice]:
    """The windows of a table whose windows stand one after another, best row first, as sinks are given them."""
    count = rows.num_rows
    if not count:
        return
    names, query_codes = coded(rows["query"])
    moments = moment_column(rows)
    fresh = np.ones(count, bool)  # where a window begins
    fresh[1:] = (query_codes[1:] != query_codes[:-1]) | (moments[1:] != moments[:-1])
    groups = {name: [spelled(rows, column) for column in asked(name).groups] for name in names}
    used = {column for columns in groups.values() for column in columns if column is not None}
    for column in used:
        # The column tells groups of some queries apart, and is an attribute like others for the rest.
        tells = np.array([column in groups[name] for name in names])[query_codes[1:]]
        _, codes = coded(rows[column])
        fresh[1:] |= tells & (codes[1:] != codes[:-1])
    begins = np.flatnonzero(fresh)
    stops = np.append(begins[1:], count)
    scores = _floats(rows, "score")
    starts = start_column(rows)[begins].tolist() if "window_start" in rows.column_names else None
    at = pa.array(begins)
    values = {column: rows[column].take(at).to_pylist() for column in used}
    parts = zip(
        query_codes[begins].tolist(),
        moments[begins].tolist(),
        begins.tolist(),
        stops.tolist(),
        scores[begins].tolist(),
        scores[stops - 1].tolist(),
        strict=True,
    )
    nothing: Group = []
    for place, (code, moment, begin, stop, first, last) in enumerate(parts):
        name = names[code]
        group, key = nothing, NO_GROUP
        if groups[name]:
            found = [None if column is None else values[column][place] for column in groups[name]]
            group, key = group_of(found), group_key(found)
        start = None if starts is None else starts[place]
        yield WindowSlice(name, group, key, moment, start, begin, stop, first, last)


def moment_column(rows: pa.Table) -> Any:
    """When each row was final, in microseconds or places."""
    return _integers(rows[moment_of(rows.column_names)])


def start_column(rows: pa.Table) -> Any:
    """When the window of each row began, in microseconds or places; only of rows that have one."""
    return _integers(rows["window_start"])


def spelled(rows: pa.Table, column: str) -> str | None:
    """A column's name as the table has it; None where it has none like that."""
    if column in rows.column_names:
        return column
    return next((name for name in rows.column_names if name.lower() == column.lower()), None)


def coded(column: pa.ChunkedArray) -> tuple[list[Any], Any]:
    """The distinct values of a column, and for each row the place of its value among them."""
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # no chunk at all, or text too long for one
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], column.type)
    if pa.types.is_dictionary(whole.type):
        whole = whole.cast(whole.type.value_type)
    if pa.types.is_nested(whole.type):
        whole = pa.array([group_key([value]) for value in whole.to_pylist()], pa.string())
    coded = pc.dictionary_encode(whole, null_encoding="encode")
    return coded.dictionary.to_pylist(), coded.indices.to_numpy(zero_copy_only=False)


def _integers(column: pa.ChunkedArray) -> Any:
    kind = column.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        zone = kind.tz if pa.types.is_timestamp(kind) else None
        column = column.cast(pa.timestamp("us", zone), safe=False).cast(pa.int64())
    return column.cast(pa.int64()).fill_null(0).to_numpy()


def _floats(rows: pa.Table, name: str) -> Any:
    if name not in rows.column_names:
        return np.full(rows.num_rows, np.nan)
    return rows[name].cast(pa.float64(), safe=False).fill_null(float("nan")).to_numpy()
