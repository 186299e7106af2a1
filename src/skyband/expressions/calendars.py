"""The proleptic Gregorian calendar on whole arrays of days since 1970-01-01."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["add_months", "day_of_month", "from_civil", "iso_week", "month_number", "start_of_month", "start_of_year"]


def month_number(days: Any) -> Any:
    """Return months since January 1970."""
    return days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)


def start_of_month(months: Any) -> Any:
    """Return the first day of months that count from January 1970."""
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def start_of_year(days: Any) -> Any:
    """Return the first day of the year of each day."""
    return start_of_month(month_number(days) // 12 * 12)


def day_of_month(days: Any) -> Any:
    """Return days of the month, from 1."""
    return days - start_of_month(month_number(days)) + 1


def iso_week(days: Any) -> Any:
    """Return the weeks of ISO 8601, in which a week belongs to the year of its Thursday."""
    thursday = days - (days + 3) % 7 + 3
    return (thursday - start_of_year(thursday)) // 7 + 1


def add_months(days: Any, count: int) -> Any:
    """Add months; a day that the month does not have becomes its last.

    >>> add_months(np.array([30]), 1)  # 1970-01-31
    array([58])
    """
    months = month_number(days) + count
    last = start_of_month(months + 1) - 1
    return np.minimum(start_of_month(months) + day_of_month(days) - 1, last)


def from_civil(year: Any, month: Any, day: Any) -> tuple[Any, Any]:
    """Return days of the dates, and a mask of the dates that exist."""
    months = (year - 1970) * 12 + np.clip(month, 1, 12) - 1
    first = start_of_month(months)
    length = start_of_month(months + 1) - first
    return first + day - 1, (month >= 1) & (month <= 12) & (day >= 1) & (day <= length)
