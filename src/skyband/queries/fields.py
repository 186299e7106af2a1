"""Validation of query fields, shared by all families."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from numbers import Real
from typing import Any, Literal

from skyband.durations import format_duration, parse_duration
from skyband.errors import InvalidQueryError
from skyband.windows import AXIS_LIMIT, SlidingWindow

__all__ = [
    "Axis",
    "as_number",
    "axis_of",
    "checked_choice",
    "checked_columns",
    "checked_expression",
    "checked_expressions",
    "checked_flag",
    "checked_half_life",
    "checked_k",
    "checked_name",
    "date_and_time",
    "is_integer",
    "same_axis",
    "spelled",
    "split_field",
    "window_of",
]

Axis = Literal["time", "count"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIELD = re.compile(r"(\w+)(?:=| (?=must |is missing))")  # at the beginning of an error message


def axis_of(name: str, value: object) -> Axis:
    """Return the axis that a size or slide of this type is measured on."""
    if isinstance(value, str | timedelta):
        return "time"
    if is_integer(value):
        return "count"
    raise InvalidQueryError(
        f"{name} must be a duration such as '10 minutes', a timedelta, or an integer (a count window), got {value!r} "
        f"of type {type(value).__name__}."
    )


def same_axis(size: object, step: object, called: str) -> Axis:
    """Return the axis of a window's size and step; `called` is the field of the step, such as ``"slide"``."""
    axis = axis_of("size", size)
    if axis_of(called, step) != axis:
        raise InvalidQueryError(
            f"size={size!r} and {called}={step!r} are on different axes (time and count). Give both as durations or "
            "both as integers."
        )
    return axis


def window_of(axis: Axis, size: Any, step: Any, origin: object, called: str = "slide") -> SlidingWindow:
    """Return the windows of a query, in ticks of its axis."""
    if axis == "time":
        return _time_window(size, step, origin, called)
    if origin is not None and not is_integer(origin):
        raise InvalidQueryError(f"origin must be an integer (a sequence number) for count windows, got {origin!r}.")
    if called != "slide" and operator.index(size) >= 1 and not 1 <= operator.index(step) <= operator.index(size):
        raise InvalidQueryError(_unfit_step(called, step, "1", size))
    return SlidingWindow(
        size=operator.index(size),
        slide=operator.index(step),
        origin=0 if origin is None else operator.index(origin),  # type: ignore[arg-type]  # checked just above
    )


def _unfit_step(called: str, step: object, least: str, size: object) -> str:
    return (
        f"{called} must be between {least} and {size!r} (the window size), got {step!r}. "
        "With a longer one, some objects would be in no window."
    )


def _time_window(size: Any, slide: Any, origin: object, called: str) -> SlidingWindow:
    """Return the window in microseconds. Errors show the values as the user wrote them."""
    ticks, step, anchor = parse_duration(size, field="size"), parse_duration(slide, field=called), _time_origin(origin)
    if ticks < 1:
        raise InvalidQueryError(f"size must be at least 1 microsecond, got {size!r}.")
    if not 1 <= step <= ticks:
        raise InvalidQueryError(_unfit_step(called, slide, "1 microsecond", size))
    if ticks >= AXIS_LIMIT or abs(anchor) >= AXIS_LIMIT:
        raise InvalidQueryError(
            f"size={size!r} and origin={origin!r} must be below 2**62 microseconds. "
            "Larger values overflow 64-bit integers."
        )
    return SlidingWindow(size=ticks, slide=step, origin=anchor)


def date_and_time(origin: object, example: str) -> datetime:
    """Return an origin that is a datetime or ISO text. `example` is a time for the message.

    >>> date_and_time("2024-01-01", "2024-01-01T09:30")
    datetime.datetime(2024, 1, 1, 0, 0)
    """
    if isinstance(origin, str):
        try:
            origin = datetime.fromisoformat(origin)
        except ValueError as error:
            raise InvalidQueryError(
                f"origin must be an ISO date or time such as '2024-01-01' or '{example}', got {origin!r}."
            ) from error
    if not isinstance(origin, datetime):
        raise InvalidQueryError(
            f"origin must be a datetime, ISO text or microseconds since 1970, got {origin!r} of type "
            f"{type(origin).__name__}."
        )
    if getattr(origin, "nanosecond", False):  # pandas: finer than a datetime, or NaT
        raise InvalidQueryError(f"origin must be a whole number of microseconds, got {origin!r}.")
    return origin


def _time_origin(origin: object) -> int:
    if origin is None:
        return 0
    if is_integer(origin):
        return operator.index(origin)  # type: ignore[arg-type]  # checked just above
    origin = date_and_time(origin, "2024-01-01T09:30:00+00:00")
    try:
        since = (origin if origin.tzinfo else origin.replace(tzinfo=UTC)) - _EPOCH
    except (OverflowError, ValueError) as error:
        raise InvalidQueryError(f"origin={origin!r} is too far from 1970 for microseconds in 64 bits.") from error
    return parse_duration(since, field="origin")


