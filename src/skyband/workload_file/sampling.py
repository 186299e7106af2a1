"""Inspect data: columns from the first megabyte, the order of times from a few megabytes of all files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from skyband.connectors.file_formats import Format, is_blocked
from skyband.errors import InvalidInputError
from skyband.workload_file.avro_files import avro_rows
from skyband.workload_file.data_files import DataFiles, find_files, head_of, options_for, table_of, with_partition
from skyband.workload_file.time_columns import Clock, clock_of, looks_like_time, order_of

__all__ = ["DataSample", "kind_of", "sample_of"]
_TRIED = 40  # files that are searched for a row


@dataclass(frozen=True, kw_only=True)
class DataSample:
    """Description of data for which `starter` writes a workload file.

    Parameters
    ----------
    path, format
        The path for the workload file, and the file format.
    columns
        Names and kinds in order. A kind is ``"timestamp"``, ``"number"``, ``"integer"``, ``"text"``, ``"boolean"`` or
        another type name.
    time, time_format
        The column with the event time, and its format if it is not a timestamp.
    first, last
        The earliest and the latest time, if known.
    behind, looked_at
        The maximum time by which a row is older than an earlier row, and the rows that were inspected for it.
    distinct
        The number of distinct values of each text and integer column.
    rows
        The number of rows inspected for `distinct`.
    total
        The approximate number of all rows, if known.
    options
        Options for Spark's reader.
    source
        The source of the stream, ``"files"``, ``"delta"``, or ``"kafka"``: a topic whose schema is in the file `path`.

    >>> DataSample(path="t.csv", format="csv", columns=[("ts", "timestamp"), ("price", "number")], time="ts").time
    'ts'
    """

    path: str
    format: Format
    columns: list[tuple[str, str]]
    time: str
    time_format: str | None = None
    first: datetime | None = None
    last: datetime | None = None
    behind: timedelta = timedelta(0)
    looked_at: str = ""
    distinct: Mapping[str, int] = field(default_factory=dict)
    rows: int = 0
    total: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    source: str = "files"


def sample_of(path: str | os.PathLike[str], besides: Sequence[Path] = ()) -> DataSample:
    r"""Inspect a CSV, JSON, Parquet or Avro file, a folder of them, a glob, or a Delta table.

    `besides` lists files that will be in the folder and are not data. Raises InvalidInputError if there is no such
    file, or no time column.

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
    found = find_files(path, besides)
    kind = found.format
    # One of several files can be empty; a single file must not be.
    tried = [file for file in found.files[:_TRIED] if len(found.files) == 1 or file.stat().st_size]
    for file in tried or found.files[:1]:
        table, options = _first_rows(found, file)
        if table.num_rows:
            break
    else:
        raise InvalidInputError(f"{found.files[0]} has no rows, so its columns are unknown.")
    columns = [(name, kind_of(table.schema.field(number).type)) for number, name in enumerate(table.column_names)]
    time, clock = _find_time(file, columns, table)
    distinct = {
        name: len(table.column(number).unique())
        for number, (name, type_) in enumerate(columns)
        if type_ in ("text", "integer") and name != time
    }
    parts = [found.partition_of(one) for one in found.files]
    distinct |= {name: len({part[name] for part in parts}) for name in parts[0] if name in distinct}
    order = order_of(found, time, clock, options)
    return DataSample(
        path=found.path,
        format=kind,
        columns=columns,
        time=time,
        time_format=clock.format,
        first=order.first,
        last=order.last,
        behind=order.behind,
        looked_at=order.looked_at,
        distinct=distinct,
        rows=table.num_rows,
        total=_total(found, file, table.num_rows),
        options=options,
        source=found.source,
    )


def _total(found: DataFiles, sample: Path, rows: int) -> int:
    """Return the number of rows in all files: exact for Parquet and Avro, else by the size of the files."""
    from pyarrow import parquet  # noqa: PLC0415

    if found.format == "parquet":
        try:
            return sum(int(parquet.read_metadata(one).num_rows) for one in found.files[:_TRIED])
        except (OSError, ValueError):
            return rows
    if found.format == "avro":
        try:
            return sum(map(avro_rows, found.files[:_TRIED]))
        except (OSError, ValueError):
            return rows
    read = min(sample.stat().st_size, len(head_of(sample)[0])) or 1
    return round(rows * sum(one.stat().st_size for one in found.files) / read)


def _first_rows(found: DataFiles, file: Path) -> tuple[Any, dict[str, str]]:
    """Return the first rows of a file as an Arrow table, and the options for Spark's reader."""
    try:
        head = head_of(file)[0] if not is_blocked(found.format) else b""
        options = {**found.options, **options_for(file, found.format, head)}
        return with_partition(table_of(file, found.format, head, options), found.partition_of(file)), options
    except (OSError, ValueError) as error:  # Arrow's errors are ValueErrors
        raise InvalidInputError(f"{file} cannot be read as {found.format}: {_first_line(error)}") from error


def kind_of(kind: Any) -> str:
    """Return the kind of a column with an Arrow type."""
    from pyarrow import types  # noqa: PLC0415

    if types.is_dictionary(kind):
        return kind_of(kind.value_type)
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
    """Choose the column with the event time: first by its name, then timestamps before text and numbers."""
    names = [name.lower() for name, _ in columns]
    found = []
    for number, (name, kind) in enumerate(columns):
        if not name.strip() or names.count(name.lower()) > 1:
            continue  # Spark renames such columns
        clock = clock_of(name, kind, table.column(number).slice(0, 1000).to_pylist())
        if clock is not None:
            found.append((not looks_like_time(name), clock.format is not None, kind == "date", number, name, clock))
    if not found:
        listed = ", ".join(f"{name} ({kind})" for name, kind in columns)
        raise InvalidInputError(
            f"{file} has no time column. A time column contains timestamps, text such as 2024-01-01 09:30:00, or "
            "seconds, milliseconds or microseconds since 1970 under a name like time, ts, date or epoch. "
            f"Columns: {listed}."
        )
    best = min(found)
    return best[4], best[5]


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".") + "."
