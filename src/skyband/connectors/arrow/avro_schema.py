"""Avro schemas: the columns of a record, and the program with which the kernel decodes it.

Columns are the fields of a record with a type that Spark's tables have. Fields of other types are skipped: arrays,
maps, nested records, and unions of types without a common one.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.expressions.types import DATE, NTZ, STRING, TIMESTAMP
from skyband.kernels import avro

__all__ = ["AvroColumn", "AvroProgram", "AvroSchemaError", "is_read_as", "program_of", "united"]

_SIZES = {"boolean": (avro.BOOL, 1), "float": (avro.FLOAT, 4), "double": (avro.DOUBLE, 8)}
_PLAIN = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "string": STRING,
    "enum": STRING,
}
# Types of a stream in which a file's type can be read, by Avro's rules, if no value changes.
_PROMOTED = {
    pa.int32(): (pa.int64(), pa.float64()),
    pa.int64(): (pa.float64(),),
    pa.float32(): (pa.float64(),),
    STRING: (pa.binary(),),
    pa.binary(): (STRING,),
}
# By the underlying type: the type of a column, and units of a value in a microsecond (negative: the reverse).
_LOGICAL: dict[tuple[str, str], tuple[pa.DataType, int]] = {
    ("int", "date"): (DATE, 1),
    ("long", "timestamp-millis"): (TIMESTAMP, -1000),
    ("long", "timestamp-micros"): (TIMESTAMP, 1),
    ("long", "timestamp-nanos"): (TIMESTAMP, 1000),
    ("long", "local-timestamp-millis"): (NTZ, -1000),
    ("long", "local-timestamp-micros"): (NTZ, 1),
    ("long", "local-timestamp-nanos"): (NTZ, 1000),
}
_LARGEST_DECIMAL = 38  # digits
_MOST_STEPS = 100_000  # instructions of a program


class AvroSchemaError(Exception):
    """A text is not an Avro schema of records, or is one that is not supported. The message is the reason."""


class AvroColumn(NamedTuple):
    """A field of a record that is read."""

    name: str
    kind: pa.DataType
    stored: str  # the type of the values: as in _PLAIN
    unit: int = 1  # of a time: as in _LOGICAL
    symbols: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    default: Any = None
    has_default: bool = False
    symbol: str | None = None  # of an enum: the one that stands for unknown ones


class AvroProgram(NamedTuple):
    """What the kernel needs to decode records of a schema."""

    columns: tuple[AvroColumn, ...]
    steps: Any  # as `kernels.avro` describes them
    branches: Any


def program_of(text: str | bytes, wanted: Collection[str] | None = None, references: Sequence[str] = ()) -> AvroProgram:
    """Return the program of a schema; `wanted` are the columns that are read, in lower case (None: all).

    `references` are schemas that define types that the schema names.

    >>> found = program_of('{"type": "record", "name": "R", "fields": [{"name": "price", "type": ["null", "float"]}]}')
    >>> [(column.name, str(column.kind)) for column in found.columns]
    [('price', 'float')]
    """
    try:
        schema, known = json.loads(text), [json.loads(one) for one in references]
    except ValueError as error:
        raise AvroSchemaError(f"the schema is not JSON: {error}") from None
    try:
        return _Compiler(schema, known).program(wanted)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise AvroSchemaError(f"it is not an Avro schema ({type(error).__name__}: {error})") from None


def is_read_as(there: pa.DataType, here: pa.DataType) -> bool:
    """Return whether a column of one type can be read as another without a change of its values."""
    return bool(there == here or here in _PROMOTED.get(there, ()))


def united(columns: Iterable[AvroColumn]) -> pa.DataType | None:
    """Return the type in which columns of one name from several files are read; None if there is none."""
    kinds = list(dict.fromkeys(column.kind for column in columns))
    numbers = [pa.int32(), pa.int64(), pa.float32(), pa.float64()]
    if len(kinds) > 1 and all(kind in numbers for kind in kinds):
        return pa.int64() if set(kinds) == {pa.int32(), pa.int64()} else pa.float64()
    return kinds[0] if len(kinds) == 1 else None


class _Compiler:
    """Compiles one schema. Nested records that are skipped are subroutines, because they can contain themselves."""

    def __init__(self, schema: Any, references: Iterable[Any] = ()) -> None:
        self._named: dict[str, Any] = {}
        for one in references:
            self._resolved(one, "")
        self._schema = self._resolved(schema, "")
        if not isinstance(self._schema, dict) or self._schema.get("type") != "record":
            raise AvroSchemaError("its top level is not a record")
        self._steps: list[list[int]] = []
        self._branches: list[int] = []
        self._calls: list[tuple[int, str]] = []  # instructions, and the records that they skip

    def program(self, wanted: Collection[str] | None) -> AvroProgram:
        columns: list[AvroColumn] = []
        for field in self._schema["fields"]:
            column = self._column(field)
            if column is None or (wanted is not None and column.name.lower() not in wanted):
                self._skip(field["type"])
            else:
                self._read(field["type"], len(columns), column)
                columns.append(column)
        self._add(avro.END)
        begins: dict[str, int] = {}
        while self._calls:
            place, name = self._calls.pop()
            if name not in begins:
                begins[name] = len(self._steps)
                for field in self._named[name]["fields"]:
                    self._skip(field["type"])
                self._add(avro.RETURN)
            self._steps[place][2] = begins[name]
        if len(self._steps) > _MOST_STEPS:
            raise AvroSchemaError(f"it has more than {_MOST_STEPS:,} values")
        return AvroProgram(
            tuple(columns), np.array(self._steps, np.int64).reshape(-1, 4), np.array(self._branches or [0], np.int64)
        )

    def _resolved(self, schema: Any, space: str) -> Any:
        """Return a schema in which names of types are full names, and each named type is known."""
        if isinstance(schema, list):
            return [self._resolved(one, space) for one in schema]
        if isinstance(schema, str):
            full = schema if "." in schema or not space else f"{space}.{schema}"
            found = full if full in self._named else schema
            if found not in _PLAIN and found != "null" and found not in self._named:
                raise AvroSchemaError(f"it has no type {schema!r}")
            return found
        kind = schema["type"]
        if kind in ("record", "error", "enum", "fixed"):
            name = str(schema["name"])
            space = name.rpartition(".")[0] or schema.get("namespace", space) or ""
            name = name if "." in name or not space else f"{space}.{name}"
            made = {**schema, "type": "record" if kind == "error" else kind, "name": name}
            self._named[name] = made
            if made["type"] == "record":
                made["fields"] = [{**field, "type": self._resolved(field["type"], space)} for field in schema["fields"]]
            return made
        if kind in ("array", "map"):
            inner = "items" if kind == "array" else "values"
            return {**schema, inner: self._resolved(schema[inner], space)}
        if isinstance(kind, str) and kind in _PLAIN:
            return schema
        return self._resolved(kind, space)  # a type in a type

    def _found(self, schema: Any) -> Any:
        """Return the definition of a type: a list of branches, or a mapping with a plain type."""
        if isinstance(schema, str):
            return self._named.get(schema, {"type": schema})
        return schema

    def _column(self, field: Any) -> AvroColumn | None:
        """Return the column of a field; None if no column has its type."""
        kind = self._found(field["type"])
        found = [self._typed(self._found(one)) for one in (kind if isinstance(kind, list) else [kind])]
        known = [one for one in found if one is not None and one.stored != "null"]
        if not known or None in found:
            return None
        first = known[0]
        if len(known) > 1:
            kinds = {one.stored for one in known if one.unit == 1 and one.kind == _PLAIN[one.stored]}
            wider = next((pair[1] for pair in (("int", "long"), ("float", "double")) if kinds == set(pair)), None)
            if wider is None or len(known) > 2:
                return None
            first = AvroColumn("", _PLAIN[wider], wider)
        return first._replace(
            name=str(field["name"]),
            aliases=tuple(map(str, field.get("aliases", ()))),
            default=field.get("default"),
            has_default="default" in field,
        )

    def _typed(self, kind: Any) -> AvroColumn | None:
        """Return a column without a name for a type, or None."""
        if isinstance(kind, list) or kind["type"] in ("record", "array", "map"):
            return None
        stored, logical = kind["type"], kind.get("logicalType")
        if stored == "null":
            return AvroColumn("", pa.null(), "null")
        if logical == "decimal" and stored in ("bytes", "fixed"):
            digits, scale = int(kind["precision"]), int(kind.get("scale", 0))
            if 0 <= scale <= digits <= _LARGEST_DECIMAL and digits:
                return AvroColumn("", pa.decimal128(digits, scale), stored)
        plain, unit = _LOGICAL.get((stored, str(logical)), (_PLAIN[stored], 1))
        symbols = tuple(map(str, kind.get("symbols", ())))
        return AvroColumn("", plain, stored, unit, symbols, symbol=kind.get("default") if symbols else None)

    def _add(self, operation: int, column: int = -1, first: int = 0, second: int = 0) -> int:
        self._steps.append([operation, column, first, second])
        return len(self._steps) - 1

    def _union(self, branches: Sequence[Any], compile_one: Any) -> None:
        begin = len(self._branches)
        self._branches += [0] * len(branches)
        self._add(avro.UNION, -1, begin, len(branches))
        ends = []
        for number, branch in enumerate(branches):
            self._branches[begin + number] = len(self._steps)
            compile_one(branch)
            ends.append(self._add(avro.JUMP))
        for end in ends:
            self._steps[end][2] = len(self._steps)

    def _read(self, kind: Any, place: int, column: AvroColumn) -> None:
        found = self._found(kind)
        if isinstance(found, list):
            self._union(found, lambda branch: self._read(branch, place, column))
            return
        stored = found["type"]
        if stored == "float" and column.stored == "double":
            self._add(avro.WIDE, place, 4)
        else:
            self._value(found, place)

    def _value(self, found: Any, place: int) -> None:
        """Add the instruction of a value that is not nested."""
        stored = found["type"]
        if stored in _SIZES:
            operation, size = _SIZES[stored]
            self._add(operation, place, size)
        elif stored == "fixed":
            size = int(found["size"])
            if size < 0:
                raise AvroSchemaError(f"the fixed type {found['name']!r} has size {size}")
            self._add(avro.FIXED, place, size)
        elif stored == "enum":
            self._add(avro.ENUM, place, len(found["symbols"]))
        else:
            simple = {"int": avro.INT, "long": avro.LONG, "bytes": avro.BYTES, "string": avro.BYTES, "null": avro.NULL}
            self._add(simple[stored], place)

    def _skip(self, kind: Any) -> None:
        found = self._found(kind)
        if isinstance(found, list):
            self._union(found, self._skip)
        elif found["type"] == "record":
            self._calls.append((self._add(avro.CALL), found["name"]))
        elif found["type"] in ("array", "map"):
            self._add(avro.BEGIN)
            begin = self._add(avro.NEXT)
            if found["type"] == "map":
                self._add(avro.BYTES)
            self._skip(found["items"] if found["type"] == "array" else found["values"])
            self._add(avro.JUMP, -1, begin)
            self._steps[begin][2] = len(self._steps)
        else:
            self._value(found, -1)
