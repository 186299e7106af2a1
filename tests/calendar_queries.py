"""Random queries over windows of calendars, with their windows by brute force as the oracle's plain pairs."""

from __future__ import annotations

from datetime import datetime, timedelta

from tests import local_calendar
from tests.local_calendar import NAIVE, ticks
from tests.oracle import Asked

HOUR = 3_600_000_000
DAY = 24 * HOUR

# Zones with days around which clocks are moved: by an hour or half of one, over midnight, over a whole day.
CHANGES = (
    ("America/New_York", datetime(2024, 3, 10)),
    ("America/New_York", datetime(2024, 11, 3)),
    ("Europe/London", datetime(2024, 3, 31)),
    ("Australia/Lord_Howe", datetime(2024, 4, 7)),
    ("America/Sao_Paulo", datetime(2018, 11, 4)),  # midnight is skipped
    ("America/Sao_Paulo", datetime(2018, 2, 18)),  # the hour before midnight is repeated
    ("Asia/Beirut", datetime(2024, 3, 31)),
    ("Asia/Beirut", datetime(2024, 10, 27)),
    ("America/St_Johns", datetime(2006, 10, 29)),  # midnight is shown twice
    ("Pacific/Apia", datetime(2011, 12, 30)),  # there is no such day
    ("Asia/Kathmandu", datetime(2024, 2, 29)),
    ("UTC", datetime(2024, 12, 31)),
)
WEEK_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
# size, slide, cumulative, the lengths of size and slide
SHAPES = (
    ("1 day", None, False, (1, "day"), (1, "day")),
    ("3 days", "1 day", False, (3, "day"), (1, "day")),
    ("1 week", None, False, (7, "day"), (7, "day")),
    ("1 week", "1 day", False, (7, "day"), (1, "day")),
    ("P1M", None, False, (1, "month"), (1, "month")),
    ("1 month", "1 day", False, (1, "month"), (1, "day")),
    ("1 quarter", "1 month", False, (3, "month"), (1, "month")),
    ("1 day", "1 hour", True, (1, "day"), (1, "hour")),
    ("1 day", "90 minutes", True, (1, "day"), (90, "minute")),
    ("2 days", "8 hours", True, (2, "day"), (8, "hour")),
    ("1 week", "12 hours", True, (7, "day"), (12, "hour")),
    ("1 month", "1 day", True, (1, "month"), (1, "day")),
    ("1 year", "1 quarter", True, (12, "month"), (3, "month")),
    (None, "6 hours", False, None, (6, "hour")),
    (None, "1 day", False, None, (1, "day")),
    (None, "1 month", False, None, (1, "month")),
)


def draw_place(random_):
    """A zone, and a moment near a change of its clocks."""
    zone, day = random_.choice(CHANGES)
    return zone, day + timedelta(hours=random_.randint(-40, 40))


def draw_fields(random_, zone, near):
    """Fields of a query in the zone, and its windows by brute force: a function of the stream's oldest and newest."""
    size, slide, cumulative, whole, step = random_.choice(SHAPES)
    fields = {"size": size, "slide": slide, "zone": zone, "cumulative": cumulative}
    anchor = NAIVE
    if size is None or random_.random() < 0.3:
        anchor = datetime(near.year, near.month, 1) if size is None else datetime(2004, 2, 5)
        anchor += timedelta(hours=random_.choice([0, 0, 6, 17]))
        fields["origin"] = random_.choice([anchor, anchor.isoformat()])
    elif "week" in ((size if cumulative else slide or size) or ""):
        anchor = datetime(1969, 12, 29)
        if random_.random() < 0.5:
            fields["week_start"] = random_.choice(WEEK_DAYS)
            anchor += timedelta(days=WEEK_DAYS.index(fields["week_start"]))

    def listed(oldest, newest):
        low, high = (NAIVE + timedelta(microseconds=at) for at in (oldest, newest))
        beyond = high + timedelta(days=3 + (0 if whole is None else whole[0] * (31 if whole[1] == "month" else 1)))
        beyond = max(beyond, high + timedelta(days=35)) if step[1] == "month" else beyond
        found = local_calendar.windows(zone, low, beyond, size=whole, slide=step, anchor=anchor, cumulative=cumulative)
        return until_next(found, newest) if size is None else found

    return fields, listed


def draw_plain(random_, near):
    """The same for cumulative and landmark windows without a zone, by counting."""
    slide = random_.choice([HOUR, 2 * HOUR, 7 * HOUR])
    count, origin = random_.randint(1, 5), ticks(near) // DAY * DAY - random_.choice([0, 1, 3]) * HOUR
    fields = {"slide": f"{slide // HOUR} hours", "origin": origin}
    if random_.random() < 0.5:

        def since(oldest, newest):
            ends = range(origin + slide, newest + 2 * slide + max(0, origin - newest), slide)
            return until_next([(origin, end) for end in ends if end > oldest], newest)

        return {**fields, "size": None}, since

    def so_far(oldest, newest):
        size, found = count * slide, []
        start = origin + (oldest - origin) // size * size
        while start <= newest:
            found += [(start, start + i * slide) for i in range(1, count + 1) if start + i * slide > oldest]
            start += size
        return found

    return {**fields, "size": f"{count * slide // HOUR} hours", "cumulative": True}, so_far


def until_next(found, newest):
    """A finished stream reports the windows of a landmark up to the first that ends after its newest row."""
    last = min((end for _, end in found if end > newest), default=None)
    return [(start, end) for start, end in found if last is None or end <= last]


def draw_query(random_, zone, near):
    """Fields for `sb.TopK`, and a function from the stream's bounds to what the oracle is asked."""
    fields, listed = draw_plain(random_, near) if random_.random() < 0.3 else draw_fields(random_, zone, near)
    rest = {
        "k": random_.choice([1, 2, 3]),
        "order": random_.choice(["desc", "desc", "asc"]),
        "ties": random_.choice(["row_number", "rank"]),
        "full_only": random_.random() < 0.2,
    }

    def asked(oldest, newest):
        return Asked(
            k=rest["k"],
            size=500 * DAY,
            slide=1,
            full_only=rest["full_only"],
            ascending=rest["order"] == "asc",
            tied=rest["ties"] == "rank",
            listed=tuple(listed(oldest, newest)) or ((0, 1),),
        )

    return {**fields, **rest}, asked


def draw_rows(random_, near, count):
    """Rows ``(position, score, id)`` by position, hours apart, with ties, equal times and silences."""
    position, rows = ticks(near), []
    for number in range(count):
        rows.append((position, float(random_.randint(0, 5)), (number + 1) * 7919 % 10007))
        position += random_.choice([0, 0, 1, HOUR // 4, HOUR, HOUR, 3 * HOUR, random_.choice([HOUR, 40 * HOUR])])
    return rows
