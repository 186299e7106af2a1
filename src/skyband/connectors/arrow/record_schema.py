"""Schemas of encoded records: the columns of a stream, and how the schema of a writer is resolved to them.

Columns follow from the schema of the reader, if there is one, and from the columns that a stream declares. A record
has the schema of its writer. Fields of Avro are matched by name or alias, those of Protobuf by number, if the reader
has a schema, else by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from skyband.connectors.arrow.avro_schema import AvroColumn, AvroProgram, AvroSchemaError, is_read_as
from skyband.connectors.arrow.proto_program import ProtoColumn, ProtoProgram
from skyband.expressions.types import spark_name

__all__ = ["MismatchError", "RecordColumn", "declared_columns", "reader_columns", "resolved"]

_WIDER_BY_RULE = {pa.int32(): pa.float32(), pa.int64(): pa.float32()}  # Avro's rules allow a loss of digits here


class MismatchError(Exception):
    """The schema of a writer cannot be read with the columns of a stream. The message is the reason."""


class RecordColumn(NamedTuple):
    """A column of a stream of records."""

    name: str
    kind: pa.DataType
    aliases: tuple[str, ...] = ()  # names that the field had before
    number: int | None = None  # of a field of Protobuf
    default: Any = None  # for records whose schema does not have the field
    is_required: bool = False  # whether records whose schema does not have the field are malformed
    symbols: tuple[str, ...] = ()  # of an enum of Avro
    symbol: str | None = None  # what other symbols are read as; None: they are malformed


def reader_columns(program: AvroProgram | ProtoProgram) -> list[RecordColumn]:
    """Return the columns of a reader's schema."""
    if isinstance(program, ProtoProgram):
        return [
            RecordColumn(
                column.name,
                column.kind,
                number=column.number,
                default=column.default if column.has_presence else _zero(column.kind, column.symbols),
            )
            for column in program.columns
        ]
    return [
        RecordColumn(
            column.name,
            column.kind,
            column.aliases,
            default=_avro_default(column),
            is_required=not column.has_default,
            symbols=column.symbols,
            symbol=column.symbol,
        )
        for column in program.columns
    ]


def declared_columns(declared: Mapping[str, pa.DataType], reader: Sequence[RecordColumn] | None) -> list[RecordColumn]:
    """Return the columns that a stream declares, with what the reader's schema says about them."""
    if reader is None:
        return [RecordColumn(name, kind) for name, kind in declared.items()]
    known = {column.name.lower(): column for column in reader}
    found = []
    for name, kind in declared.items():
        column = known.get(name.lower())
        if column is None:
            names = ", ".join(one.name for one in reader)
            raise MismatchError(f"it has no field {name!r} of a type that is read; it has {names}")
        _refuse_other_type(column.name, column.kind, kind)
        found.append(column._replace(name=name, kind=kind))
    return found


def resolved(columns: Sequence[RecordColumn], program: AvroProgram | ProtoProgram) -> list[int | None]:
    """Return the places of the columns in a writer's program, None: the default; raise MismatchError."""
    fields: Sequence[AvroColumn | ProtoColumn] = program.columns
    by_name = {column.name.lower(): place for place, column in enumerate(fields)}
    by_number = {}
    if isinstance(program, ProtoProgram):
        by_number = {column.number: place for place, column in enumerate(program.columns)}
    found: list[int | None] = []
    for column in columns:
        if column.number is not None:
            place = by_number.get(column.number)
        else:
            names = (column.name, *column.aliases)
            place = next((by_name[name.lower()] for name in names if name.lower() in by_name), None)
        if place is None and column.is_required:
            raise MismatchError(f"it has no field {column.name!r}, which has no default")
        if place is not None:
            _refuse_other_type(fields[place].name, fields[place].kind, column.kind)
        found.append(place)
    return found


def _refuse_other_type(name: str, there: pa.DataType, here: pa.DataType) -> None:
    wider = pa.types.is_decimal(there) and pa.types.is_decimal(here)
    wider = wider and here.scale >= there.scale and here.precision - here.scale >= there.precision - there.scale
    if not (wider or is_read_as(there, here) or _WIDER_BY_RULE.get(there) == here):
        raise MismatchError(f"its field {name!r} has type {spark_name(there)}, which is not read as {spark_name(here)}")


def _zero(kind: pa.DataType, symbols: Mapping[int, str]) -> Any:
    """Return the value of a field of Protobuf that is not stored."""
    if symbols:
        return symbols.get(0, "0")
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return "" if pa.types.is_string(kind) else b""
    return False if pa.types.is_boolean(kind) else 0


def _avro_default(column: AvroColumn) -> Any:
    """Return the default of a field as a value of its column."""
    value = column.default
    if value is None:
        return None
    try:
        if column.stored in ("bytes", "fixed"):
            data = str(value).encode("latin-1")
            if not pa.types.is_decimal(column.kind):
                return data
            return pa.scalar(Decimal(f"{int.from_bytes(data, 'big', signed=True)}E-{column.kind.scale}"), column.kind)
        if column.stored in ("float", "double"):
            return float(value)
        if column.stored in ("int", "long"):
            word = int(value)
            word = word * -column.unit if column.unit < 0 else word // column.unit
            return pa.scalar(word, pa.int32() if pa.types.is_date32(column.kind) else pa.int64()).cast(column.kind)
        return pa.scalar(value, column.kind)
    except (ValueError, OverflowError, pa.ArrowException):
        raise AvroSchemaError(f"field {column.name!r} has the default {value!r}, which is not of its type") from None
