"""Dates, timestamps and intervals, in UTC."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.expressions import calendars
from skyband.expressions.casts import DAY, cast
from skyband.expressions.nodes import Data, Node, Value, fail, from_numpy, node, to_numpy
from skyband.expressions.registry import constant, function, mismatch
from skyband.expressions.types import (
    DATE,
    NTZ,
    STRING,
    TIMESTAMP,
    is_datetime,
    is_integral,
)

__all__ = ["map_days", "move_days"]

_INT, _LONG = pa.int32(), pa.int64()
_SECOND = 1_000_000


def _map(kind: pa.DataType, compute: Callable[[Any], Any], arg: Node) -> Node:
    def run(data: Data) -> Data:
        numbers, valid = to_numpy(data)
        return from_numpy(compute(numbers.astype(np.int64)), valid, kind, data)

    return node(kind, run, arg)


def _date(name: str, arg: Node) -> Node:
    if not is_datetime(arg.type) and not pa.types.is_null(arg.type):
        raise mismatch(name, [arg], "takes a date or a timestamp in process")
    return cast(arg, DATE)


def _field(names: str, compute: Callable[[Any], Any]) -> None:
    name = names.split(maxsplit=1)[0]
    usage = ", ".join(f"{word}(a)" for word in names.split())
    function("dates and times", names, usage, 1)(lambda arg: _map(_INT, compute, _date(name, arg)))


_field("year", lambda days: calendars.month_number(days) // 12 + 1970)
_field("quarter", lambda days: calendars.month_number(days) % 12 // 3 + 1)
_field("month", lambda days: calendars.month_number(days) % 12 + 1)
_field("day dayofmonth", calendars.day_of_month)
_field("dayofweek", lambda days: (days + 4) % 7 + 1)
_field("weekday", lambda days: (days + 3) % 7)
_field("dayofyear", lambda days: days - calendars.start_of_year(days) + 1)
_field("weekofyear", calendars.iso_week)


def _clock(name: str, compute: Callable[[Any], Any]) -> None:
    @function("dates and times", name, f"{name}(a)", 1)
    def _build(arg: Node) -> Node:
        if not is_datetime(arg.type) and not pa.types.is_null(arg.type):
            raise mismatch(name, [arg], "takes a timestamp in process")
        return _map(_INT, compute, arg if arg.type == NTZ else cast(arg, TIMESTAMP))


_clock("hour", lambda micros: micros % DAY // (3_600 * _SECOND))
_clock("minute", lambda micros: micros % (3_600 * _SECOND) // (60 * _SECOND))
_clock("second", lambda micros: micros % (60 * _SECOND) // _SECOND)

_UNITS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": _SECOND,
    "MINUTE": 60 * _SECOND,
    "HOUR": 3_600 * _SECOND,
    "DAY": DAY,
    "DD": DAY,
}
_MONTHS = {"MONTH": 1, "MM": 1, "MON": 1, "QUARTER": 3, "YEAR": 12, "YYYY": 12, "YY": 12}


@function(
    "dates and times",
    "date_trunc",
    "date_trunc('unit', a)",
    2,
    "The unit must be a literal, from `microsecond` to `year`.",
)
def _date_trunc(unit: Node, arg: Node) -> Node:
    name = str(constant("date_trunc", unit, STRING)).upper()
    if not is_datetime(arg.type) and not pa.types.is_null(arg.type):
        raise mismatch("date_trunc", [arg], "takes a timestamp in process")
    if name not in {*_UNITS, *_MONTHS, "WEEK"}:
        known = ", ".join([*_UNITS, "WEEK", *_MONTHS])
        raise mismatch(f"date_trunc({name!r}, …)", [arg], f"the unit must be one of {known}")

    def start(days: Any, rest: Any) -> tuple[Any, Any]:
        if name in _UNITS:
            return days, rest - rest % _UNITS[name]
        if name == "WEEK":
            return days - (days + 3) % 7, 0
        months = calendars.month_number(days)
        return calendars.start_of_month(months - months % _MONTHS[name]), 0

    return map_days(TIMESTAMP, start, cast(arg, TIMESTAMP))


def map_days(kind: pa.DataType, compute: Callable[[Any, Any], tuple[Any, Any]], arg: Node) -> Node:
    """Compute timestamps from days and microseconds of the day. Results at the ends of the range are not supported."""

    def run(data: Data) -> Value:
        micros, valid = to_numpy(data)
        days, rest = compute(micros // DAY, micros % DAY)
        far = np.abs(days) >= (2**63 - 1) // DAY
        found = from_numpy(np.where(far, 0, days) * DAY + rest, valid, kind, data)
        return fail(found, far, "SKYBAND_UNSUPPORTED_VALUE")

    return node(kind, run, arg)


def move_days(name: str, arg: Node, count: Node, sign: int) -> Node:
    """Add or subtract days; as on Spark, days beyond the range of dates wrap around."""
    if not is_integral(count.type) or count.type == _LONG:
        raise mismatch(name, [arg, count], "takes a date and a number of days of type int")

    def run(data: Data, days: Data) -> Data:
        return (pc.add if sign > 0 else pc.subtract)(data.cast(_INT), days).cast(DATE)

    return node(DATE, run, _date(name, arg), cast(count, _INT))


@function("dates and times", "date_add dateadd", "date_add(a, days)", 2)
def _date_add(arg: Node, days: Node) -> Node:
    return move_days("date_add", arg, days, 1)


@function("dates and times", "date_sub", "date_sub(a, days)", 2)
def _date_sub(arg: Node, days: Node) -> Node:
    return move_days("date_sub", arg, days, -1)


@function("dates and times", "datediff date_diff", "datediff(end, start)", 2)
def _datediff(end: Node, start: Node) -> Node:
    return node(
        _INT, lambda a, b: pc.subtract(a.cast(_INT), b.cast(_INT)), _date("datediff", end), _date("datediff", start)
    )


def _cut(micros: Any, unit: int) -> Any:
    return micros // unit + ((micros < 0) & (micros % unit != 0))


def _epoch(names: str, unit: int) -> None:
    name = names.split(maxsplit=1)[0]

    @function("dates and times", names, f"{name}(a)", 1)
    def _build(arg: Node) -> Node:
        allowed = (TIMESTAMP, NTZ, DATE) if name == "unix_timestamp" else (TIMESTAMP, NTZ)
        if arg.type not in allowed:
            raise mismatch(name, [arg], "takes a timestamp in process")
        # Spark's unix_timestamp cuts towards 1970, the others round down.
        towards_0 = name == "unix_timestamp"
        return _map(_LONG, lambda micros: _cut(micros, unit) if towards_0 else micros // unit, cast(arg, TIMESTAMP))


_epoch("unix_timestamp to_unix_timestamp", _SECOND)
_epoch("unix_seconds", _SECOND)
_epoch("unix_millis", 1_000)
_epoch("unix_micros", 1)


def _from_epoch(name: str, unit: int) -> None:
    @function("dates and times", name, f"{name}(a)", 1)
    def _build(arg: Node) -> Node:
        if not is_integral(arg.type):
            raise mismatch(name, [arg], "takes a whole number in process")

        def run(data: Data) -> Value:
            numbers, valid = to_numpy(data)
            bad = np.abs(numbers.astype(np.float64)) > 2.0**63 / unit if unit > 1 else np.zeros(1, np.bool_)
            limit = (2**63 - 1) // unit
            bad = (numbers > limit) | (numbers < -limit) if unit > 1 else bad
            return fail(from_numpy(np.where(bad, 0, numbers) * unit, valid, TIMESTAMP, data), bad, "DATETIME_OVERFLOW")

        return node(TIMESTAMP, run, cast(arg, _LONG))


_from_epoch("timestamp_seconds", _SECOND)
_from_epoch("timestamp_millis", 1_000)
_from_epoch("timestamp_micros", 1)


@function("dates and times", "to_date", "to_date(a)", 1, "Without a format.")
def _to_date(arg: Node) -> Node:
    if arg.type != STRING:
        return _date("to_date", arg)
    return cast(arg, DATE)


@function("dates and times", "to_timestamp", "to_timestamp(a)", 1, "Without a format.")
def _to_timestamp(arg: Node) -> Node:
    if arg.type not in (STRING, DATE, TIMESTAMP, NTZ, pa.null()):
        raise mismatch("to_timestamp", [arg], "takes a string, a date or a timestamp in process")
    return cast(arg, TIMESTAMP)
