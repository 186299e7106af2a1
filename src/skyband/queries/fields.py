"""What the fields of a query may hold, whichever family it is of: checked once, and told in the user's words."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
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
    "checked_flag",
    "checked_k",
    "checked_name",
    "is_integer",
    "same_axis",
    "spelled",
    "window_of",
]

Axis = Literal["time", "count"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def axis_of(name: str, value: object) -> Axis:
    """What a size of this kind is counted in."""
    if isinstance(value, str | timedelta):
        return "time"
    if is_integer(value):
        return "count"
    raise InvalidQueryError(
        f"{name}={value!r} must be interval text such as '10 minutes', a timedelta (both time windows) or an integer "
        f"(a count window), not {type(value).__name__}."
    )


def same_axis(size: object, step: object, called: str) -> Axis:
    """The axis that a window's size and its step (its `slide`, or what it is `called`) are on."""
    axis = axis_of("size", size)
    if axis_of(called, step) != axis:
        raise InvalidQueryError(
            f"size={size!r} and {called}={step!r} are on different axes (time and count); a window cannot move by one "
            "and span the other. Give both as durations or both as integers."
        )
    return axis


def window_of(axis: Axis, size: Any, step: Any, origin: object, called: str = "slide") -> SlidingWindow:
    """The windows of a query, in ticks of its axis."""
    if axis == "time":
        return _time_window(size, step, origin, called)
    if origin is not None and not is_integer(origin):
        raise InvalidQueryError(
            f"origin={origin!r} must be an integer (a sequence number) for a count window; its axis has no clock."
        )
    if called != "slide" and operator.index(size) >= 1 and not 1 <= operator.index(step) <= operator.index(size):
        raise InvalidQueryError(_unfit_step(called, step, "1", size))
    return SlidingWindow(
        size=operator.index(size),
        slide=operator.index(step),
        origin=0 if origin is None else operator.index(origin),  # type: ignore[arg-type]  # checked just above
    )


def _unfit_step(called: str, step: object, least: str, size: object) -> str:
    return (
        f"{called}={step!r} must lie between {least} and {size!r} (the window's size); "
        "a longer one would leave objects in no window at all, a shorter one would never move on."
    )


def _time_window(size: Any, slide: Any, origin: object, called: str) -> SlidingWindow:
    """The window in microseconds; what is wrong with it is said in the words of the user."""
    ticks, step, anchor = parse_duration(size, field="size"), parse_duration(slide, field=called), _time_origin(origin)
    if ticks < 1:
        raise InvalidQueryError(f"size={size!r} must be at least 1 microsecond; an empty window holds no object.")
    if not 1 <= step <= ticks:
        raise InvalidQueryError(_unfit_step(called, slide, "1 microsecond", size))
    if ticks >= AXIS_LIMIT or abs(anchor) >= AXIS_LIMIT:
        raise InvalidQueryError(
            f"size={size!r} and origin={origin!r} must stay below 2**62 microseconds; "
            "larger ones leave the integer axis."
        )
    return SlidingWindow(size=ticks, slide=step, origin=anchor)


def _time_origin(origin: object) -> int:
    if origin is None:
        return 0
    if is_integer(origin):
        return operator.index(origin)  # type: ignore[arg-type]  # checked just above
    if isinstance(origin, str):
        try:
            origin = datetime.fromisoformat(origin)
        except ValueError as error:
            raise InvalidQueryError(
                f"origin={origin!r} is not an ISO date or time; write '2024-01-01' or '2024-01-01T09:30:00+00:00'."
            ) from error
    if not isinstance(origin, datetime):
        raise InvalidQueryError(
            f"origin={origin!r} must be a datetime, ISO text or microseconds since 1970, not {type(origin).__name__}."
        )
    if getattr(origin, "nanosecond", False):  # pandas: finer than a datetime, or none at all (NaT)
        raise InvalidQueryError(f"origin={origin!r} is not a whole microsecond; windows can be anchored at no other.")
    try:
        since = (origin if origin.tzinfo else origin.replace(tzinfo=UTC)) - _EPOCH
    except (OverflowError, ValueError) as error:
        raise InvalidQueryError(f"origin={origin!r} is too far from 1970 to be counted in microseconds.") from error
    return parse_duration(since, field="origin")


def spelled(axis: Axis, ticks: int) -> str | int:
    """Ticks of the axis as users write them."""
    return format_duration(ticks) if axis == "time" else ticks


def checked_k(k: object) -> int:
    """K as a whole number."""
    if not is_integer(k):
        raise InvalidQueryError(f"k={k!r} must be an integer, not {type(k).__name__}; an answer has whole rows.")
    value = operator.index(k)  # type: ignore[arg-type]  # checked just above
    if not 1 <= value < 2**31:
        raise InvalidQueryError(f"k={value} must lie in 1..{2**31 - 1}; an answer ranks at least one object.")
    return value


def checked_name(name: object) -> str:
    """A name that answers can be told apart by."""
    if not isinstance(name, str) or not name.strip() or any("\ud800" <= letter <= "\udfff" for letter in name):
        raise InvalidQueryError(
            f"name={name!r} must be non-empty text of whole characters; answers are told apart by it."
        )
    return name


def checked_expression(name: str, value: object) -> str | None:
    """An SQL expression, or None."""
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise InvalidQueryError(f"{name}={value!r} must be an SQL expression as text, or None.")
    return value


def checked_columns(columns: object) -> tuple[str, ...]:
    """Column names, each once."""
    if isinstance(columns, str):
        columns = (columns,)
    try:
        names: tuple[Any, ...] = tuple(columns)  # type: ignore[arg-type]  # what cannot be iterated is refused
    except TypeError as error:
        raise InvalidQueryError(
            f"partition_by={columns!r} must be a list of column names; they tell one group from another."
        ) from error
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise InvalidQueryError(f"partition_by={names!r} must hold column names only; {name!r} is none.")
    if len(set(names)) < len(names):
        raise InvalidQueryError(f"partition_by={names!r} names a column twice; each groups the stream once.")
    return names


def checked_choice(name: str, value: object, choices: Mapping[str, str]) -> str:
    """One of the named choices."""
    if isinstance(value, str) and value in choices:
        return value
    told = ", ".join(f"{choice!r} ({meaning})" for choice, meaning in choices.items())
    raise InvalidQueryError(f"{name}={value!r} must be one of {told}.")


def checked_flag(name: str, value: object) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise InvalidQueryError(f"{name}={value!r} must be True or False, not {type(value).__name__}.")
    return value


def as_number(value: object) -> float:
    """A number as a float, infinite where it is beyond all floats; NaN for what is none, booleans too."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, 1 if value > 0 else -1)  # type: ignore[operator]  # numbers compare with 0


def is_integer(value: object) -> bool:
    """Whether a value can stand for a whole number; booleans cannot."""
    try:
        operator.index(value)  # type: ignore[arg-type]  # arrays have __index__, but only some of them can use it
    except TypeError:
        return False
    return not isinstance(value, bool)
