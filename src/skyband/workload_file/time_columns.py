"""Time columns in data: detect the column and its format, parse values, and measure how far times go backwards.

Times going backwards, in the order in which a stream reads the data, are what a watermark must cover.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from skyband.durations import format_duration, parse_duration
from skyband.workload_file.avro_files import avro_head
from skyband.workload_file.data_files import PIECE, DataFiles, pieces_of, table_of

__all__ = ["Clock", "TimeOrder", "clock_of", "looks_like_time", "moment", "order_of", "rounded", "watermark_for"]

_NAMED = re.compile(
    r"(^|[^a-z])(time|ts|timestamp|date|datetime|epoch|when|at|utc)([^a-z]|$)|time$|timestamp|date$|^time|epoch",
    re.IGNORECASE,
)
_TEXT = re.compile(
    r"\d{4}(?P<dash>[-/])\d{2}[-/]\d{2}"
    r"(?:(?P<gap>[ T])\d{2}:\d{2}(?P<seconds>:\d{2}(?P<fraction>\.\d{1,9})?)?(?P<zone>Z|[+-]\d{2}(?::?\d{2})?)?)?"
)
# Years 1973 to 2286. The ranges do not overlap, so the unit is unique.
_UNITS = (("seconds", 10**8, 10**10), ("milliseconds", 10**11, 10**13), ("microseconds", 10**14, 10**16))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ENOUGH = 1000  # values that are inspected
_BUDGET = 4_000_000  # bytes that are read, of all files together
_FILES = 40  # files that are read, half of them at each end of the order
_GROUPS = 16  # row groups of a Parquet file that are read
_ROWS = 20_000  # of each
_HEADROOM = 1.5
_NICE = (
    *("10 seconds", "15 seconds", "30 seconds", "1 minute", "2 minutes", "5 minutes", "10 minutes", "15 minutes"),
    *("30 minutes", "1 hour", "2 hours", "3 hours", "6 hours", "12 hours", "1 day", "2 days", "3 days", "7 days"),
    *("14 days", "30 days", "60 days", "90 days", "180 days", "365 days"),
)


class Clock(NamedTuple):
    """Format of a time column; None for timestamps."""

    format: str | None


def looks_like_time(name: str) -> bool:
    """Whether a column has the name of a time column.

    >>> [name for name in ("ts", "pickup_datetime", "Date", "created_at", "price", "data") if looks_like_time(name)]
    ['ts', 'pickup_datetime', 'Date', 'created_at']
    """
    return _NAMED.search(name) is not None


def clock_of(name: str, kind: str, values: Sequence[Any]) -> Clock | None:
    """Detect the time format of a column; None if it is not a time column.

    >>> clock_of("ts", "text", ["2024-01-01 09:30", "2024-01-01 09:31"])
    Clock(format='yyyy-MM-dd HH:mm')
    >>> clock_of("epoch", "integer", [1704101400]), clock_of("volume", "integer", [1704101400])
    (Clock(format='seconds'), None)
    """
    seen = [value for value in values[:_ENOUGH] if value is not None and value != ""]
    if kind == "timestamp":
        return Clock(None)
    if kind == "date":
        return Clock("yyyy-MM-dd")
    if not seen:
        return None
    if kind == "text":
        found = [_TEXT.fullmatch(str(value).strip()) for value in seen]
        read = [match for match in found if match is not None]
        return Clock(_pattern(read)) if len(read) == len(found) else None
    if kind == "integer" and looks_like_time(name):
        for unit, least, most in _UNITS:
            if all(least <= value < most for value in seen):
                return Clock(unit)
    return None


def moment(value: Any, clock: Clock) -> datetime | None:
    """Parse a value as a time; None if it cannot be parsed.

    >>> moment(1704101400, Clock("seconds")).isoformat()
    '2024-01-01T09:30:00+00:00'
    """
    try:
        if isinstance(value, datetime):
            return value if value.tzinfo else value.replace(tzinfo=UTC)
        if clock.format in ("seconds", "milliseconds", "microseconds"):
            return _EPOCH + timedelta(**{clock.format: int(value)})
        read = datetime.fromisoformat(str(value).strip().replace("/", "-"))
    except (ValueError, OverflowError, TypeError):
        return None
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def _pattern(found: Sequence[re.Match[str]]) -> str:
    """Spark's pattern for matched texts; a part that only some of them have is in brackets."""
    dash = found[0]["dash"]
    date = f"yyyy{dash}MM{dash}dd"
    timed = [match for match in found if match["gap"]]
    if not timed:
        return date
    gaps = {match["gap"] for match in timed}
    gap = "[ ]['T']" if len(gaps) > 1 else " " if gaps == {" "} else "'T'"
    seconds = _part(":ss", [match["seconds"] for match in timed])
    fraction = "[.SSSSSSSSS]" if any(match["fraction"] for match in timed) else ""  # any number of digits up to nine
    zones = [match["zone"] for match in timed]
    widths = {3 if ":" in zone or zone == "Z" else 2 if len(zone) > 3 else 1 for zone in zones if zone}
    marks = ["X" * width for width in sorted(widths, reverse=True)]
    zone = "".join(f"[{mark}]" for mark in marks) if len(marks) > 1 else _part("".join(marks), zones)
    return date + _part(f"{gap}HH:mm{seconds}{fraction}{zone}", [match["gap"] for match in found])


