"""Rows of CSV files: columns by the names in the header, types declared or inferred, malformed lines marked.

Spark's parser differs from others in escapes, doubled quotes and line breaks in quoted cells. Files with these are
rejected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from skyband.connectors.arrow.batches import FileRows, in_memory, letters, line_blocks, opened, parsed_csv
from skyband.connectors.arrow.cells import ColumnTypes, UncertainError, converted, is_supported
from skyband.connectors.arrow.paths import on_spark, option
from skyband.connectors.arrow.splits import Split
from skyband.connectors.arrow.unreadable import UnreadableFiles
from skyband.connectors.files import FilesSource
from skyband.data.arrow import one
from skyband.errors import InvalidInputError
from skyband.expressions.types import spark_name

__all__ = ["CsvFiles"]

_BOM = b"\xef\xbb\xbf"
_MALFORMED = "the line is not a CSV line that matches the schema"


class CsvFiles:
    """The rows of CSV files. Without `declared` columns, the files are read once more to infer them."""

    def __init__(self, name: str, stream: FilesSource, files: Sequence[Path], declared: pa.Schema | None) -> None:
        self._name, self._unreadable = name, UnreadableFiles(name, stream)
        self._separator = option(stream, "delimiter", option(stream, "sep", ","))
        self._has_header = option(stream, "header", "true") == "true"
        if len(self._separator) != 1 or not self._separator.isascii() or self._separator in '"\\\r\n':
            raise on_spark(name, f"options: {{sep: {self._separator!r}}}")
        self._cells, self._places = list[str](), list[int]()
        readable = filter(self._unreadable.are_readable, files)
        first = next((file for file in readable if self._first_line(file)), None)
        for field in declared or ():
            if not is_supported(field.type):
                raise on_spark(name, f"schema: {{{field.name}: {spark_name(field.type)}}} of CSV files")
        if first is None:
            if declared is None:
                raise InvalidInputError(
                    f"stream {name!r}: all files in {stream.path!r} are empty. Add a file with rows."
                )
            # The schema determines the header of files that are written later, as on Spark.
            self.schema, self._cells, self._places = declared, list(declared.names), list(range(len(declared)))
        elif declared is None:
            self._read_header(first)
            names = self._cells if self._has_header else [""] * len(self._cells)
            self._places = list(range(len(names)))
            spelled = [cell or f"_c{place}" for place, cell in enumerate(names)]
            self.schema = pa.schema(list(zip(spelled, self._inferred(files, spelled), strict=True)))
        else:
            self.schema = declared
            self._read_header(first)
            self._places = self._matched(first, declared)

    def read(self, splits: Iterable[Split]) -> Iterator[FileRows]:
        """Yield the rows of some parts of files in batches."""
        for split in splits:
            if (lost := self._unreadable.skipped_lines(self.schema, split)) is not None:
                yield lost
                continue
            for table, wrong_lines in self._tables(split):
                yield self._typed(split.file, table, wrong_lines)

    def _read_header(self, file: Path) -> None:
        """Read the names of the columns; all other files must have them in the same order."""
        self._cells = self._split(file, self._first_line(file))
        self._keys = [_key(cell) for cell in self._cells]
        if self._has_header and len(set(self._keys)) < len(self._keys):
            raise on_spark(self._name, f"the header of {str(file)!r}, in which a name is repeated,")

    def _inferred(self, files: Sequence[Path], names: Sequence[str]) -> list[pa.DataType]:
        types = ColumnTypes(len(names))
        for file in filter(self._unreadable.are_readable, files):
            for table, _ in self._tables(Split(file)):
                for place in range(len(names)):
                    for chunk in table.column(place).chunks:
                        self._certain(file, names[place], lambda at=place, some=chunk: types.see(at, some))
        return [self._certain(files[0], name, lambda at=place: types.type_of(at)) for place, name in enumerate(names)]

    def _certain(self, file: Path, column: str, compute: Any) -> Any:
        try:
            return compute()
        except UncertainError as error:
            raise on_spark(self._name, f"the text {str(error)!r} in column {column!r} of the CSV files") from None

    def _typed(self, file: Path, table: pa.Table, wrong_lines: list[str]) -> FileRows:
        arrays, wrong = [], pa.repeat(False, table.num_rows)
        for field, place in zip(self.schema, self._places, strict=True):
            cells = one(table.column(place))
            values, bad = self._certain(file, field.name, lambda some=cells, kind=field.type: converted(some, kind))
            arrays.append(values)
            wrong = pc.or_(wrong, bad)
        rows = pa.Table.from_arrays(arrays, schema=self.schema)
        lines = list(wrong_lines)
        if pc.any(wrong).as_py():
            lines += [self._line(row.values()) for row in table.filter(wrong).to_pylist()]
            rows = rows.filter(pc.invert(wrong))
        found = letters([_MALFORMED] * len(lines), file, values=lines)
        return FileRows(rows, table.num_rows + len(wrong_lines), found)

    def _line(self, cells: Iterable[str | None]) -> str:
        """Return the text of a line, for dead letters."""
        texts = (cell or "" for cell in cells)
        return self._separator.join(f'"{text}"' if self._separator in text else text for text in texts)

    def _tables(self, split: Split) -> Iterator[tuple[pa.Table, list[str]]]:
        """Yield the lines of a split as tables of text, and the lines with another number of cells."""
        file = split.file
        header = self._first_line(file) if self._has_header else b""
        if not self._first_line(file):
            return
        if self._has_header:
            self._refuse_different_header(file, header)
        if split.begin:
            header = b""  # another split reads it
        for block in self._blocks(split):
            lines = block
            if header:
                lines, header = block[block.index(header) + len(header) :], b""
            if lines.strip():
                yield self._parsed(file, lines)

    def _blocks(self, split: Split) -> Iterator[bytes]:
        """Yield whole lines in large blocks; quoted line breaks are rejected, so every line break ends a line."""
        with self._unreadable.stopping(split.file):
            for block in line_blocks(split):
                yield self._plain(split.file, block)

    def _plain(self, file: Path, block: bytes) -> bytes:
        """Return the lines, or reject them if Spark's parser may split them in another way."""
        if b"\x00" in block or block.count(b"\r") != block.count(b"\r\n"):
            raise on_spark(self._name, f"a NUL character or a carriage return without line feed in {str(file)!r}")
        if b'"' not in block:
            return block
        text = np.frombuffer(block, np.uint8)
        quotes = np.flatnonzero(text == ord('"'))
        breaks = np.flatnonzero(text == ord("\n"))
        padded = np.concatenate([[ord("\n")], text, [ord("\n")]])
        opens, closes = quotes[::2], quotes[1::2]
        around = [ord("\n"), ord("\r"), ord(self._separator)]
        if (
            b"\\" in block
            or opens.size != closes.size
            or (np.searchsorted(breaks, opens) != np.searchsorted(breaks, closes)).any()
            or not np.isin(padded[opens], around).all()
            or not np.isin(padded[closes + 2], around).all()
        ):
            raise on_spark(self._name, f"a quote, backslash or line break inside of a quoted cell in {str(file)!r}")
        return block

    def _parsed(self, file: Path, lines: bytes) -> tuple[pa.Table, list[str]]:
        names, wrong = [str(place) for place in range(len(self._cells))], list[str]()

        def skip(row: Any) -> str:
            if row.text.strip():  # Spark skips lines of spaces
                wrong.append(row.text)
            return "skip"

        try:
            table = parsed_csv(
                lines,
                pcsv.ReadOptions(column_names=names, block_size=len(lines) + 1, use_threads=False),
                pcsv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True
                ),
                skip,
                delimiter=self._separator,
                double_quote=False,
            )
        except pa.ArrowInvalid as error:
            raise on_spark(self._name, f"the content of {str(file)!r} ({str(error).partition(chr(10))[0]})") from None
        if len(names) == 1 or self._separator.isspace():
            # A line of spaces and separators is empty for Spark, and skipped.
            blank = [pc.equal(pc.utf8_trim_whitespace(pc.fill_null(column, "")), "") for column in table.columns]
            empty = blank[0]
            for one in blank[1:]:
                empty = pc.and_(empty, one)
            if b'"' in lines and pc.any(empty).as_py():
                raise on_spark(self._name, f"a line of empty cells in {str(file)!r}")
            table = table.filter(pc.invert(empty))
        return table, wrong

    def _first_line(self, file: Path) -> bytes:
        """Return the first line that is not empty, without its line break; empty if there is none."""
        with self._unreadable.stopping(file), opened(file) as stream:
            head: bytes = stream.read(1 << 20)
        for line in head.splitlines():
            if line.strip():
                return line.removeprefix(_BOM)
        return b""

    def _split(self, file: Path, line: bytes) -> list[str]:
        """Return the cells of a line."""
        names = [f"f{place}" for place in range(line.count(self._separator.encode()) + 1)]
        try:
            row = pcsv.read_csv(
                in_memory(self._plain(file, line) + b"\n"),
                pcsv.ReadOptions(autogenerate_column_names=True),
                pcsv.ParseOptions(delimiter=self._separator, double_quote=False),
                pcsv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
            )
        except pa.ArrowInvalid as error:
            raise on_spark(self._name, f"the first line of {str(file)!r} ({error})") from None
        return [column[0].as_py() for column in row.columns]

    def _refuse_different_header(self, file: Path, line: bytes) -> None:
        cells = self._split(file, line)
        if [cell.lower() for cell in cells] != [cell.lower() for cell in self._cells]:
            pairs = zip([*cells, *[""] * len(self._cells)], [*self._cells, *[""] * len(cells)], strict=False)
            place, theirs, ours = next((at, a, b) for at, (a, b) in enumerate(pairs, 1) if a.lower() != b.lower())
            raise InvalidInputError(
                f"stream {self._name!r}: the header of {str(file)!r} differs from the header of the first file: column "
                f"{place} is {theirs!r} instead of {ours!r}. Columns are read by position and would be mixed up. "
                "Rewrite the file with its columns in the same order."
            )

    def _matched(self, file: Path, declared: pa.Schema) -> list[int]:
        """Return the place in the file of each column of the schema: by name, or by position without a header."""
        if not self._has_header:
            if len(declared) != len(self._cells):
                raise on_spark(
                    self._name, f"schema: with {len(declared)} columns for files with {len(self._cells)} columns"
                )
            return list(range(len(declared)))
        places = {key: place for place, key in enumerate(self._keys)}
        missing = [name for name in declared.names if _key(name) not in places]
        if len(missing) == 1 and "" in places:  # such as the index that pandas writes
            places[_key(missing.pop())] = places[""]
        if missing:
            raise InvalidInputError(
                f"stream {self._name!r}: column {missing[0]!r} of schema: is not in the header of {str(file)!r}, which "
                f"contains {', '.join(map(repr, self._cells))}. Use the names of the header; or set options: "
                "{header: false} if the files have no header."
            )
        return [places[_key(name)] for name in declared.names]


def _key(name: str) -> str:
    return name.replace("\ufeff", "").strip().lower()
