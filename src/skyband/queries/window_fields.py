"""Validation of the fields of windows without a lattice: time zones, cumulative, landmark and session windows."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from skyband.calendar_windows import (
    DAY,
    CalendarWindows,
    CumulativeWindows,
    LandmarkWindows,
    Span,
    local_time,
)
from skyband.durations import format_duration, parse_duration
from skyband.errors import InvalidQueryError
from skyband.queries.fields import checked_choice, checked_flag, date_and_time, is_integer, window_of
from skyband.session_windows import SessionWindows
from skyband.windows import AXIS_LIMIT, IrregularWindows

__all__ = [
    "NO_SIZE",
    "WEEK_DAYS",
    "irregular_fields",
    "is_irregular",
    "refuse_missing_size",
    "session_fields",
    "session_text",
]


class _NoSize:
    """The size of a query that has none. None means windows without end."""

    def __repr__(self) -> str:
        return "<no size>"


NO_SIZE: Any = _NoSize()
WEEK_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONDAY = 4 * DAY  # 1970-01-05; in a query without origin, weeks are counted from the week that contains 1970-01-01
_NAIVE = datetime(1970, 1, 1)  # a local time
_FAR = 1900 * 365 * DAY
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_DAYS = {"day": 1, "week": 7}
_CALENDAR = re.compile(r"\s*(?:interval\s+)?(\d{1,9})\s*(day|week|month|quarter|year)s?\s*", re.IGNORECASE)
_ISO = re.compile(r"\s*P(\d{1,9})([DWMY])\s*", re.IGNORECASE)
_LETTERS = {"D": "day", "W": "week", "M": "month", "Y": "year"}


def is_irregular(fields: Mapping[str, Any]) -> bool:
    """Whether these fields of a query define windows that do not lie on one lattice.

    >>> is_irregular({"size": "1 day", "zone": None, "cumulative": False, "week_start": None})
    False
    """
    return (
        fields["size"] is None or fields["zone"] is not None or fields["cumulative"] or fields["week_start"] is not None
    )


def irregular_fields(
    size: Any, slide: Any, origin: object, zone: object, week_start: object, cumulative: object
) -> dict[str, Any]:
    """Return the normalized fields of windows without a lattice, and the windows.

    >>> found = irregular_fields("1 quarter", "1 month", None, "Europe/Paris", None, True)
    >>> found["size"], found["slide"], found["window"].size
    ('1 quarter', '1 month', Span(count=3, unit='month'))
    """
    grows = checked_flag("cumulative", cumulative)
    if size is None and grows:
        raise InvalidQueryError("cumulative=True is not allowed with size=None, which means windows since origin.")
    if (size is None or grows) and slide is None:
        raise InvalidQueryError(
            f"slide is missing. With {'cumulative=True' if grows else 'size=None'} it is the time between answers."
        )
    if is_integer(size) or is_integer(slide):
        raise InvalidQueryError(
            f"size={size!r} and slide={slide!r} must be durations: zones, cumulative windows and size=None are "
            "supported for windows over event time, not for counts of rows."
        )
    if zone is None:
        return _without_zone(size, slide, origin, week_start)
    return _in_zone(size, size if slide is None else slide, origin, _checked_zone(zone), week_start, grows=grows)


def session_fields(
    gap: object, max_length: object, size: object, slide: object, others: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the normalized fields of session windows, and the windows; `others` must have their defaults.

    >>> session_fields("30 min", "PT8H", None, None, {})["max_length"]
    '8 hours'
    """
    if gap is None:
        raise InvalidQueryError(
            f"gap is missing. max_length={max_length!r} limits sessions, which end when no row follows for gap."
        )
    has_size = size is not NO_SIZE and size is not None
    if has_size or slide is not None:
        given = f"size={size!r}" if has_size else f"slide={slide!r}"
        raise InvalidQueryError(
            f"{given} is not allowed with gap={gap!r}: the rows decide how long a session is. Omit it, or use "
            "max_length= to limit sessions."
        )
    for name, value in others.items():
        if value:
            raise InvalidQueryError(f"{name}={value!r} is not allowed with gap={gap!r}, which defines sessions.")
    ticks = _session_length("gap", gap)
    most = None if max_length is None else _session_length("max_length", max_length)
    return {
        "axis": "time",
        "window": SessionWindows(gap=ticks, max_length=most),
        "size": None,
        "slide": None,
        "gap": format_duration(ticks),
        "max_length": None if most is None else format_duration(most),
    }