def _part(pattern: str, there: Sequence[str | None]) -> str:
    return pattern if all(there) else f"[{pattern}]" if any(there) else ""


@dataclass(frozen=True)
class TimeOrder:
    """Times in inspected rows: earliest, latest, and by how much a row was older than an earlier row at most."""

    first: datetime | None = None
    last: datetime | None = None
    behind: timedelta = timedelta(0)
    rows: int = 0
    files: int = 1
    whole: bool = True  # every row was inspected
    of_files: int = 1  # number of all files

    @property
    def looked_at(self) -> str:
        """The inspected rows, in words.

        >>> TimeOrder(rows=3000).looked_at, TimeOrder(rows=9, files=40, of_files=90, whole=False).looked_at
        ('all 3,000 rows', '9 rows from parts of 40 of the 90 files, ordered by modification time')
        """
        order = ", ordered by modification time" if self.of_files > 1 else ""
        if self.whole:
            return f"all {self.rows:,} rows" + (f" of {self.files} files" if self.files > 1 else "") + order
        if self.of_files == 1:
            return f"{self.rows:,} rows from parts of the file"
        some = f"{self.files} of the {self.of_files:,}" if self.files < self.of_files else f"the {self.of_files}"
        return f"{self.rows:,} rows from parts of {some} files{order}"


