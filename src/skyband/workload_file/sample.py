"""What is known about some data before anything runs: its columns, and where its time is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from skyband.connectors.file_formats import Format

__all__ = ["DataSample"]


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
