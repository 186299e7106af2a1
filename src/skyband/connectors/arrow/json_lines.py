"""Rows of JSON files, one object per line, or a list of objects: types declared or inferred, malformed lines marked.

Arrow parses whole blocks of lines. Only the lines of a block that Arrow rejects are looked at one by one. A list of
objects is converted to lines. Spark reports a malformed object of a list in another way, so such lists are rejected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pjson

from skyband.connectors.arrow.batches import FileRows, in_blocks, in_memory, letters, line_blocks, opened
from skyband.connectors.arrow.cells import UncertainError, converted, is_supported
from skyband.connectors.arrow.envelope import envelope_schema, is_envelope, unwrapped, with_change
from skyband.connectors.arrow.json_document import document_lines
from skyband.connectors.arrow.paths import is_document, on_spark
from skyband.connectors.arrow.splits import Split
from skyband.connectors.arrow.unreadable import UnreadableFiles
from skyband.connectors.envelope import OP
from skyband.connectors.files import FilesSource
from skyband.data.arrow import one
from skyband.expressions.types import DATE, TIMESTAMP, is_integral, spark_name

__all__ = ["JsonFiles"]

_MALFORMED = "the line is not a JSON object that matches the schema"
_NO_ENVELOPE = "the line is not a Debezium envelope of a row that matches the schema"
_LONG = re.compile(rb"(?<![0-9.eE])[0-9]{19}")  # Spark reads integers beyond 64 bits as decimals
_NOT_JSON = re.compile(r"(?i)nan|inf")


class JsonFiles:
    """The rows of JSON files. Without `declared` columns, the files are read once more to infer them, as on Spark."""

    def __init__(self, name: str, stream: FilesSource, files: Sequence[Path], declared: pa.Schema | None) -> None:
        self._name, self._unreadable = name, UnreadableFiles(name, stream)
        self._is_document = is_document(stream)
        self._has_envelope = stream.envelope is not None
        self._row = self._inferred(files) if declared is None else declared  # without what an envelope adds
        self.schema = with_change(self._row) if self._has_envelope else self._row
        for field in self._row:
            if not is_supported(field.type):
                raise on_spark(name, f"schema: {{{field.name}: {spark_name(field.type)}}} of JSON files")
        self._row_as = pa.schema([(field.name, _read_type(field.type)) for field in self._row])
        self._read_as = envelope_schema(self._row_as) if self._has_envelope else self._row_as

    def read(self, splits: Iterable[Split]) -> Iterator[FileRows]:
        """Yield the rows of some parts of files in batches."""
        for split in splits:
            if (lost := self._unreadable.skipped_lines(self.schema, split)) is not None:
                yield lost
                continue
            for block in self._blocks(split):
                yield self._typed(split.file, block)

    def _inferred(self, files: Sequence[Path]) -> pa.Schema:
        """Return the columns of all lines, sorted by name."""
        found: dict[str, set[pa.DataType]] = {}
        for file in filter(self._unreadable.are_readable, files):
            for block in self._blocks(Split(file)):
                try:
                    table = _parsed(block, None)
                except pa.ArrowInvalid as error:
                    raise self._uncertain(file, error) from None
                if _LONG.search(block):
                    raise on_spark(self._name, f"an integer of more than 18 digits in {str(file)!r} without schema:")
                for field in table.schema:
                    kind = pa.string() if pa.types.is_timestamp(field.type) else field.type
                    found.setdefault(field.name, set()).add(kind)
        if len({column.lower() for column in found}) < len(found):
            raise on_spark(self._name, "JSON with keys that differ only in case")
        return pa.schema([(column, self._common(column, found[column])) for column in sorted(found)])

    def _common(self, column: str, kinds: set[pa.DataType]) -> pa.DataType:
        known = kinds - {pa.null()}
        if not known:
            return pa.string()
        if known <= {pa.int64(), pa.float64()}:
            return pa.float64() if pa.float64() in known else pa.int64()
        if known <= {pa.string()} or known <= {pa.bool_()}:
            return known.pop()
        listed = ", ".join(sorted(map(str, known)))
        raise on_spark(self._name, f"the key {column!r} with values of type {listed} in JSON files without schema:")

    def _typed(self, file: Path, block: bytes) -> FileRows:
        wrong_lines: list[str] = []
        try:
            table = self._read_table(block)
        except pa.ArrowInvalid as error:
            if self._is_document:
                raise self._uncertain(file, error) from None
            block, wrong_lines = self._sorted_out(file, block)
            try:
                table = self._read_table(block) if block else self._read_as.empty_table()
            except pa.ArrowInvalid as error:
                raise self._uncertain(file, error) from None
        known = {name.lower(): name for name in self._read_as.names}
        for name in table.column_names:
            if known.get(name.lower(), name) != name:
                raise on_spark(self._name, f"the JSON key {name!r}, which differs from a column only in case,")
        arrays, wrong = [], pa.repeat(False, table.num_rows)
        columns: dict[str, Any] = {name: one(table[name]) for name in table.column_names}
        if self._has_envelope:
            columns, times, wrong = unwrapped(table, self._row_as)
        for field in self._row:
            values, bad = self._converted(field, columns[field.name])
            arrays.append(values)
            wrong = pc.or_(wrong, bad)
        arrays += [columns[OP], times] if self._has_envelope else []
        rows = pa.Table.from_arrays(arrays, schema=self.schema)
        if pc.any(wrong).as_py():
            places = set(pc.indices_nonzero(wrong).to_pylist())
            lines = [line for line in block.decode().split("\n") if line.strip()]
            wrong_lines += [line.rstrip("\r") for place, line in enumerate(lines) if place in places]
            if self._is_document:
                raise on_spark(self._name, f"the object {wrong_lines[0][:200]!r}, which does not match the columns,")
            rows = rows.filter(pc.invert(wrong))
        read = rows.num_rows + len(wrong_lines)
        reason = _NO_ENVELOPE if self._has_envelope else _MALFORMED
        return FileRows(rows, read, letters([reason] * len(wrong_lines), file, values=wrong_lines))

    def _read_table(self, block: bytes) -> pa.Table:
        table = _parsed(block, self._read_as, others="ignore" if self._has_envelope else "infer")
        if self._has_envelope and table.num_rows != sum(1 for line in block.split(b"\n") if line.strip()):
            raise pa.ArrowInvalid("a line with more than one object")
        return table

    def _converted(self, field: pa.Field, values: Any) -> tuple[Any, Any]:
        try:
            if field.type in (DATE, TIMESTAMP):
                return converted(values, field.type)
        except UncertainError as error:
            raise on_spark(self._name, f"the text {str(error)!r} in column {field.name!r} of JSON files") from None
        if not is_integral(field.type):
            return values, pa.repeat(False, len(values))
        limit = 2 ** (field.type.bit_width - 1)
        fits = pc.and_(pc.greater_equal(values, -limit), pc.less_equal(values, limit - 1))
        found = pc.if_else(fits, values, pa.scalar(None, pa.int64())).cast(field.type)
        return found, pc.and_(pc.is_valid(values), pc.is_null(found))

    def _sorted_out(self, file: Path, block: bytes) -> tuple[bytes, list[str]]:
        """Return the well-formed lines and the malformed ones."""
        good, wrong = list[str](), list[str]()
        for raw in block.split(b"\n"):
            line = raw.decode().rstrip("\r")
            if line.strip():
                (good if self._is_row(file, line) else wrong).append(line)
        return "".join(f"{line}\n" for line in good).encode(), wrong

    def _is_row(self, file: Path, line: str) -> bool:
        """Return whether a line is an object that matches the schema; reject lines that Spark may read otherwise."""
        uncertain = on_spark(self._name, f"the line {line[:200]!r} in {str(file)!r}")
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            if "'" in line or error.msg == "Extra data":  # Spark accepts both
                raise uncertain from None
            return False
        if isinstance(row, list) and any(isinstance(one, dict) for one in row):
            raise uncertain
        try:
            return is_envelope(row, self._matches) if self._has_envelope else self._matches(row)
        except UncertainError:
            raise uncertain from None

    def _matches(self, row: Any) -> bool:
        if not isinstance(row, dict):
            return False
        for field in self._row:
            matches = _matches(row.get(field.name), field.type)
            if matches is None:
                raise UncertainError(field.name)
            if not matches:
                return False
        return True

    def _blocks(self, split: Split) -> Iterator[bytes]:
        """Yield whole lines in large blocks."""
        with self._unreadable.stopping(split.file):
            for block in self._document(split.file) if self._is_document else line_blocks(split):
                if block.strip():
                    yield self._plain(split.file, block)

    def _document(self, file: Path) -> Iterator[bytes]:
        """Yield the objects of a document, each in a line, in large blocks."""
        with opened(file) as stream:
            lines = document_lines(self._plain(file, stream.read()))
        if lines is None:
            raise on_spark(self._name, f"{str(file)!r}, which is neither a list of objects nor an object,")
        return in_blocks(lines)

    def _plain(self, file: Path, block: bytes) -> bytes:
        try:
            block.decode()
        except UnicodeDecodeError:
            raise on_spark(self._name, f"text that is not UTF-8 in {str(file)!r}") from None
        if b"\x00" in block or b"\xef\xbb\xbf" in block[:3] or block.count(b"\r") != block.count(b"\r\n"):
            raise on_spark(self._name, f"a NUL, a byte order mark or a single carriage return in {str(file)!r}")
        return block

    def _uncertain(self, file: Path, error: Exception) -> Exception:
        return on_spark(self._name, f"the content of {str(file)!r} ({str(error).partition(chr(10))[0]})")


def _parsed(block: bytes, schema: pa.Schema | None, others: str = "infer") -> pa.Table:
    return pjson.read_json(
        in_memory(block),
        pjson.ReadOptions(block_size=len(block) + 1, use_threads=False),
        pjson.ParseOptions(explicit_schema=schema, newlines_in_values=False, unexpected_field_behavior=others),
    )


def _read_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which Arrow reads a column; times are text, and are converted as in CSV files."""
    if kind in (DATE, TIMESTAMP):
        return pa.string()
    return pa.int64() if is_integral(kind) else kind


def _matches(value: Any, kind: pa.DataType) -> bool | None:
    """Return whether a JSON value has a type; None if Spark may convert it.

    >>> _matches(1.0, pa.int32()), _matches("much", pa.float64()), _matches(1, pa.string())
    (False, False, None)
    """
    if kind == pa.string() or kind in (DATE, TIMESTAMP):
        return True if value is None or isinstance(value, str) else None
    if value is None or kind == pa.bool_():
        return value is None or isinstance(value, bool)
    if isinstance(value, bool | dict | list):
        return False
    if is_integral(kind):
        return isinstance(value, int) and -(2**63) <= value < 2**63
    # Spark reads NaN and infinities as numbers, also in quotes.
    return None if _NOT_JSON.search(str(value)) else not isinstance(value, str)