def order_of(found: DataFiles, time: str, clock: Clock, options: Mapping[str, str]) -> TimeOrder:
    """Measure the order of times in some files, from first to last, reading a few megabytes at most."""
    files = found.files if len(found.files) <= _FILES else found.files[: _FILES // 2] + found.files[-_FILES // 2 :]
    first = last = None
    behind, rows, whole = timedelta(0), 0, len(files) == len(found.files)
    for file in files:
        for at, is_row in _times_in(found, file, time, clock, max(PIECE, _BUDGET // len(files)), options):
            rows += is_row
            if at is None:
                whole = False
            elif first is None or last is None:
                first = last = at
            else:
                first, behind, last = min(first, at), max(behind, last - at), max(last, at)
    return TimeOrder(first, last, behind, rows, len(files), whole, len(found.files))


def watermark_for(behind: timedelta) -> str:
    """Return a watermark of at least 1.5 times the measured disorder, and not shorter than the default.

    >>> watermark_for(timedelta(seconds=42)), watermark_for(timedelta(0)), watermark_for(timedelta(days=1000))
    ('2 minutes', '10 seconds', '1500 days')
    """
    wanted = int(behind / timedelta(microseconds=1) * _HEADROOM)
    for nice in _NICE:
        if wanted <= parse_duration(nice, field="watermark"):
            return nice
    return f"{-(-wanted // 86_400_000_000)} days"


def rounded(gap: timedelta) -> str:
    """Format a duration in its two largest units.

    >>> rounded(timedelta(days=1, hours=2, minutes=3)), rounded(timedelta(seconds=42)), rounded(timedelta(0))
    ('1 day 2 hours', '42 seconds', '0 seconds')
    """
    words = format_duration(int(gap / timedelta(microseconds=1))).split()
    return " ".join(words[:4])


def _times_in(
    found: DataFiles, file: Path, time: str, clock: Clock, budget: int, options: Mapping[str, str]
) -> Iterator[tuple[datetime | None, bool]]:
    """Yield the times of a file in order, each with whether it counts as a row; None for each part not read."""
    try:
        partition = found.partition_of(file)
        if time in partition:  # one value for all rows of the file
            yield moment(partition[time], clock), True
        elif found.format == "parquet":
            yield from _in_parquet(file, time, clock)
        elif found.format == "avro":
            yield from _in_avro(file, time, clock)
        else:
            yield from _in_text(found, file, time, clock, budget, options)
    except (OSError, ValueError, KeyError):  # cut in the middle of a value, or another kind of file
        yield None, False


def _in_text(
    found: DataFiles, file: Path, time: str, clock: Clock, budget: int, options: Mapping[str, str]
) -> Iterator[tuple[datetime | None, bool]]:
    blocks, whole = ([b""], True) if "multiLine" in options else pieces_of(file, budget)
    names: list[str] | None = None
    for block in blocks:
        try:
            table = table_of(file, found.format, block, options, names)
        except ValueError:
            yield None, False
            continue
        if found.format == "csv":
            names = names or table.column_names
        for value in table.column(time).to_pylist():
            at = None if value is None else moment(value, clock)
            if at is not None:
                yield at, True
    if not whole:
        yield None, False


def _in_parquet(file: Path, time: str, clock: Clock) -> Iterator[tuple[datetime | None, bool]]:
    """Yield the minimum of each row group, rows of some groups, and the maximum, to compare later rows with it."""
    from pyarrow import parquet  # noqa: PLC0415 - loaded when data is read

    with parquet.ParquetFile(file) as opened:
        count = opened.metadata.num_row_groups
        looked = {number * (count - 1) // max(1, min(count, _GROUPS) - 1) for number in range(min(count, _GROUPS))}
        for number in range(count):
            least, greatest = _ends(opened.metadata.row_group(number), time, clock)
            if least is not None:
                yield least, False
            if number in looked:
                batch = next(opened.iter_batches(batch_size=_ROWS, row_groups=[number], columns=[time]), None)
                for value in batch.column(0).to_pylist() if batch is not None else ():
                    at = None if value is None else moment(value, clock)
                    if at is not None:
                        yield at, True
            if number not in looked or opened.metadata.row_group(number).num_rows > _ROWS:
                yield None, False
            if greatest is not None:
                yield greatest, False


def _in_avro(file: Path, time: str, clock: Clock) -> Iterator[tuple[datetime | None, bool]]:
    """Yield the times of the first rows."""
    rows = avro_head(file, _ROWS)
    for value in rows[time].to_pylist():
        at = None if value is None else moment(value, clock)
        if at is not None:
            yield at, True
    if rows.num_rows == _ROWS:
        yield None, False


def _ends(group: Any, time: str, clock: Clock) -> tuple[datetime | None, datetime | None]:
    for number in range(group.num_columns):
        column = group.column(number)
        if column.path_in_schema == time and column.statistics is not None and column.statistics.has_min_max:
            return moment(column.statistics.min, clock), moment(column.statistics.max, clock)
    return None, None