def split_field(message: str) -> tuple[str, str]:
    """Split the error message of a query into the field it begins with (empty if it names none) and the rest.

    >>> split_field("k must be at least 1, got 0."), split_field("origin='x' is too far from 1970.")
    (('k', 'must be at least 1, got 0.'), ('origin', "'x' is too far from 1970."))
    """
    found = _FIELD.match(message)
    return (found[1], message[found.end() :]) if found else ("", message)


def spelled(axis: Axis, ticks: int) -> str | int:
    """Return ticks of the axis in the form that users write."""
    return format_duration(ticks) if axis == "time" else ticks


def checked_half_life(half_life: Any, axis: Axis) -> str | None:
    """Return a half-life in its usual form."""
    if half_life is None:
        return None
    if axis == "count":
        raise InvalidQueryError(
            f"half_life={half_life!r} needs windows over event time, got a count window. Scores decay with time."
        )
    ticks = parse_duration(half_life, field="half_life")
    if ticks < 1:
        raise InvalidQueryError(f"half_life must be at least 1 microsecond, got {half_life!r}.")
    return format_duration(ticks)


def checked_k(k: object, name: str = "k") -> int:
    """Return k, or another number of things called `name`, as an int."""
    if not is_integer(k):
        raise InvalidQueryError(f"{name} must be an integer, got {k!r} of type {type(k).__name__}.")
    value = operator.index(k)  # type: ignore[arg-type]  # checked just above
    if not 1 <= value < 2**31:
        raise InvalidQueryError(f"{name} must be between 1 and {2**31 - 1}, got {value}.")
    return value


def checked_name(name: object) -> str:
    """Return the name of a query, which identifies it in answers."""
    if not isinstance(name, str) or not name.strip() or any("\ud800" <= letter <= "\udfff" for letter in name):
        raise InvalidQueryError(
            f"name must be non-empty text without surrogates, got {name!r}. It identifies the query in answers."
        )
    return name


def checked_expression(name: str, value: object) -> str | None:
    """Return the SQL expression, or None."""
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise InvalidQueryError(f"{name} must be an SQL expression as text, or None, got {value!r}.")
    return value


def checked_expressions(name: str, value: object) -> str | tuple[str, ...] | None:
    """Return one SQL expression as text, several as a tuple, or None.

    >>> checked_expressions("key", ["team"]), checked_expressions("key", ["team", "player"])
    ('team', ('team', 'player'))
    """
    if value is None or isinstance(value, str) or not isinstance(value, Iterable):
        return checked_expression(name, value)
    parts = tuple(value)
    if not parts:
        raise InvalidQueryError(f"{name}={value!r} is empty. Give one SQL expression, or a list of them.")
    for part in parts:
        if checked_expression(name, part) is None:
            raise InvalidQueryError(f"{name}={value!r} must contain SQL expressions as text, got {part!r}.")
    names = [part.strip().lower() for part in parts]
    if len(set(names)) < len(names):
        raise InvalidQueryError(f"{name}={value!r} contains an expression twice. List each once.")
    return parts[0] if len(parts) == 1 else parts


def checked_columns(columns: object) -> tuple[str, ...]:
    """Return the column names of `partition_by`, which must be distinct."""
    if isinstance(columns, str):
        columns = (columns,)
    try:
        names: tuple[Any, ...] = tuple(columns)  # type: ignore[arg-type]  # other types raise a TypeError
    except TypeError as error:
        raise InvalidQueryError(f"partition_by must be a list of column names, got {columns!r}.") from error
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise InvalidQueryError(f"partition_by must contain only column names, got {name!r} in {names!r}.")
    if len(set(names)) < len(names):
        raise InvalidQueryError(f"partition_by={names!r} contains a column twice. List each column once.")
    return names


def checked_choice(name: str, value: object, choices: Mapping[str, str]) -> str:
    """Return the value if it is one of the choices."""
    if isinstance(value, str) and value in choices:
        return value
    allowed = ", ".join(f"{choice!r} ({meaning})" for choice, meaning in choices.items())
    raise InvalidQueryError(f"{name} must be one of {allowed}, got {value!r}.")


def checked_flag(name: str, value: object) -> bool:
    """Return the flag if it is a bool."""
    if not isinstance(value, bool):
        raise InvalidQueryError(f"{name} must be True or False, got {value!r} of type {type(value).__name__}.")
    return value


def as_number(value: object) -> float:
    """Return a number as a float, infinite if it is too large; NaN if the value is not a number or is a bool."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, 1 if value > 0 else -1)  # type: ignore[operator]  # numbers compare with 0


def is_integer(value: object) -> bool:
    """Whether a value can be used as an integer; booleans cannot."""
    try:
        operator.index(value)  # type: ignore[arg-type]  # arrays have __index__, but it may raise
    except TypeError:
        return False
    return not isinstance(value, bool)