def session_text(gap: object, max_length: object) -> str:
    """Describe sessions with these normalized lengths.

    >>> session_text("30 minutes", None)
    'sessions with gaps below 30 minutes'
    """
    return f"sessions with gaps below {gap}" + (f", up to {max_length}" if max_length is not None else "")


def refuse_missing_size(size: object) -> None:
    """Raise if a query has neither a size nor a gap."""
    if size is NO_SIZE:
        raise InvalidQueryError("size is missing. Set it to the length of a window, or set gap= for session windows.")


def _session_length(field: str, value: Any) -> int:
    if not isinstance(value, str | timedelta):
        raise InvalidQueryError(
            f"{field} must be a duration such as '30 minutes', got {value!r} of {type(value).__name__}."
        )
    ticks = parse_duration(value, field=field)
    if not 1 <= ticks < AXIS_LIMIT // 4:
        raise InvalidQueryError(f"{field} must be at least 1 microsecond, got {value!r}.")
    return ticks


def _without_zone(size: Any, slide: Any, origin: object, week_start: object) -> dict[str, Any]:
    if week_start is not None:
        raise InvalidQueryError(f"week_start={week_start!r} needs a time zone. Add zone=, such as zone='UTC'.")
    if size is None:
        one = window_of("time", slide, slide, origin)
        window: IrregularWindows = LandmarkWindows(slide=one.slide, origin=one.origin)
        return {"window": window, "size": None, "slide": format_duration(one.slide), "origin": one.origin}
    one = window_of("time", size, slide, origin)
    if one.size % one.slide:
        raise InvalidQueryError(
            f"slide={slide!r} must divide size={size!r} in cumulative windows, which end at the end of each slide."
        )
    window = CumulativeWindows(size=one.size, slide=one.slide, origin=one.origin)
    return {
        "window": window,
        "size": format_duration(one.size),
        "slide": format_duration(one.slide),
        "origin": one.origin,
    }


def _in_zone(size: Any, slide: Any, origin: object, zone: str, week_start: object, *, grows: bool) -> dict[str, Any]:
    whole, step = None if size is None else _calendar_span("size", size), _calendar_span("slide", slide)
    if whole is not None and whole[0].unit == "tick":
        raise InvalidQueryError(
            f"size={size!r} must be whole days, weeks, months, quarters or years in a time zone, such as '1 day'. For "
            "shorter windows omit zone; origin= moves them."
        )
    _check_step(whole and whole[0], step[0], size, slide, grows=grows)
    by_weeks = (step if whole is None or not grows else whole)[1] == "week"
    anchor = _anchor(origin, zone, week_start, by_weeks=by_weeks)
    if "month" in (step[0].unit, whole and whole[0].unit) and (_NAIVE + timedelta(microseconds=anchor)).day > 28:
        raise InvalidQueryError(f"origin={origin!r} must be one of the first 28 days, which every month has.")
    window = CalendarWindows(
        zone=zone, size=None if whole is None else whole[0], slide=step[0], anchor=anchor, cumulative=grows
    )
    return {
        "window": window,
        "size": None if whole is None else _spelled(*whole),
        "slide": _spelled(*step),
        "origin": None if origin is None else (_NAIVE + timedelta(microseconds=anchor)).isoformat(),
        "zone": zone,
        "week_start": None if week_start is None else str(week_start).lower(),
    }


def _check_step(size: Span | None, slide: Span, given_size: object, given: object, *, grows: bool) -> None:
    if slide.unit == "tick":
        if size is not None and not grows:
            raise InvalidQueryError(
                f"slide={given!r} must be whole days, weeks, months or years for windows of calendar days, unless they "
                "are cumulative. Add cumulative=True, or omit zone: a window of 24 hours may have any slide."
            )
        if slide.count < 1_000_000 or DAY % slide.count:
            raise InvalidQueryError(
                f"slide={given!r} must be at least 1 second and divide a day of 24 hours, because ends are counted "
                "from the beginning of each day."
            )
        return
    if size is None:
        return
    if slide.most > size.least and slide != size:
        raise InvalidQueryError(
            f"slide={given!r} must not be longer than size={given_size!r}, whatever the month. With a longer one, some "
            "objects would be in no window."
        )
    fits = size.count % slide.count == 0 if size.unit == slide.unit else slide == Span(1, "day")
    if grows and not fits:
        raise InvalidQueryError(
            f"slide={given!r} must divide size={given_size!r} in cumulative windows, which end with each slide."
        )


