"""Decodes the values of records of a topic in batches: Avro or Protobuf, with schemas of a registry or of a file.

With a registry, a value begins with byte 0 and the number of its schema in four bytes; with Protobuf, the place of the
message type in the schema follows. Values are grouped by their schema, and each group is decoded at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.connectors.arrow.avro_schema import AvroProgram, AvroSchemaError, program_of
from skyband.connectors.arrow.avro_values import AvroValueError, Decoded, decoded, with_type
from skyband.connectors.arrow.proto_program import ProtoProgram, proto_types
from skyband.connectors.arrow.proto_text import ProtoTextError
from skyband.connectors.arrow.proto_values import DecodedMessages
from skyband.connectors.arrow.record_schema import MismatchError, RecordColumn, resolved
from skyband.connectors.arrow.texts import wrong_texts
from skyband.connectors.registry import KINDS, Registered, Registry, UnknownSchemaError
from skyband.data.arrow import kernel_array
from skyband.kernels import avro, protobuf

__all__ = ["DecodedRows", "RecordDecoder", "RecordFormat", "decoder_for", "program_in_schema"]

_FORGOTTEN = 60.0  # seconds for which an unknown schema is not asked for again
_FIRST_MESSAGE = 1  # the path of the first message type of a schema


class RecordFormat(NamedTuple):
    """What determines how values are decoded."""

    kind: str  # avro or protobuf
    columns: tuple[RecordColumn, ...]
    registry: str | None = None  # the address; None: all values have the schema of `text`
    wait: float = 60.0  # seconds
    text: str | None = None
    references: tuple[str, ...] = ()  # schemas that `text` refers to
    message: str | None = None  # of a schema of Protobuf in `text`


class DecodedRows(NamedTuple):
    """Decoded values: the columns, and the problem of each value that could not be decoded."""

    columns: list[pa.Array]
    problems: pa.Array


class _Resolved(NamedTuple):
    program: AvroProgram | ProtoProgram
    places: list[int | None]


class _Group(NamedTuple):
    """Decoded values of one schema."""

    rows: Any  # their places in the batch
    columns: list[pa.Array]


def program_in_schema(kind: str, schema: Registered, message: str | Sequence[int] | None = None) -> Any:
    """Return the program of a schema; `message` is the name of a message type of Protobuf, or its path.

    Raises MismatchError with the reason if the schema is not supported.
    """
    if schema.kind != KINDS[kind]:
        raise MismatchError(f"it has type {schema.kind}, and the stream has format: {kind}")
    try:
        if kind == "avro":
            program = program_of(schema.text, references=schema.references)
            if len({column.name.lower() for column in program.columns}) < len(program.columns):
                raise MismatchError("names of its fields differ only in case")
            return program
        types = proto_types(schema.text, schema.references)
        name = types.named(message) if message is None or isinstance(message, str) else types.at(message)
        return types.program(name)
    except (AvroSchemaError, ProtoTextError) as error:
        raise MismatchError(str(error)) from None


_DECODERS: dict[str, RecordDecoder] = {}  # of this process: tasks of the same stream share schemas


def decoder_for(form: RecordFormat) -> RecordDecoder:
    """Return the decoder of a format, with the schemas that earlier tasks of this process have resolved."""
    key = repr(form)
    if key not in _DECODERS:
        if len(_DECODERS) >= 100:
            _DECODERS.clear()
        _DECODERS[key] = RecordDecoder(form)
    return _DECODERS[key]


class RecordDecoder:
    """Decodes values. A schema is resolved once."""

    def __init__(self, form: RecordFormat, fetch: Callable[[int], Registered] | None = None) -> None:
        self._form = form
        self._fetch = fetch
        if fetch is None and form.registry is not None:
            self._fetch = Registry(form.registry, form.wait).schema
        self._known: dict[tuple[int, int], _Resolved | str] = {}  # a text: why records are malformed
        self._schemas: dict[int, Registered] = {}
        self._unknown: dict[int, float] = {}

    def decode(self, values: pa.Array) -> DecodedRows:
        """Return the rows of values; a value that is null has neither a row nor a problem."""
        values = values.cast(pa.binary()) if values.type != pa.binary() else values
        count = len(values)
        valid = np.ones(count, np.bool_) if not values.null_count else kernel_array(values.is_valid())
        offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + count + 1]
        begins, ends = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
        data = _bytes(values.buffers()[2])
        ids, paths = np.zeros(count, np.int64), np.full(count, _FIRST_MESSAGE, np.int64)
        wrong = np.zeros(count, np.int64)
        if self._fetch is not None:
            starts = np.zeros(count, np.int64)
            has_path = self._form.kind == "protobuf"
            protobuf.find_headers(data, begins, ends, valid, has_path, ids, paths, starts, wrong)
            begins = starts
        problems = {int(row): protobuf.HEADER_PROBLEMS[int(wrong[row])] for row in np.flatnonzero(wrong)}
        groups: list[_Group] = []
        usable = valid & (wrong == 0)
        for number in np.unique(ids[usable]).tolist():
            of_schema = usable & (ids == number)
            for path in np.unique(paths[of_schema]).tolist():
                rows = np.flatnonzero(of_schema & (paths == path))
                found = self._resolved(number, path)
                if isinstance(found, str):
                    problems |= dict.fromkeys(rows.tolist(), found)
                else:
                    groups += self._decoded(data, begins, ends, rows, found, problems)
        return DecodedRows(self._merged(groups, count, problems), _texts(problems, count))

    def _resolved(self, number: int, path: int) -> _Resolved | str:
        """Return how values with a schema are read, or why they are malformed."""
        key = number, path
        if key in self._known:
            return self._known[key]
        message: str | Sequence[int] | None = self._form.message
        if self._fetch is None:
            schema = Registered(str(self._form.text), KINDS[self._form.kind], self._form.references)
        else:
            if self._unknown.get(number, -_FORGOTTEN) > monotonic() - _FORGOTTEN:
                return f"the registry has no schema {number}"
            try:
                schema = self._schemas[number] if number in self._schemas else self._fetch(number)
            except UnknownSchemaError:
                if len(self._unknown) > 100_000:
                    self._unknown.clear()
                self._unknown[number] = monotonic()
                return f"the registry has no schema {number}"
            self._schemas[number] = schema
            message = [(path >> (3 + 14 * place)) & 0x3FFF for place in range(path & 7)]
        try:
            program = program_in_schema(self._form.kind, schema, message)
            self._known[key] = _Resolved(program, resolved(self._form.columns, program))
        except MismatchError as error:
            which = "the schema" if self._fetch is None else f"schema {number}"
            self._known[key] = f"{which} cannot be used: {error}"
        return self._known[key]

    def _decoded(
        self, data: Any, begins: Any, ends: Any, rows: Any, how: _Resolved, problems: dict[int, str]
    ) -> list[_Group]:
        """Decode the values in some rows; add their problems."""
        numbered: dict[int, str]
        found: Decoded | DecodedMessages
        if isinstance(how.program, ProtoProgram):
            found = DecodedMessages(data, begins[rows], ends[rows], how.program)
            numbered = protobuf.PROBLEMS
        else:
            found = decoded(data, how.program, begins[rows], ends[rows], np.ones(rows.size, np.int64))
            found.damaged()
            numbered = avro.PROBLEMS
        for at in np.flatnonzero(found.problems).tolist():
            problems[int(rows[at])] = f"the value cannot be decoded: {numbered[int(found.problems[at])]}"
        try:
            columns = [
                self._column(found, place, column) for place, column in zip(how.places, self._form.columns, strict=True)
            ]
        except AvroValueError as error:
            if rows.size == 1:
                problems.setdefault(int(rows[0]), f"the value cannot be decoded: {error}")
                return []
            half = rows.size // 2
            parts = (rows[:half], rows[half:])
            return [group for part in parts for group in self._decoded(data, begins, ends, part, how, problems)]
        self._check_symbols(found, how, rows, problems)
        table = pa.table(columns, names=[str(at) for at in range(len(columns))])
        names = {f"column {str(at)!r}": f"column {one.name!r}" for at, one in enumerate(self._form.columns)}
        for at, why in wrong_texts(table).items():
            column, _, rest = why.partition(" contains")
            problems.setdefault(int(rows[at]), f"{names[column]} contains{rest}")
        return [_Group(rows, columns)]

    def _column(self, found: Decoded | DecodedMessages, place: int | None, column: RecordColumn) -> pa.Array:
        if place is None:
            if column.default is None:
                return pa.nulls(found.rows, column.kind)
            default = column.default if isinstance(column.default, pa.Scalar) else pa.scalar(column.default)
            return pa.repeat(default.cast(column.kind), found.rows)
        values = found.column(place)
        if pa.types.is_decimal(values.type) and values.type != column.kind:
            return values.cast(column.kind)
        if column.symbols and column.symbol is not None:
            known = pc.is_in(values, pa.array(column.symbols, pa.string()))
            values = pc.if_else(pc.or_(known, values.is_null()), values, column.symbol)
        return with_type(values, column.kind)

    def _check_symbols(
        self, found: Decoded | DecodedMessages, how: _Resolved, rows: Any, problems: dict[int, str]
    ) -> None:
        """Add a problem for each symbol that the reader's enum does not have, if it has no default."""
        for place, column in zip(how.places, self._form.columns, strict=True):
            if place is None or not column.symbols or column.symbol is not None:
                continue
            if set(getattr(how.program.columns[place], "symbols", ())) <= set(column.symbols):
                continue
            values = found.column(place)
            known = pc.is_in(values, pa.array(column.symbols, pa.string()), skip_nulls=False)
            strange = kernel_array(pc.and_(values.is_valid(), pc.invert(known)))
            for at in np.flatnonzero(strange).tolist():
                why = f"column {column.name!r} has the symbol {values[at].as_py()!r}, which its enum does not have"
                problems.setdefault(int(rows[at]), why)

    def _merged(self, groups: Sequence[_Group], count: int, problems: dict[int, str]) -> list[pa.Array]:
        """Return columns in the order of the batch; rows with a problem, or without a value, are null."""
        if len(groups) == 1 and groups[0].rows.size == count and not problems:
            return groups[0].columns
        places, at = np.full(count, -1, np.int64), 0
        for group in groups:
            places[group.rows] = np.arange(at, at + group.rows.size)
            at += group.rows.size
        if problems:
            places[list(problems)] = -1
        taken = pa.array(places, mask=places < 0)
        found = []
        for number, column in enumerate(self._form.columns):
            parts = [group.columns[number] for group in groups]
            whole = pa.concat_arrays(parts) if parts else pa.nulls(0, column.kind)
            found.append(whole.take(taken))
        return found


def _bytes(buffer: pa.Buffer | None) -> Any:
    if buffer is None or not buffer.size:
        return np.zeros(1, np.uint8)
    return kernel_array(pa.Array.from_buffers(pa.uint8(), buffer.size, [None, buffer]))


def _texts(problems: dict[int, str], count: int) -> pa.Array:
    if not problems:
        return pa.nulls(count, pa.string())
    found: list[str | None] = [None] * count
    for row, why in problems.items():
        found[row] = why
    return pa.array(found, pa.string())
