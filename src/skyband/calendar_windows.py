"""Endless windows without a lattice: cumulative and landmark windows, and the windows of a time zone's calendar.

The windows of a calendar are defined by local times, and a local time becomes the first moment at which local clocks
show it or a later time. So a day begins at local midnight. If clocks skip midnight, it begins when they skip it; if
they show midnight twice, it begins with the first. Therefore bounds have the order of their local times, and days have
23, 24 or 25 hours.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from skyband.windows import ALWAYS, AXIS_LIMIT, NEVER, IrregularWindows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy import int64
    from numpy.typing import NDArray

__all__ = ["DAY", "CalendarWindows", "CumulativeWindows", "LandmarkWindows", "Span", "local_time", "moment_of"]

DAY = 86_400_000_000
HOUR = 3_600_000_000
ENDLESS = AXIS_LIMIT // 2  # the length of a window that never ends; sums with positions do not overflow
_SHIFT = 26 * HOUR  # more than clocks are moved by, even across the date line
_SECOND = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Beyond the years that datetime supports, offsets are those of its first and last year.
_FIRST, _LAST = (int((datetime(year, 1, 1, tzinfo=UTC) - _EPOCH).total_seconds()) for year in (2, 9998))
_CYCLE = 146_097  # days in 400 years, after which the calendar repeats


@dataclass(frozen=True, slots=True, kw_only=True)
class CumulativeWindows(IrregularWindows):
    """Windows that grow from ``origin + j * size`` in steps of `slide`, until the next one begins.

    >>> so_far = CumulativeWindows(size=30, slide=10)
    >>> [(so_far.start(end), end) for end in so_far.ends_between(10, 50)]
    [(0, 20), (0, 30), (30, 40), (30, 50)]
    """

    size: int
    slide: int
    origin: int = 0

    @property
    def longest(self) -> int:
        return self.size

    @property
    def most_alive(self) -> int:
        return self.size // self.slide

    @property
    def most_views(self) -> int:
        return 1

    @property
    def step(self) -> int:
        return self.slide

    def first_end_after(self, position: int) -> int:
        return self.origin + ((position - self.origin) // self.slide + 1) * self.slide

    def start(self, end: int) -> int:
        return self.origin + (end - self.slide - self.origin) // self.size * self.size

    def first_end_from(self, start: int) -> int:
        return self.origin - (self.origin - start) // self.size * self.size + self.slide

    def arrays(self, low: int, high: int) -> tuple[NDArray[int64], NDArray[int64]]:
        import numpy as np  # noqa: PLC0415 - queries are read without it

        ends = np.arange(self.first_end_after(low), self.first_end_after(high) + 1, self.slide, dtype=np.int64)
        ends = np.append(ends, self.first_end_from(high + 1))
        return self.origin + (ends - self.slide - self.origin) // self.size * self.size, ends


@dataclass(frozen=True, slots=True, kw_only=True)
class LandmarkWindows(IrregularWindows):
    """Windows that all start at `origin` and end at ``origin + i * slide``.

    >>> list(LandmarkWindows(slide=10, origin=5).ends_between(-100, 30))
    [15, 25]
    """

    slide: int
    origin: int = 0

    @property
    def longest(self) -> int:
        return ENDLESS

    @property
    def most_alive(self) -> int:
        return 1  # windows without limit contain an object; only the next one to end counts as open

    @property
    def step(self) -> int:
        return self.slide

    @property
    def tail(self) -> int:
        return self.slide

    def last_end(self, newest: int) -> int:
        return self.first_end_after(newest)

    @property
    def begin(self) -> int:
        return self.origin

    def first_end_after(self, position: int) -> int:
        return self.origin + max(1, (position - self.origin) // self.slide + 1) * self.slide

    def start(self, end: int) -> int:
        return NEVER if end >= NEVER else self.origin

    def first_end_from(self, start: int) -> int:
        return self.origin + self.slide if start <= self.origin else NEVER

    def arrays(self, low: int, high: int) -> tuple[NDArray[int64], NDArray[int64]]:
        import numpy as np  # noqa: PLC0415 - queries are read without it

        ends = np.arange(self.first_end_after(low), self.first_end_after(high) + 1, self.slide, dtype=np.int64)
        return np.full_like(ends, self.origin), ends


@dataclass(frozen=True, slots=True)
class Span:
    """A length on the calendar: so many months, or days, or microseconds of a part of a day."""

    count: int
    unit: str  # "month", "day" or "tick"

    @property
    def least(self) -> int:
        """The shortest length in microseconds, if clocks are not moved."""
        return self.count * {"month": 28 * DAY, "day": DAY, "tick": 1}[self.unit]

    @property
    def most(self) -> int:
        """The greatest length in microseconds, if clocks are not moved."""
        if self.unit == "month":
            return min(31 * self.count, 366 * -(-self.count // 12)) * DAY
        return self.least

    def after(self, local: int, times: int = 1) -> int:
        """Return the local time that is so many lengths after another. Days that a month does not have become its last.

        >>> (Span(1, "month").after(59 * DAY) // DAY, Span(1, "month").after(30 * DAY) // DAY)  # 1 March, 31 January
        (90, 58)
        """
        if self.unit != "month":
            return local + times * self.least
        days, rest = divmod(local, DAY)
        year, month, day = _date_of(days)
        found = year * 12 + month - 1 + times * self.count
        return min(_days_of(found) + day - 1, _days_of(found + 1) - 1) * DAY + rest

    def index(self, anchor: int, local: int) -> int:
        """Return how many whole lengths fit between `anchor` and a local time; negative before the anchor."""
        if self.unit != "month":
            return (local - anchor) // self.least
        (year, month, _), (first_year, first_month, _) = _date_of(local // DAY), _date_of(anchor // DAY)
        found = ((year - first_year) * 12 + month - first_month) // self.count
        return found if self.after(anchor, found) <= local else found - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarWindows(IrregularWindows):
    """Windows whose bounds are local times of a zone: `anchor` and times that are whole lengths before or after it.

    Windows end every `slide` and are `size` long; with `cumulative`, they start where the last whole `size` ended.
    Without a size, all windows start at the anchor. A slide that is a part of a day divides every day from its
    beginning; when clocks are set back, the repeated hour has its own ends. Windows that grow may have such a slide.

    >>> days = CalendarWindows(zone="Europe/Paris", size=Span(1, "day"), slide=Span(1, "day"))
    >>> spring = 1_711_839_600_000_000  # 2024-03-31, local midnight
    >>> [(days.first_end_after(at) - at) // HOUR for at in (spring - DAY, spring)]
    [24, 23]
    """

    zone: str
    size: Span | None
    slide: Span
    anchor: int = 0  # local time in microseconds, as if the zone were UTC
    cumulative: bool = False

    @property
    def origin(self) -> int:
        """The moment of the anchor."""
        return moment_of(self.zone, self.anchor)

    @property
    def begin(self) -> int:
        return self.origin if self.size is None else ALWAYS

    @property
    def longest(self) -> int:
        return ENDLESS if self.size is None else self.size.most + _SHIFT

    @property
    def most_alive(self) -> int:
        return 1 if self.size is None else -(-self.size.most // self.slide.least)

    @property
    def most_views(self) -> int:
        return 1 if self.cumulative else self.most_alive

    @property
    def step(self) -> int:
        return self.slide.least

    @property
    def grid(self) -> int:
        return DAY if self.slide.unit == "tick" else 64 * self.step

    @property
    def tail(self) -> int:
        return self.slide.most + _SHIFT if self.size is None else self.longest

    def last_end(self, newest: int) -> int:
        return self.first_end_after(newest) if self.size is None else NEVER

    def arrays(self, low: int, high: int) -> tuple[NDArray[int64], NDArray[int64]]:
        import numpy as np  # noqa: PLC0415 - queries are read without it

        # Windows with one start need no more than the next end; of the others, each start after the next end counts.
        one_start = self.size is None or self.cumulative
        starts, ends = [], []
        for some_starts, some_ends in self._windows(low):
            kept = (some_starts < some_ends) & (some_ends > low)
            starts.append(some_starts[kept])
            ends.append(some_ends[kept])
            if kept.any() and (ends if one_start else starts)[-1][-1] > high:
                break
        all_starts, all_ends = np.concatenate(starts), np.concatenate(ends)
        kept = np.append(True, np.diff(all_ends) > 0)  # the longest of those that end together
        all_starts, all_ends = all_starts[kept], all_ends[kept]
        stop = int(np.searchsorted(all_ends if one_start else all_starts, high, side="right")) + 1
        if not self.cumulative:
            return all_starts[:stop], all_ends[:stop]
        start, end = self._next_start(high)
        return np.append(all_starts[:stop], start), np.append(all_ends[:stop], end)

    def _next_start(self, position: int) -> tuple[int, int]:
        """The first cumulative window that starts after `position`."""
        assert self.size is not None
        place = self.size.index(self.anchor, local_time(self.zone, position)) + 1
        while (start := moment_of(self.zone, self.size.after(self.anchor, place))) <= position:
            place += 1
        for starts, ends in self._windows(start):
            kept = (starts >= start) & (starts < ends)
            if kept.any():
                return int(starts[kept][0]), int(ends[kept][0])
        raise AssertionError("windows are endless")

    def _windows(self, low: int) -> Iterator[tuple[NDArray[int64], NDArray[int64]]]:
        """Yield starts and ends of all windows that end after `low`, and of some before; some windows are empty."""
        import numpy as np  # noqa: PLC0415 - queries are read without it

        part = self.slide.unit == "tick"
        slide = Span(1, "day") if part else self.slide
        place = slide.index(self.anchor, local_time(self.zone, low)) - 1
        if self.size is None:
            place = max(place, 0)
        label, begin = slide.after(self.anchor, place), None
        while True:
            following = slide.after(self.anchor, place + 1)
            end = moment_of(self.zone, following)
            if not part:
                yield np.array([self._start(label, following)], np.int64), np.array([end], np.int64)
            else:
                begin = moment_of(self.zone, label) if begin is None else begin
                ends = _parts_of_day(self.zone, label, begin, end, self.slide.count)
                yield np.full_like(ends, self._start(label, following)), ends
            place, label, begin = place + 1, following, end

    def _start(self, label: int, following: int) -> int:
        """The start of the window that ends at the local time `following`, one slide after `label`."""
        if self.size is None:
            return moment_of(self.zone, self.anchor)
        if not self.cumulative:
            return moment_of(self.zone, self.size.after(following, -1))
        return moment_of(self.zone, self.size.after(self.anchor, self.size.index(self.anchor, label)))


def moment_of(zone: str, local: int) -> int:
    """Return the first moment at which clocks of the zone show this local time or a later one, in microseconds.

    >>> moment_of("America/New_York", 0) // HOUR, moment_of("UTC", 7)
    (5, 7)
    """
    info = _zone(zone)
    naive = datetime(1970, 1, 1, tzinfo=info) + timedelta(seconds=min(max(local // _SECOND, _FIRST), _LAST))
    before = _ticks(naive.utcoffset())
    if _offset(info, local - before) == before:
        return local - before
    # Clocks skip this time: find the second at which they do.
    low, high = (local - _ticks(naive.replace(fold=1).utcoffset())) // _SECOND, -(-(local - before) // _SECOND)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _offset(info, middle * _SECOND) == before else (low, middle)
    return high * _SECOND


def local_time(zone: str, moment: int) -> int:
    """Return what clocks of the zone show at a moment, both in microseconds.

    >>> local_time("Asia/Kolkata", 0) // HOUR
    5
    """
    return moment + _offset(_zone(zone), moment)


@lru_cache(maxsize=256)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def _offset(info: ZoneInfo, moment: int) -> int:
    at = _EPOCH + timedelta(seconds=min(max(moment // _SECOND, _FIRST), _LAST))
    return _ticks(at.astimezone(info).utcoffset())


def _ticks(offset: timedelta | None) -> int:
    assert offset is not None
    return (offset.days * 86_400 + offset.seconds) * _SECOND + offset.microseconds


def _offsets(zone: str, begin: int, end: int) -> list[tuple[int, int]]:
    """Return the offsets of local time in ``[begin, end)``, each with the moment from which it applies."""
    info = _zone(zone)
    found = [(begin, _offset(info, begin))]
    for hour in [*range(begin + HOUR, end, HOUR), end - 1]:
        now = _offset(info, hour)
        if now != found[-1][1]:
            low, high = max(begin, hour - HOUR) // _SECOND, -(-hour // _SECOND)
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if _offset(info, middle * _SECOND) == now else (middle, high)
            found.append((high * _SECOND, now))
    return found


def _parts_of_day(zone: str, label: int, begin: int, end: int, part: int) -> NDArray[int64]:
    """Return the moments in ``(begin, end)`` at which clocks show `label` plus a multiple of `part`, and `end`."""
    import numpy as np  # noqa: PLC0415 - queries are read without it

    offsets = _offsets(zone, begin, end)
    found = []
    for (since, offset), until in zip(offsets, [*(since for since, _ in offsets[1:]), end], strict=True):
        first = since + (label - since - offset) % part
        found.append(np.arange(first, until, part, dtype=np.int64))
    inner = np.concatenate(found)
    return np.append(inner[inner > begin], end)


def _date_of(days: int) -> tuple[int, int, int]:
    """Return year, month and day of the month, so many days after 1970-01-01."""
    cycles, rest = divmod(days, _CYCLE)
    found = date.fromordinal(date(1970, 1, 1).toordinal() + rest)
    return found.year + 400 * cycles, found.month, found.day


def _days_of(month: int) -> int:
    """Return the days from 1970-01-01 to the first day of a month, given as its number since year 0."""
    cycles, rest = divmod(month - 1970 * 12, 400 * 12)
    return date(1970 + rest // 12, rest % 12 + 1, 1).toordinal() - date(1970, 1, 1).toordinal() + cycles * _CYCLE
