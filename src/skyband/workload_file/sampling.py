"""Looking at data: the first megabyte tells the columns, a few megabytes of all files the order of the times."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from skyband.connectors.file_formats import Format
from skyband.errors import InvalidInputError
from skyband.workload_file.data_files import DataFiles, find_files, head_of, options_for, table_of, with_partition
from skyband.workload_file.time_columns import Clock, clock_of, looks_like_time, order_of

__all__ = ["DataSample", "sample_of"]
_TRIED = 40  # files that are searched for a row


@dataclass(frozen=True, kw_only=True)
class DataSample:
    """A description of a data file, enough to write a first workload file for it.

    Parameters
    ----------
    path, format
        Where the data is, as the workload file is to name it, and how it is written.
    columns
        Names and kinds in order; a kind is ``"timestamp"``, ``"number"``, ``"integer"``, ``"text"``, ``"boolean"`` or
        something else.
    time, time_format
        The column with the event time, and how to read it if it is no timestamp.
    first, last
        The earliest and the latest time, if known.
    behind, looked_at
        How far a row comes behind the newest before it, at most; and in which rows that was seen.
    distinct
        For text columns, how many different values were seen.
    rows
        In how many rows that was.
    options
        What Spark's reader must be told.

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
    options: Mapping[str, str] = field(default_factory=dict)


def sample_of(path: str | os.PathLike[str], besides: Sequence[Path] = ()) -> DataSample:
    r"""Look at a CSV, JSON or Parquet file, or at a folder of them; a glob will do, too.

    `besides` are files that will be among them and are no data. Raises InvalidInputError if there is no such file, or
    no column that tells the time.

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
    # A part may be empty; what is named alone must not be.
    tried = [file for file in found.files[:_TRIED] if len(found.files) == 1 or file.stat().st_size]
    for file in tried or found.files[:1]:
        table, options = _first_rows(found, file)
        if table.num_rows:
            break
    else:
        raise InvalidInputError(f"{found.files[0]} has no rows; there is nothing to tell its columns by.")
    columns = [(name, _kind(table.schema.field(number).type)) for number, name in enumerate(table.column_names)]
    time, clock = _find_time(file, columns, table)
    distinct = {
        name: len(table.column(number).unique())
        for number, (name, kind_of) in enumerate(columns)
        if kind_of == "text" and name != time
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
        options=options,
    )


def _first_rows(found: DataFiles, file: Path) -> tuple[Any, dict[str, str]]:
    """The first rows of a file as an Arrow table, and the options that Spark needs to read it."""
    try:
        head = head_of(file)[0] if found.format != "parquet" else b""
        options = {**found.options, **options_for(file, found.format, head)}
        return with_partition(table_of(file, found.format, head, options), found.partition_of(file)), options
    except (OSError, ValueError) as error:  # Arrow's errors are ValueErrors
        raise InvalidInputError(f"{file} cannot be read as {found.format}: {_first_line(error)}") from error


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


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".") + "."
