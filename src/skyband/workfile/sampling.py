"""Looking at a data file: the first megabyte, the last lines, and no more."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from skyband.errors import InvalidInputError
from skyband.workfile.clock import Clock, clock_of, looks_like_time, moment
from skyband.workfile.model import Format
from skyband.workfile.paths import format_of
from skyband.workfile.sample import DataSample

__all__ = ["sample_of"]

BLOCK = 1_000_000  # bytes looked at
_TAIL = 65_536
_ROWS = 20_000


def sample_of(path: str | os.PathLike[str]) -> DataSample:
    r"""Look at a CSV, JSON-lines or Parquet file, or at the first such file of a folder.

    Raises InvalidInputError if there is no such file, or no column that tells the time.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "trades.csv")
    ...     _ = file.write_text("ts,price\n2024-01-01 09:30:00,9.5\n2024-01-01 09:45:00,9.7\n")
    ...     sample = sample_of(file)
    >>> sample.columns, sample.time_format
    ([('ts', 'text'), ('price', 'number')], 'yyyy-MM-dd HH:mm:ss')
    >>> print(sample.last - sample.first)
    0:15:00
    """
    files, kind = _files(Path(path))
    options: dict[str, str] = {}
    try:
        if kind == "csv":
            options = _separator(_head(files[0]))
        table = _table(files[0], kind, _head(files[0]) if kind != "parquet" else b"", options)
    except (OSError, ValueError) as error:  # Arrow's errors are ValueErrors
        raise InvalidInputError(f"{files[0]} cannot be read as {kind}: {_first_line(error)}") from error
    columns = [(name, _kind(table.schema.field(number).type)) for number, name in enumerate(table.column_names)]
    if not table.num_rows:
        raise InvalidInputError(f"{files[0]} has no rows; there is nothing to tell its columns by.")
    time, clock = _find_time(files[0], columns, table)
    times = list(_times(table, time, clock))
    times += _last_times(files[-1], kind, table.column_names, time, clock, options)
    return DataSample(
        path=str(path),
        format=kind,
        columns=columns,
        time=time,
        time_format=clock.format,
        first=min(times, default=None),
        last=max(times, default=None),
        distinct={
            name: len(table.column(number).unique())
            for number, (name, found) in enumerate(columns)
            if found == "text" and name != time
        },
        rows=table.num_rows,
        options=options,
    )


def _files(path: Path) -> tuple[list[Path], Format]:
    """The data files at a path, in order, and their format: that of the first."""
    if path.is_dir():
        found = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith((".", "_")))
        found = [file for file in found if format_of(file.name)]
        if not found:
            raise InvalidInputError(f"{path} has no csv, json, jsonl or parquet files in it.")
    elif path.is_file():
        found = [path]
    else:
        raise InvalidInputError(f"{path} is not there; give a data file or a folder of them.")
    kind = format_of(found[0].name)
    if kind is None:
        raise InvalidInputError(f"the ending of {path} does not tell its format; use .csv, .json, .jsonl or .parquet.")
    return [file for file in found if format_of(file.name) == kind], kind


def _head(file: Path) -> bytes:
    """The first block of a file, unpacked, up to the end of a line."""
    import pyarrow as pa  # noqa: PLC0415 - loaded when data is looked at

    with pa.input_stream(str(file), compression="detect") as stream:
        block: bytes = stream.read(BLOCK)
    return block if len(block) < BLOCK or b"\n" not in block else block[: block.rindex(b"\n") + 1]


def _separator(block: bytes) -> dict[str, str]:
    """The option for a header that has another separator than the comma."""
    header = block.split(b"\n", 1)[0].decode("utf-8", "replace")
    best = max(",;\t|", key=header.count)
    return {"sep": best} if best != "," and header.count(best) > header.count(",") else {}


def _table(file: Path, kind: Format, block: bytes, options: dict[str, str], names: Sequence[str] | None = None) -> Any:
    """Rows of a block as an Arrow table; times that are text stay text, so that it can be seen how they are written."""
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import csv, parquet  # noqa: PLC0415

    if kind == "parquet":
        with parquet.ParquetFile(file) as opened:
            first = next(opened.iter_batches(batch_size=_ROWS), None)
            return pa.Table.from_batches([] if first is None else [first], schema=opened.schema_arrow)
    if kind == "json":
        rows = [json.loads(line) for line in block.splitlines() if line.strip()]
        if not all(isinstance(row, dict) for row in rows):
            raise ValueError("a line is no JSON object; Spark reads one object a line")
        return pa.Table.from_pylist(rows, schema=None) if rows else pa.table({})
    return csv.read_csv(
        io.BytesIO(block),
        read_options=csv.ReadOptions(block_size=2 * BLOCK, column_names=names),
        parse_options=csv.ParseOptions(
            delimiter=options.get("sep", ","), newlines_in_values=True, invalid_row_handler=lambda row: "skip"
        ),
        convert_options=csv.ConvertOptions(timestamp_parsers=["never"]),
    )


def _kind(kind: Any) -> str:
    from pyarrow import types  # noqa: PLC0415

    if types.is_dictionary(kind):
        return _kind(kind.value_type)
    for name, fits in (
        ("timestamp", types.is_timestamp),
        ("date", types.is_date),
        ("integer", types.is_integer),
        ("number", types.is_floating),
        ("number", types.is_decimal),
        ("boolean", types.is_boolean),
        ("text", types.is_string),
        ("text", types.is_large_string),
    ):
        if fits(kind):
            return name
    return str(kind)


def _find_time(file: Path, columns: list[tuple[str, str]], table: Any) -> tuple[str, Clock]:
    """The best column for the event time: one that is named so first, a real timestamp before text and numbers."""
    names = [name.lower() for name, _ in columns]
    found = []
    for number, (name, kind) in enumerate(columns):
        if not name.strip() or names.count(name.lower()) > 1:
            continue  # Spark calls such columns by names of its own
        clock = clock_of(name, kind, table.column(number).slice(0, 1000).to_pylist())
        if clock is not None:
            found.append((not looks_like_time(name), clock.format is not None, kind == "date", number, name, clock))
    if not found:
        listed = ", ".join(f"{name} ({kind})" for name, kind in columns)
        raise InvalidInputError(
            f"{file} has no column that tells the time. Times are timestamps, text such as 2024-01-01 09:30:00, or "
            "seconds, milliseconds or microseconds since 1970 in a column that is named like time, ts, date or epoch. "
            f"Columns: {listed}."
        )
    best = min(found)
    return best[4], best[5]


def _times(table: Any, time: str, clock: Clock) -> Iterator[datetime]:
    for value in table.column(time).to_pylist():
        found = None if value is None else moment(value, clock)
        if found is not None:
            yield found


def _last_times(
    file: Path, kind: Format, names: Sequence[str], time: str, clock: Clock, options: dict[str, str]
) -> list[datetime]:
    """The times in the last lines of a file, which are usually the latest; none where they cannot be seen cheaply."""
    try:
        if kind == "parquet":
            return _statistics(file, time, clock)
        with file.open("rb") as stream:
            size = stream.seek(0, io.SEEK_END)
            stream.seek(max(0, size - _TAIL))
            block = stream.read().partition(b"\n")[2]
        table = _table(file, kind, block, options, None if kind == "json" else names)
        return list(_times(table, time, clock))
    except (OSError, ValueError, KeyError):  # compressed, cut in the middle of a value: then the first rows must do
        return []


def _statistics(file: Path, time: str, clock: Clock) -> list[datetime]:
    from pyarrow import parquet  # noqa: PLC0415

    with parquet.ParquetFile(file) as opened:
        found = opened.metadata
        groups = [found.row_group(number) for number in range(found.num_row_groups)]
        ends = [
            value
            for group in groups
            for part in (group.column(number) for number in range(group.num_columns))
            if part.path_in_schema == time and part.statistics is not None and part.statistics.has_min_max
            for value in (part.statistics.min, part.statistics.max)
        ]
    return [at for value in ends if (at := moment(value, clock)) is not None]


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".") + "."
