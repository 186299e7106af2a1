"""Durations as text and as whole microseconds: "1 hour 30 minutes", "1h 30m" or "PT1H30M" ⇄ 5_400_000_000.

The long form is Spark's interval text. `format_duration` and error messages use it.
"""

from __future__ import annotations

import re
from datetime import timedelta
from difflib import get_close_matches
from fractions import Fraction

from skyband.errors import InvalidQueryError

_MICROSECONDS = {
    "week": 604_800_000_000,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
# Short units as in Flink, Prometheus and Go. `m` is a minute, not a month.
_SHORT = {
    "w": "week",
    "d": "day",
    "h": "hour",
    "hr": "hour",
    "hrs": "hour",
    "m": "minute",
    "min": "minute",
    "mins": "minute",
    "s": "second",
    "sec": "second",
    "secs": "second",
    "ms": "millisecond",
    "milli": "millisecond",
    "millis": "millisecond",
    "us": "microsecond",
    "micro": "microsecond",
    "micros": "microsecond",
}
_TOO_FINE = "it is not a whole number of microseconds"
_NO_FIXED_LENGTH = ("month", "year", "quarter")
# ISO 8601: P3W, P1DT2H, PT0.5S. Months and years are parsed to name them in the error.
_ISO = re.compile(
    r"P(?!$)(?:(?P<year>\d+)Y)?(?:(?P<month>\d+)M)?(?:(?P<week>\d+)W)?(?:(?P<day>\d+)D)?"
    r"(?:T(?=\d)(?:(?P<hour>\d+)H)?(?:(?P<minute>\d+)M)?(?:(?P<second>\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)
_TERM = re.compile(r"\s*([+-]?\d{1,30}(?:\.\d{1,30})?)\s*([A-Za-z]+)\s*")


def parse_duration(value: str | timedelta, *, field: str) -> int:
    """Parse a duration as microseconds; `field` is the name of the field in error messages.

    >>> [parse_duration(text, field="size") for text in ("1 hour 30 minutes", "1h 30m", "PT1H30M")]
    [5400000000, 5400000000, 5400000000]
    """
    if isinstance(value, timedelta):
        if getattr(value, "nanoseconds", 0):  # pandas timedeltas are finer
            raise _unreadable(value, field, _TOO_FINE)
        return (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
    text = value.strip()
    if text.lower().startswith("interval "):
        text = text[len("interval ") :]
    total, at = Fraction(0), 0
    if iso := _ISO.fullmatch(text):
        text = " ".join(f"{amount} {unit}" for unit, amount in iso.groupdict().items() if amount)
    while at < len(text):
        term = _TERM.match(text, at)
        if term is None:
            raise _unreadable(value, field, f"expected '<number> <unit>' at {text[at:]!r}")
        total += Fraction(term[1]) * _unit(value, field, term[2])
        at = term.end()
    if not text:
        raise _unreadable(value, field, "it is empty")
    if total.denominator != 1:
        raise _unreadable(value, field, _TOO_FINE)
    return int(total)


def parse_past(value: str) -> int:
    """Parse how much of its past a query reads (`since`), as microseconds.

    >>> parse_past("1 hour")
    3600000000
    """
    past = parse_duration(value, field="since")
    if past < 0:
        raise InvalidQueryError(
            f"since must not be negative, got {value!r}: it is how far before now the windows of the query begin."
        )
    return past


def is_iso_duration(text: str) -> bool:
    """Whether the text is an ISO 8601 duration.

    >>> is_iso_duration("PT5M"), is_iso_duration("price")
    (True, False)
    """
    return _ISO.fullmatch(text) is not None


def format_duration(microseconds: int) -> str:
    """Return microseconds as interval text that `parse_duration` accepts.

    >>> format_duration(5_400_000_000)
    '1 hour 30 minutes'
    """
    parts, rest = [], microseconds
    for unit, length in _MICROSECONDS.items():
        if unit == "week":  # 90 days, not 12 weeks 6 days
            continue
        amount, rest = divmod(rest, length)
        if amount:
            parts.append(f"{amount} {unit}{'' if amount == 1 else 's'}")
    return " ".join(parts) or "0 seconds"


def _unit(value: str, field: str, name: str) -> int:
    unit = name.lower()
    singular = unit[:-1] if unit.endswith("s") and unit[:-1] in _MICROSECONDS else _SHORT.get(unit, unit)
    if singular in _MICROSECONDS:
        return _MICROSECONDS[singular]
    if singular.rstrip("s") in _NO_FIXED_LENGTH:
        raise _unreadable(
            value, field, f"a {singular.rstrip('s')} has no fixed length. Use days, or add zone= to a query"
        )
    near = next(iter(get_close_matches(unit, _MICROSECONDS, n=1)), None)
    hint = f"did you mean {near + 's'!r}?" if near else f"the units are {', '.join(_MICROSECONDS)}"
    raise _unreadable(value, field, f"unit {name!r} is unknown; {hint}")


def _unreadable(value: str | timedelta, field: str, why: str) -> InvalidQueryError:
    stop = "" if why.endswith("?") else "."
    return InvalidQueryError(
        f"{field}={value!r} is not a duration: {why}{stop} Write '10 minutes', '1 hour 30 minutes' or "
        "'500 milliseconds'; an integer makes a count window."
    )
