"""Windows of local calendars by brute force: clocks are read minute by minute. Shares no code with the library.

Moments and local times are datetimes without a zone, lengths are pairs such as ``(1, "day")``.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

NAIVE = datetime(1970, 1, 1)
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


@cache
def shown(zone, at):
    """What clocks show at a moment."""
    return at.replace(tzinfo=UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None)


@cache
def first_shown(zone, local):
    """The first moment at which clocks show this time or a later one."""
    at = local - 28 * timedelta(hours=1)
    while shown(zone, at) < local:
        at += MINUTE
    return at


def plus(local, length, times=1):
    count, unit = length
    if unit != "month":
        return local + times * count * timedelta(**{f"{unit}s": 1})
    month, day = local.year * 12 + local.month - 1 + times * count, local.day
    while True:
        try:
            return local.replace(year=month // 12, month=month % 12 + 1, day=day)
        except ValueError:  # the month has no such day
            day -= 1


def whole(anchor, length, local):
    """The last time at or before `local` that is whole lengths before or after the anchor."""
    step = 0
    while plus(anchor, length, step) > local:
        step -= 1
    while plus(anchor, length, step + 1) <= local:
        step += 1
    return plus(anchor, length, step)


def windows(zone, low, high, *, size, slide, anchor, cumulative=False):
    """[(start, end), ...] of all windows that end in ``(low, high]``, in microseconds."""
    found, latest = {}, None
    for end, local, since in _ends(zone, low - 3 * DAY, high, slide, anchor):
        if size is None:
            start = first_shown(zone, anchor)
        elif cumulative:
            start = first_shown(zone, whole(anchor, size, since))
        else:
            start = first_shown(zone, plus(local, size, -1))
        latest = start = start if latest is None else max(start, latest)
        if low < end <= high and start < end:
            found.setdefault(end, start)
    return [(ticks(start), ticks(end)) for end, start in sorted(found.items())]


def _ends(zone, low, high, slide, anchor):
    """Yield ends: the moment, the local time, and a local time of the slide or the day that ends there."""
    if slide[1] in ("day", "month"):
        local = whole(anchor, slide, low)
        step = 0
        while plus(anchor, slide, step) < local:
            step += 1
        while plus(anchor, slide, step) > local:
            step -= 1
        while first_shown(zone, plus(anchor, slide, step)) <= high:
            yield (
                first_shown(zone, plus(anchor, slide, step + 1)),
                plus(anchor, slide, step + 1),
                plus(anchor, slide, step),
            )
            step += 1
        return
    part, day = slide[0] * timedelta(**{f"{slide[1]}s": 1}), whole(anchor, (1, "day"), low)
    at = begin = first_shown(zone, day)
    while at <= high:
        at += MINUTE
        if first_shown(zone, day + DAY) <= at:
            at = begin = first_shown(zone, day + DAY)
            yield at, day + DAY, day
            day += DAY
            while first_shown(zone, day + DAY) == begin:  # a day that does not exist
                day += DAY
        elif (shown(zone, at) - day) % part == timedelta(0):
            yield at, shown(zone, at), day


def ticks(at):
    return (at - NAIVE) // timedelta(microseconds=1)
