"""Batches of rows from files: well-formed rows as a table, and malformed ones for dead letters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from skyband.connectors.arrow.paths import on_spark
from skyband.connectors.files import FilesSource
from skyband.errors import SkybandError
from skyband.expressions import compile_expression

__all__ = ["FileReader", "FileRows", "declared_types", "letters", "line_blocks"]

_BLOCK = 1 << 24  # bytes that are parsed at a time
_LETTERS = pa.schema([("reason", pa.string()), ("file", pa.string()), ("row", pa.int64()), ("value", pa.string())])


class FileRows(NamedTuple):
    """A batch of rows."""

    rows: pa.Table  # the well-formed ones
    read: int  # number of rows, including malformed ones
    malformed: pa.Table  # as `letters` returns them


class FileReader(Protocol):
    """Reads the rows of a stream's files."""

    schema: pa.Schema

    def read(self, files: Iterable[Path]) -> Iterator[FileRows]:
        """Yield the rows of files in batches."""


def letters(
    reasons: Sequence[str] = (), file: Path | None = None, *, rows: Sequence[int] = (), values: Sequence[str] = ()
) -> pa.Table:
    """Return malformed rows of a file with the reason of each, and its number or its text.

    >>> letters(["no JSON"], Path("/in.json"), values=["x"]).to_pylist()
    [{'reason': 'no JSON', 'file': 'file:/in.json', 'row': None, 'value': 'x'}]
    """
    count = len(reasons)
    where = "" if file is None else file.absolute().as_uri().replace("file://", "file:", 1)  # as Spark writes it
    columns: list[Sequence[Any]] = [reasons, [where] * count, rows or [None] * count, values or [None] * count]
    return pa.table(dict(zip(_LETTERS.names, columns, strict=True)), _LETTERS)


def declared_types(name: str, stream: FilesSource) -> pa.Schema:
    """Return the columns of `schema:` as Arrow types."""
    fields, nothing = [], pa.schema([])
    for column, text in (stream.schema or {}).items():
        try:
            fields.append((column, compile_expression(f"CAST(NULL AS {text})", nothing).type))
        except SkybandError:
            raise on_spark(name, f"schema: {{{column}: {text}}}") from None
    return pa.schema(fields)


def line_blocks(file: Path) -> Iterator[bytes]:
    """Yield the lines of a file in large blocks, each of whole lines; compressed files are decompressed."""
    rest = b""
    with pa.input_stream(str(file), compression="detect") as stream:
        while block := stream.read(_BLOCK):
            rest += block
            end = rest.rfind(b"\n") + 1
            if end:
                yield rest[:end]
                rest = rest[end:]
    if rest:
        yield rest
