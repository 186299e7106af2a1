"""Rows in envelopes of change events, as tables of Arrow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.connectors.envelope import CHANGES, DELETE, OP, OP_TIME
from skyband.data.arrow import one
from skyband.expressions.types import TIMESTAMP

__all__ = ["envelope_schema", "is_envelope", "unwrapped", "with_change"]

_FIRST, _END = -62_135_596_800_000, 253_402_300_800_000  # milliseconds since 1970: the years 1 to 9999


def with_change(row: pa.Schema) -> pa.Schema:
    """Return the columns of a row and those that its envelope adds."""
    return row.append(pa.field(OP, pa.string())).append(pa.field(OP_TIME, TIMESTAMP))


def envelope_schema(row: pa.Schema) -> pa.Schema:
    """Return the schema of envelopes of rows, with or without the wrapper ``payload``."""
    image = pa.struct(list(row))
    parts = [pa.field("before", image), pa.field("after", image), pa.field("op", pa.string())]
    parts.append(pa.field("ts_ms", pa.int64()))
    return pa.schema([pa.field("payload", pa.struct(parts)), *parts])


def unwrapped(table: pa.Table, row: pa.Schema) -> tuple[dict[str, Any], Any, Any]:
    """Return the columns of rows as they were read, the time of each change, and which envelopes are malformed.

    >>> row = pa.schema([("k", pa.string())])
    >>> rows = [{"after": {"k": "a"}, "op": "c", "ts_ms": 7}, {"after": {"k": "a"}, "op": "d", "ts_ms": None}]
    >>> columns, times, wrong = unwrapped(pa.Table.from_pylist(rows, envelope_schema(row)), row)
    >>> columns["k"].to_pylist(), columns["op"].to_pylist(), wrong.to_pylist()
    (['a', None], ['c', 'd'], [False, True])
    """
    wrapped = one(table["payload"]).is_valid()
    in_payload = pc.all(wrapped, min_count=0).as_py()
    mixed = not in_payload and pc.any(wrapped).as_py()

    def part(*path: str) -> Any:
        if in_payload:
            return _field(table, "payload", *path)
        if mixed:
            return pc.if_else(wrapped, _field(table, "payload", *path), _field(table, *path))
        return _field(table, *path)

    op = part("op")
    deleted = pc.fill_null(pc.equal(op, DELETE), False)
    columns = {name: _chosen(deleted, part, name) for name in row.names}
    columns[OP] = op
    known = pc.is_in(op, pa.array(CHANGES))
    present = pc.if_else(deleted, _present(table, wrapped, "before"), _present(table, wrapped, "after"))
    return columns, _times(part("ts_ms")), pc.invert(pc.and_(known, present))


def is_envelope(value: Any, is_row: Callable[[Any], bool]) -> bool:
    """Return whether the parts of a JSON object have the types of an envelope; `is_row` checks the rows in it.

    >>> is_envelope({"after": {"k": 1}, "op": "c"}, bool), is_envelope({"payload": 3}, bool)
    (True, False)
    """
    if not isinstance(value, dict) or not isinstance(value.get("payload") or {}, dict):
        return False
    for parts in (value, value.get("payload") or {}):
        op, milliseconds = parts.get("op"), parts.get("ts_ms")
        if not (op is None or isinstance(op, str)) or not (milliseconds is None or type(milliseconds) is int):
            return False
        if milliseconds is not None and not -(2**63) <= milliseconds < 2**63:
            return False
        for image in (parts.get("before"), parts.get("after")):
            if image is not None and not (isinstance(image, dict) and is_row(image)):
                return False
    return True


def _chosen(deleted: Any, part: Callable[..., Any], name: str) -> Any:
    if not pc.any(deleted, min_count=0).as_py():
        return part("after", name)
    return pc.if_else(deleted, part("before", name), part("after", name))


def _field(table: pa.Table, first: str, *path: str) -> Any:
    column = one(table[first])
    return pc.struct_field(column, list(path)) if path else column


def _present(table: pa.Table, wrapped: Any, image: str) -> Any:
    inner = _field(table, "payload", image).is_valid()
    return pc.if_else(wrapped, inner, _field(table, image).is_valid())


def _times(milliseconds: Any) -> Any:
    inside = pc.and_(pc.greater_equal(milliseconds, _FIRST), pc.less(milliseconds, _END))
    kept = pc.if_else(inside, milliseconds, pa.scalar(None, pa.int64()))
    return pc.multiply(kept, 1000).cast(TIMESTAMP)
