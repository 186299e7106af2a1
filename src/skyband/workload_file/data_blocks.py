"""Rows of data files as Arrow tables, a block at a time, so that large files are looked at as quickly as small ones."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from skyband.connectors.file_formats import Format, is_packed, is_tabs

__all__ = ["BLOCK", "PIECE", "head_of", "options_for", "pieces_of", "table_of", "with_partition"]

BLOCK = 1_000_000  # bytes of the first file that tell the columns
PIECE = 65_536  # bytes of each of the other places that are looked at
_ROWS = 20_000
_LARGEST = 64_000_000  # bytes of a JSON document that is not a line for each row: it can only be read as a whole


def head_of(file: Path, size: int = BLOCK) -> tuple[bytes, bool]:
    """The first bytes of a file, unpacked, up to the end of a line; and whether that is all of it."""
    import pyarrow as pa  # noqa: PLC0415 - loaded when data is looked at

    with pa.input_stream(str(file), compression="detect") as stream:
        block: bytes = stream.read(size)
        whole = len(block) < size or not stream.read(1)
    return (block if whole or b"\n" not in block else block[: block.rindex(b"\n") + 1]), whole


def pieces_of(file: Path, budget: int) -> tuple[list[bytes], bool]:
    """Blocks of whole lines, in order and spread over the file, of about `budget` bytes; and whether that is all of it.

    The first is the file's beginning. Of a compressed file nothing else can be read by itself.
    """
    size = file.stat().st_size
    if is_packed(file.name) or size <= budget:
        block, whole = head_of(file, budget)
        return [block], whole
    count = max(2, budget // PIECE)
    blocks = []
    with file.open("rb") as stream:
        for number in range(count):
            start = (size - PIECE) * number // (count - 1)
            stream.seek(start)
            block = stream.read(PIECE)
            if number:
                block = block.partition(b"\n")[2]
            blocks.append(block if number == count - 1 else block[: block.rfind(b"\n") + 1])
    return blocks, False


def options_for(file: Path, kind: Format, head: bytes) -> dict[str, str]:
    """The options that Spark's reader needs for the way a file is written."""
    if kind == "csv":
        header = head.split(b"\n", 1)[0].decode("utf-8", "replace")
        best = max(",;\t|", key=header.count)
        if is_tabs(file.name) or (best != "," and header.count(best) > header.count(",")):
            return {"sep": "\t" if is_tabs(file.name) else best}
    if kind == "json" and head.strip() and not _is_row(head.strip().split(b"\n", 1)[0]) and _document(file):
        return {"multiLine": "true"}
    return {}


def table_of(
    file: Path,
    kind: Format,
    block: bytes,
    options: Mapping[str, str],
    names: Sequence[str] | None = None,
) -> Any:
    """Rows of a block as an Arrow table; times that are text stay text, so that it can be seen how they are written."""
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import csv, parquet  # noqa: PLC0415

    if kind == "parquet":
        with parquet.ParquetFile(file) as opened:
            first = next(opened.iter_batches(batch_size=_ROWS), None)
            return pa.Table.from_batches([] if first is None else [first], schema=opened.schema_arrow)
    if kind == "json":
        whole = _document(file) if "multiLine" in options else None
        rows = whole if whole is not None else [json.loads(line) for line in block.splitlines() if line.strip()]
        if not all(isinstance(row, dict) for row in rows):
            raise ValueError(
                "a line is no JSON object; Spark reads one object a line, or a file that is a list of them"
            )
        names_ = dict.fromkeys(name for row in rows for name in row)  # a row need not have them all
        return pa.table({name: _column([row.get(name) for row in rows]) for name in names_})
    return csv.read_csv(
        io.BytesIO(block),
        read_options=csv.ReadOptions(block_size=2 * max(BLOCK, len(block)), column_names=names),
        parse_options=csv.ParseOptions(
            delimiter=options.get("sep", ","), newlines_in_values=True, invalid_row_handler=lambda row: "skip"
        ),
        convert_options=csv.ConvertOptions(timestamp_parsers=["never"]),
    )


def with_partition(table: Any, told: Mapping[str, str]) -> Any:
    """The table with the columns that its file's folders tell, as Spark reads them: whole numbers, dates or text.

    Where the file has such a column itself, Spark takes that of the folder.
    """
    import pyarrow as pa  # noqa: PLC0415

    for name, text in told.items():
        if name in table.column_names:
            table = table.drop_columns([name])
        table = table.append_column(name, pa.array([_typed(text)] * table.num_rows))
    return table


def _column(values: list[Any]) -> Any:
    """Values as an Arrow array; those of several types are text, as Spark reads them."""
    import pyarrow as pa  # noqa: PLC0415

    try:
        return pa.array(values)
    except (ValueError, TypeError):
        return pa.array([None if value is None else str(value) for value in values])


def _typed(text: str) -> int | date | str:
    for kind in (int, date.fromisoformat):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _is_row(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _document(file: Path) -> list[Any] | None:
    """The rows of a file that is one JSON document: a list of objects, or one object over several lines."""
    block, whole = head_of(file, _LARGEST)
    if not whole:
        raise ValueError(
            f"it is one JSON document of more than {_LARGEST:,} bytes, which can only be read as a whole; write an "
            "object a line"
        )
    try:
        found = json.loads(block)
    except ValueError:
        return None
    rows = found if isinstance(found, list) else [found]
    return rows if rows and all(isinstance(row, dict) for row in rows) else None
