"""Groups of several columns in one column of bytes, which shards carry, and back to columns for answers.

Unlike a key, a group can be null in some of its columns, so each column is packed with a flag.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import one
from skyband.data.composite_key import packed_keys, unpacked_keys
from skyband.data.key_dictionary import TEXT, key_column
from skyband.kernels.stream import Ints

__all__ = ["GROUP", "packed_groups", "unpacked_groups", "with_group_columns"]

GROUP = "group"  # the column of packed groups in tables of shards; null for queries without groups


def packed_groups(columns: Sequence[pa.Array]) -> pa.Array:
    """Return one byte string for each row, never null. Their order is that of the columns, nulls last.

    >>> columns = [pa.array(["a", None, "a"]), pa.array([1, 2, 1])]
    >>> packed = packed_groups(columns)
    >>> packed[0] == packed[2], packed[0] == packed[1]
    (True, False)
    >>> [column.to_pylist() for column in unpacked_groups(packed, [column.type for column in columns])]
    [['a', None, 'a'], [1, 2, 1]]
    """
    parts = []
    for column in columns:
        stored = key_column(_plain(column), "groups").stored
        parts.append(stored.is_null().cast(pa.int64()))
        parts.append(_filled(stored))
    return packed_keys(parts)


def unpacked_groups(packed: pa.Array, kinds: Sequence[pa.DataType]) -> list[pa.Array]:
    """Return the columns of packed groups, of these types; null where the packed group is null."""
    stored = [kind for given in kinds for kind in (pa.int64(), _plain_kind(given))]
    columns = unpacked_keys(packed, stored)
    found = []
    for missing, column, kind in zip(columns[::2], columns[1::2], kinds, strict=True):
        there = pc.equal(missing, 0)
        found.append(pc.if_else(there, column, pa.scalar(None, column.type)).cast(kind))
    return found


def with_group_columns(
    table: pa.Table, kinds: pa.Schema, scans: Sequence[tuple[Sequence[str], Ints]], names: Sequence[str]
) -> pa.Table:
    """Return answers with group columns instead of the packed one.

    `scans` have their group columns and the rows of their answers; `names` are the group columns of all scans.
    """
    packed = one(table[GROUP])
    columns: dict[str, list[pa.Array]] = {name: [] for name in names}
    order = np.concatenate([rows for _, rows in scans])
    for groups, rows in scans:
        mine: Mapping[str, pa.Array] = {}
        if groups and rows.size:
            types = [kinds.field(name).type for name in groups]
            mine = dict(zip(groups, unpacked_groups(packed.take(pa.array(rows)), types), strict=True))
        for name in names:
            columns[name].append(mine[name] if name in mine else pa.nulls(rows.size, kinds.field(name).type))
    table = table.drop_columns([GROUP])
    places = np.empty(order.size, np.int64)
    places[order] = np.arange(order.size)
    for name in names:
        whole = pa.concat_arrays(
            [column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in columns[name]]
        )
        table = table.append_column(name, whole.take(pa.array(places)))
    return table


def _plain(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(_plain_kind(column.type))


def _plain_kind(kind: pa.DataType) -> pa.DataType:
    """Return the type in which a column is packed: decimals as text."""
    if pa.types.is_dictionary(kind):
        return _plain_kind(kind.value_type)
    return pa.string() if pa.types.is_decimal(kind) else kind


def _filled(stored: pa.Array) -> pa.Array:
    if pa.types.is_null(stored.type):
        return pa.array(np.zeros(len(stored), np.int64))
    nothing = 0 if stored.type not in TEXT else "" if pa.types.is_string(stored.type) else b""
    if pa.types.is_large_string(stored.type):
        nothing = ""
    return stored.fill_null(pa.scalar(nothing, stored.type)) if stored.null_count else stored
