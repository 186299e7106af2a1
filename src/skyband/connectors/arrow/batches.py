"""Batches of rows from files: well-formed rows as a table, and malformed ones for dead letters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.csv as pcsv

from skyband.connectors.arrow.paths import on_spark
from skyband.connectors.arrow.splits import Split
from skyband.connectors.file_formats import is_packed
from skyband.connectors.files import FilesSource
from skyband.errors import SkybandError
from skyband.expressions import compile_expression

__all__ = [
    "FileReader",
    "FileRows",
    "NarrowReader",
    "declared_types",
    "in_blocks",
    "in_memory",
    "letters",
    "line_blocks",
    "opened",
    "parsed_csv",
]

_BLOCK = 1 << 24  # bytes that are parsed at a time
_FAR = 1 << 62
_LETTERS = pa.schema([("reason", pa.string()), ("file", pa.string()), ("row", pa.int64()), ("value", pa.string())])


class FileRows(NamedTuple):
    """A batch of rows."""

    rows: pa.Table  # the well-formed ones
    read: int  # number of rows, including malformed ones
    malformed: pa.Table  # as `letters` returns them
    unreadable: pa.Table | None = None  # the same for files and row groups that were skipped


class FileReader(Protocol):
    """Reads the rows of a stream's files."""

    schema: pa.Schema

    def read(self, splits: Iterable[Split]) -> Iterator[FileRows]:
        """Yield the rows of some parts of files in batches."""


@runtime_checkable
class NarrowReader(FileReader, Protocol):
    """Reads rows of files whose format allows to read some columns only."""

    def narrow(self, wanted: Collection[str], texts: Collection[str]) -> NarrowReader:
        """Return a reader of the `wanted` columns only. Columns of `texts` can come as dictionaries."""


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


def declared_types(name: str, stream: FilesSource) -> pa.Schema | None:
    """Return the columns of `schema:` as Arrow types; None if it is not declared."""
    if stream.schema is None:
        return None
    fields, nothing = [], pa.schema([])
    for column, text in stream.schema.items():
        try:
            fields.append((column, compile_expression(f"CAST(NULL AS {text})", nothing).type))
        except SkybandError:
            raise on_spark(name, f"schema: {{{column}: {text}}}", stream) from None
    return pa.schema(fields)


def line_blocks(split: Split) -> Iterator[bytes]:
    """Yield the lines that begin in a split in large blocks, each of whole lines; compressed files are decompressed."""
    with opened(split.file) as stream:
        limit = _FAR if split.limit is None else split.limit
        last = _FAR if split.end is None else min(split.end, limit) - 1  # the last byte of the split
        place = 0
        if split.begin:
            stream.seek(split.begin - 1)
            place = split.begin - 1 + len(stream.readline())  # the line before begins in another split
        rest = b""  # what follows the last line that was yielded; it ends at `place`
        while place - len(rest) <= last and (block := stream.read(min(_BLOCK, limit - place))):
            rest += block
            place += len(block)
            begin = place - len(rest)
            end = (rest.rfind(b"\n") if place <= last else rest.find(b"\n", last - begin)) + 1
            if end:
                yield rest[:end]
                rest = rest[end:]
    if rest and place - len(rest) <= last:
        yield rest


def in_blocks(lines: bytes, size: int = _BLOCK) -> Iterator[bytes]:
    r"""Yield lines in blocks of about `size` bytes.

    >>> list(in_blocks(b"a\nbc\nd", 3))
    [b'a\nbc\n', b'd']
    """
    low = 0
    while low < len(lines):
        high = lines.find(b"\n", low + size) + 1 or len(lines)
        yield lines[low:high]
        low = high


def in_memory(block: bytes) -> pa.BufferReader:
    r"""Return bytes as a stream for Arrow's readers of text.

    Their threads release the stream, perhaps only when Python exits. A thread that needs Python for that, as with
    `io.BytesIO`, would then end the process ("terminate called without an active exception"). So the bytes are copied
    into memory of Arrow.

    >>> in_memory(b"price\n9.5\n").read()
    b'price\n9.5\n'
    """
    stream = pa.BufferOutputStream()
    stream.write(block)
    return pa.BufferReader(stream.getvalue())


def parsed_csv(
    block: bytes,
    read: pcsv.ReadOptions,
    convert: pcsv.ConvertOptions | None,
    skip: Callable[[Any], str],
    **parse: Any,
) -> pa.Table:
    r"""Parse bytes as CSV. `skip` is called for each row with another number of cells.

    Arrow's threads may release the function when Python exits, which ends the process as in `in_memory`. So they get it
    only if there is such a row.

    >>> rows = []
    >>> parsed_csv(b"a,b\n1,2\n3\n", pcsv.ReadOptions(), None, lambda row: rows.append(row.text) or "skip").num_rows
    1
    >>> rows
    ['3']
    """
    try:
        return pcsv.read_csv(in_memory(block), read, pcsv.ParseOptions(**parse), convert)
    except pa.ArrowInvalid:
        return pcsv.read_csv(in_memory(block), read, pcsv.ParseOptions(**parse, invalid_row_handler=skip), convert)


def opened(file: Path) -> Any:
    """Open a file of lines; a compressed file is decompressed."""
    return pa.input_stream(str(file), compression="detect") if is_packed(file.name) else file.open("rb")
