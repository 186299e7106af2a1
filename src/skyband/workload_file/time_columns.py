"""Finding the time in data: columns that hold it, how they are written, and what moment a value is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

__all__ = ["Clock", "clock_of", "looks_like_time", "moment"]

_NAMED = re.compile(
    r"(^|[^a-z])(time|ts|timestamp|date|datetime|epoch|when|at|utc)([^a-z]|$)|time$|timestamp|date$|^time|epoch",
    re.IGNORECASE,
)
_TEXT = re.compile(
    r"\d{4}(?P<dash>[-/])\d{2}[-/]\d{2}"
    r"(?:(?P<gap>[ T])\d{2}:\d{2}(?P<seconds>:\d{2}(?P<fraction>\.\d{1,9})?)?(?P<zone>Z|[+-]\d{2}:?\d{2})?)?"
)
# Years 1973 to 2286; the units are so far apart that no number fits two of them.
_UNITS = (("seconds", 10**8, 10**10), ("milliseconds", 10**11, 10**13), ("microseconds", 10**14, 10**16))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ENOUGH = 1000  # values that are looked at


class Clock(NamedTuple):
    """How a column tells the time; the format is None where its type says it all."""

    format: str | None


def looks_like_time(name: str) -> bool:
    """Whether a column is named like one that holds times.

    >>> [name for name in ("ts", "pickup_datetime", "Date", "created_at", "price", "data") if looks_like_time(name)]
    ['ts', 'pickup_datetime', 'Date', 'created_at']
    """
    return _NAMED.search(name) is not None


def clock_of(name: str, kind: str, values: Sequence[Any]) -> Clock | None:
    """How a column tells the time, or None if it does not.

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
    """The moment a value stands for; None if it stands for none.

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
    """Spark's pattern for texts of one kind; a part that only some have is in brackets."""
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
    colons = {":" in zone or zone == "Z" for zone in zones if zone}
    zone = "[XXX][XX]" if len(colons) > 1 else _part("XXX" if True in colons else "XX", zones)
    return date + _part(f"{gap}HH:mm{seconds}{fraction}{zone}", [match["gap"] for match in found])


def _part(pattern: str, there: Sequence[str | None]) -> str:
    return pattern if all(there) else f"[{pattern}]" if any(there) else ""