def _calendar_span(field: str, value: Any) -> tuple[Span, str]:
    """Return the length and the unit that it was given in."""
    if isinstance(value, str):
        if (found := _ISO.fullmatch(value)) is not None:
            count, unit = int(found[1]), _LETTERS[found[2].upper()]
        elif (found := _CALENDAR.fullmatch(value)) is not None:
            count, unit = int(found[1]), found[2].lower()
        else:
            count, unit = 0, ""
        if unit and count < 1:
            raise InvalidQueryError(f"{field} must be at least 1 day, got {value!r}.")
        if unit in _MONTHS:
            return Span(count * _MONTHS[unit], "month"), "month"
        if unit:
            return Span(count * _DAYS[unit], "day"), unit
    if not isinstance(value, str | timedelta):
        raise InvalidQueryError(f"{field} must be a duration such as '1 day', got {value!r} of {type(value).__name__}.")
    ticks = parse_duration(value, field=field)
    if ticks > 0 and ticks % DAY == 0:
        return Span(ticks // DAY, "day"), "day"
    if ticks < 1:
        raise InvalidQueryError(f"{field} must be at least 1 second, got {value!r}.")
    return Span(ticks, "tick"), "tick"


def _spelled(span: Span, unit: str) -> str:
    """Return a length in the form that users write."""
    if unit == "tick":
        return format_duration(span.count)
    count = span.count
    if unit == "month" and count % 12 == 0:
        count, unit = count // 12, "year"
    elif unit == "month" and count == 3:
        count, unit = 1, "quarter"
    elif unit == "week":
        count //= 7
    return f"{count} {unit}{'' if count == 1 else 's'}"


def _anchor(origin: object, zone: str, week_start: object, *, by_weeks: bool) -> int:
    """Return the local time from which windows are counted."""
    first = _first_day(week_start, origin, by_weeks=by_weeks)
    if origin is None:
        return (_MONDAY + first * DAY - 7 * DAY) if by_weeks else 0
    if is_integer(origin):
        if abs(operator.index(origin)) > _FAR:  # type: ignore[arg-type]  # checked just above
            raise InvalidQueryError(
                f"origin={origin!r} is too far from 1970 for a calendar, which has the years to 9999."
            )
        return local_time(zone, operator.index(origin))  # type: ignore[arg-type]  # checked just above
    found = date_and_time(origin, "2024-01-01T09:30")
    if found.tzinfo is None:
        return (found - _NAIVE) // timedelta(microseconds=1)
    return local_time(zone, (found - _NAIVE.replace(tzinfo=UTC)) // timedelta(microseconds=1))


def _first_day(week_start: object, origin: object, *, by_weeks: bool) -> int:
    """Return the first day of a week as its number after Monday."""
    if week_start is None:
        return 0
    day = week_start.lower() if isinstance(week_start, str) else week_start
    checked_choice("week_start", day, dict.fromkeys(WEEK_DAYS, "the first day"))
    if not by_weeks:
        raise InvalidQueryError(f"week_start={week_start!r} applies to windows of weeks, such as size='1 week'.")
    if origin is not None:
        raise InvalidQueryError(
            f"week_start={week_start!r} and origin={origin!r} both say when weeks begin. Give one of them."
        )
    return WEEK_DAYS.index(str(day))


def _checked_zone(zone: object) -> str:
    if not isinstance(zone, str) or not zone.strip():
        raise InvalidQueryError(f"zone must be the name of a time zone such as 'Europe/Paris', got {zone!r}.")
    if not _is_zone(zone):
        raise InvalidQueryError(
            f"zone={zone!r} is not a time zone of this machine. Use a name of the IANA database, such as "
            "'America/New_York', 'Asia/Kolkata' or 'UTC'."
        )
    return zone


@lru_cache(maxsize=256)
def _is_zone(zone: str) -> bool:
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):  # unknown; not a name; a folder
        return False
    return True
