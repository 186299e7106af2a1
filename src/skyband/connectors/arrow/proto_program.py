"""Protobuf messages: the columns of a message type, and the table with which the kernel decodes it.

Columns are the fields with one value of a type that Spark's tables have: numbers, text, bytes, booleans, enums, times
(`google.protobuf.Timestamp`) and the wrappers of single values (`google.protobuf.DoubleValue`, …). Repeated fields,
maps and other messages are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.connectors.arrow.proto_text import (
    ProtoEnum,
    ProtoField,
    ProtoFile,
    ProtoMessage,
    ProtoTextError,
    parse_proto,
    unescaped,
)
from skyband.expressions.types import STRING, TIMESTAMP
from skyband.kernels import protobuf as kernel

__all__ = ["ProtoColumn", "ProtoProgram", "ProtoTypes", "proto_types"]

_VARINT, _LONG, _BYTES, _INT = 0, 1, 2, 5  # wire types
# By type: the wire type, the operation, the type of the column, and how its words are read.
_SCALARS: dict[str, tuple[int, int, pa.DataType, str]] = {
    "double": (_LONG, kernel.WORD, pa.float64(), "double"),
    "float": (_INT, kernel.WORD, pa.float32(), "float"),
    "int32": (_VARINT, kernel.INT32, pa.int32(), "int"),
    "int64": (_VARINT, kernel.WORD, pa.int64(), "long"),
    "uint32": (_VARINT, kernel.UINT32, pa.int64(), "long"),
    "uint64": (_VARINT, kernel.WORD, pa.decimal128(20, 0), "unsigned"),
    "sint32": (_VARINT, kernel.ZIGZAG32, pa.int32(), "int"),
    "sint64": (_VARINT, kernel.ZIGZAG, pa.int64(), "long"),
    "fixed32": (_INT, kernel.WORD, pa.int64(), "long"),
    "fixed64": (_LONG, kernel.WORD, pa.decimal128(20, 0), "unsigned"),
    "sfixed32": (_INT, kernel.SIGNED32, pa.int32(), "int"),
    "sfixed64": (_LONG, kernel.WORD, pa.int64(), "long"),
    "bool": (_VARINT, kernel.FLAG, pa.bool_(), "boolean"),
    "string": (_BYTES, kernel.BYTES, STRING, "string"),
    "bytes": (_BYTES, kernel.BYTES, pa.binary(), "bytes"),
}
_WRAPPERS = {
    f"google.protobuf.{name}Value": kind
    for name, kind in {
        "Double": "double",
        "Float": "float",
        "Int64": "int64",
        "UInt64": "uint64",
        "Int32": "int32",
        "UInt32": "uint32",
        "Bool": "bool",
        "String": "string",
        "Bytes": "bytes",
    }.items()
}
_TIME = "google.protobuf.Timestamp"


class ProtoColumn(NamedTuple):
    """A field of a message that is read."""

    name: str
    number: int
    kind: pa.DataType
    stored: str  # how words are read: as in _SCALARS, or enum or time
    place: int  # of its words; a time has two: seconds and nanoseconds
    has_presence: bool  # whether it can be absent; otherwise it then has the value zero, or empty
    default: Any = None  # of a field that is absent
    symbols: Mapping[int, str] = {}


class ProtoProgram(NamedTuple):
    """What the kernel needs to decode messages of a type."""

    columns: tuple[ProtoColumn, ...]
    places: int  # columns of words
    fields: Any  # as `kernels.protobuf` describes them
    tables: Any
    symbols: Any
    oneofs: Any


class ProtoTypes:
    """The message types and enums of a schema and of the schemas that it imports."""

    def __init__(self, file: ProtoFile, imported: Sequence[ProtoFile]) -> None:
        self._file = file
        self._messages: dict[str, tuple[ProtoMessage, bool]] = {}
        self._enums: dict[str, ProtoEnum] = {}
        for one in (*imported, file):
            self._enums |= {enum.name: enum for enum in one.enums}
            for message in one.messages:
                self._add(message, one.has_presence)

    def _add(self, message: ProtoMessage, has_presence: bool) -> None:
        self._messages[message.name] = message, has_presence
        self._enums |= {enum.name: enum for enum in message.enums}
        for inner in message.messages:
            self._add(inner, has_presence)

    def named(self, name: str | None) -> str:
        """Return the full name of a message type of the schema itself; without a name, of the first one."""
        own = [message.name for message in self._file.messages]
        if not own:
            raise ProtoTextError("it has no message")
        if name is None:
            return own[0]
        full = f"{self._file.package}.{name}" if self._file.package else name
        found = next((one for one in (full, name) if one in self._messages), None)
        if found is None:
            raise ProtoTextError(f"it has no message {name!r}; it has {', '.join(own)}")
        return found

    def at(self, path: Sequence[int]) -> str:
        """Return the name of the message type at a path of places: in the schema, then in each message."""
        messages, name = self._file.messages, ""
        for place in path:
            if place >= len(messages):
                raise ProtoTextError(f"it has no message at {list(path)}")
            name, messages = messages[place].name, messages[place].messages
        return name

    def program(self, name: str) -> ProtoProgram:
        """Return the program of a message type."""
        message, file_has_presence = self._messages[name]
        rows, columns, words = list[list[int]](), list[ProtoColumn](), list[int]()
        nested, symbols, oneofs = list[list[list[int]]](), list[int](), list[str]()
        for field in sorted(message.fields, key=lambda field: field.number):
            stored = None if field.label == "repeated" else self._stored(field, name)
            oneof = 0
            if field.oneof:
                oneofs += [] if field.oneof in oneofs else [field.oneof]
                oneof = 1 + oneofs.index(field.oneof)
            if stored is None:
                if oneof:  # it unsets the others
                    rows.append([field.number, self._wire(field, name), kernel.SKIP, -1, 0, 0, oneof])
                continue
            place, kind, has_presence = len(words), stored, _has_presence(field, file_has_presence)
            enum: ProtoEnum | None = None
            if kind in _SCALARS:
                wire, operation, column, how = _SCALARS[kind]
                rows.append([field.number, wire, operation, place, 0, 1, oneof])
            elif kind in _WRAPPERS:
                wire, operation, column, how = _SCALARS[_WRAPPERS[kind]]
                nested.append([[1, wire, operation, place, 0, 1, 0]])
                rows.append([field.number, _BYTES, kernel.MESSAGE, place, len(nested), 1, oneof])
                has_presence = True
            elif kind == _TIME:
                column, how, has_presence = TIMESTAMP, "time", True
                parts = [[1, _VARINT, kernel.WORD, place, 0, 1, 0], [2, _VARINT, kernel.INT32, place + 1, 0, 1, 0]]
                nested.append(parts)
                rows.append([field.number, _BYTES, kernel.MESSAGE, place, len(nested), 2, oneof])
            else:
                enum, column, how = self._enums[kind], STRING, "enum"
                if enum.is_closed:
                    rows.append([field.number, _VARINT, kernel.ENUM, place, len(symbols), len(enum.values), oneof])
                    symbols += enum.values
                else:
                    rows.append([field.number, _VARINT, kernel.INT32, place, 0, 1, oneof])
            words += [oneof] * (2 if how == "time" else 1)
            default = _default(field, how, enum) if has_presence else None
            columns.append(
                ProtoColumn(
                    field.name, field.number, column, how, place, has_presence, default, enum.values if enum else {}
                )
            )
        tables, begin = [], 0
        for table in (rows, *nested):
            tables.append([begin, begin + len(table)])
            begin += len(table)
        return ProtoProgram(
            tuple(columns),
            len(words),
            np.array([row for table in (rows, *nested) for row in table], np.int64).reshape(-1, 7),
            np.array(tables, np.int64),
            np.array(symbols or [0], np.int64),
            np.array(words or [0], np.int64),
        )

    def _stored(self, field: ProtoField, space: str) -> str | None:
        """Return the type of a field, if it is one of a column: a scalar, or the full name of an enum or message."""
        if field.type in _SCALARS:
            return field.type
        name = self._resolved(field.type, space)
        return name if name in self._enums or name in _WRAPPERS or name == _TIME else None

    def _wire(self, field: ProtoField, space: str) -> int:
        if field.type in _SCALARS:
            return _SCALARS[field.type][0]
        return _VARINT if self._resolved(field.type, space) in self._enums else _BYTES

    def _resolved(self, name: str, space: str) -> str:
        """Return the full name of a type that is named in a message, by the rules of C++."""
        known = self._messages.keys() | self._enums.keys() | _WRAPPERS.keys() | {_TIME}
        if name.startswith("."):
            return name[1:]
        scope = space
        while True:
            full = f"{scope}.{name}" if scope else name
            if full in known:
                return full
            if not scope:
                return name  # unknown: a message, which is skipped
            scope = scope.rpartition(".")[0]


def proto_types(text: str, references: Sequence[str] = ()) -> ProtoTypes:
    """Return the types of a schema; `references` are the schemas that it imports.

    >>> found = proto_types('syntax = "proto3"; message Sale { double price = 1; repeated int32 parts = 2; }')
    >>> [(column.name, str(column.kind)) for column in found.program("Sale").columns]
    [('price', 'double')]
    """
    return ProtoTypes(parse_proto(text), [parse_proto(one) for one in references])


def _has_presence(field: ProtoField, of_file: bool) -> bool:
    if field.presence:
        return field.presence != "IMPLICIT"
    return of_file or field.label in ("optional", "required") or bool(field.oneof)


def _default(field: ProtoField, how: str, enum: ProtoEnum | None) -> Any:
    """Return the declared default of a field, if it has one."""
    text = field.default
    if text is None:
        return None
    if enum is not None:
        return text
    try:
        if how == "boolean":
            return text == "true"
        if how == "string":
            return unescaped(text)
        if how == "bytes":
            return unescaped(text).encode("latin-1")
        return float(text) if how in ("float", "double") else int(text, 0)
    except ValueError:
        raise ProtoTextError(f"field {field.name!r} has the default {text}, which is not of its type") from None
