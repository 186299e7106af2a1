"""Rows in envelopes of change events, parsed by Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as sf

from skyband.connectors.envelope import CHANGES, DELETE, OP, OP_TIME
from skyband.sharding.row_source import HIDDEN
from skyband.spark.expressions import quoted

__all__ = ["CORRUPT", "UnwrappedRow", "envelope_type", "unwrapped"]

CORRUPT = f"{HIDDEN}corrupt"  # the text of a value that could not be parsed
_END = 253_402_300_800_000  # milliseconds since 1970: the years 1 to 9999
_FIRST = -62_135_596_800_000


class UnwrappedRow(NamedTuple):
    """The columns of a row, and whether its envelope is malformed."""

    columns: dict[str, Column]
    is_wrong: Column


def envelope_type(row: Mapping[str, str]) -> str:
    """Return the type of an envelope of rows with these columns, with or without the wrapper ``payload``.

    >>> envelope_type({"k": "int"}).rpartition(" bigint>, ")[2]
    'before struct<`k`: int>, after struct<`k`: int>, op string, ts_ms bigint, __skyband_corrupt string'
    """
    image = ", ".join(f"{quoted(name)}: {kind}" for name, kind in row.items())
    parts = {"before": f"struct<{image}>", "after": f"struct<{image}>", "op": "string", "ts_ms": "bigint"}
    inner = ", ".join(f"{name}: {kind}" for name, kind in parts.items())
    fields = [f"payload struct<{inner}>", *(f"{name} {kind}" for name, kind in parts.items()), f"{CORRUPT} string"]
    return ", ".join(fields)


def unwrapped(value: Column, row: Iterable[str]) -> UnwrappedRow:
    """Return the row in an envelope that was parsed as `envelope_type`: before a delete, after other changes."""
    wrapped = value["payload"].isNotNull()

    def part(name: str) -> Column:
        return sf.when(wrapped, value["payload"][name]).otherwise(value[name])

    op, milliseconds = part("op"), part("ts_ms")
    image = sf.when(op == DELETE, part("before")).otherwise(part("after"))
    columns: dict[str, Any] = {name: image[name] for name in row}
    columns[OP] = op
    columns[OP_TIME] = sf.when((milliseconds >= _FIRST) & (milliseconds < _END), sf.timestamp_millis(milliseconds))
    known = sf.coalesce(op.isin(*CHANGES), sf.lit(False)) & image.isNotNull()
    return UnwrappedRow(columns, value.isNull() | value[CORRUPT].isNotNull() | ~sf.coalesce(known, sf.lit(False)))
