"""CQL, the spelling of the papers."""

from __future__ import annotations

import pytest

import skyband as sb
from skyband.sql.reader import parse

BASE = {"k": 10, "size": "10 minutes", "slide": "1 minute", "by": "price * size"}
HEAD = "SELECT TOP 10 * FROM trades [RANGE 10 MINUTES SLIDE 1 MINUTE]"


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (f"{HEAD} ORDER BY price * size DESC", {}),
        (f"{HEAD.lower()} order by price * size desc;", {}),
        (f"{HEAD} ORDER BY price * size ASC", {"order": "asc"}),
        (f"{HEAD} ORDER BY price * size", {"order": "asc"}),
        (
            f"{HEAD} WHERE exchange <> 'D' [PARTITION BY symbol] ORDER BY price * size DESC",
            {"where": "exchange <> 'D'", "partition_by": ["symbol"]},
        ),
        (f"{HEAD} PARTITION BY a[0], b ORDER BY price * size DESC", {"partition_by": ["a[0]", "b"]}),
        (
            f"{HEAD} WHERE a[0] > 1 PARTITION BY b ORDER BY price * size DESC",
            {"where": "a[0] > 1", "partition_by": ["b"]},
        ),
        ("SELECT TOP 10 * FROM t [RANGE 10 MINUTES] ORDER BY price * size DESC", {"slide": None}),
        ("SELECT TOP 10 * FROM t [ROWS 10000 SLIDE 100] ORDER BY price * size DESC", {"size": 10000, "slide": 100}),
        ("SELECT TOP 10 * FROM t [ROWS 10000 ROWS] ORDER BY price * size DESC", {"size": 10000, "slide": None}),
        ("SELECT TOP 10 * FROM t [ROWS 9 SLIDE 1 ROW] ORDER BY price * size DESC", {"size": 9, "slide": 1}),
        (
            "SELECT TOP 10 * FROM t [PARTITION BY a ROWS 9 SLIDE 3] ORDER BY price * size DESC",
            {"size": 9, "slide": 3, "partition_by": ["a"]},
        ),
        (
            "SELECT TOP 10 WITH TIES * FROM t [RANGE 1 HOUR] ORDER BY price * size DESC",
            {"size": "1 hour", "slide": None, "ties": "rank"},
        ),
        ("SELECT * FROM t [RANGE 1 HOUR] ORDER BY price * size DESC LIMIT 10", {"size": "1 hour", "slide": None}),
        (
            "SELECT TOP 10 * FROM t [RANGE 1 HOUR ORIGIN '2024-01-01' FULL WINDOWS ONLY] ORDER BY price * size DESC",
            {"size": "1 hour", "slide": None, "origin": "2024-01-01", "full_only": True},
        ),
        (
            "SELECT TOP 10 * FROM t [RANGE UNBOUNDED SLIDE 1 HOUR ORIGIN '2024-01-01'] ORDER BY price * size DESC",
            {"size": None, "slide": "1 hour", "origin": "2024-01-01"},
        ),
        (
            "SELECT TOP 10 * FROM t [UNBOUNDED SLIDE 1 HOUR] ORDER BY price * size DESC",
            {"size": None, "slide": "1 hour"},
        ),
        (
            "SELECT TOP 10 * FROM t [RANGE ALL AT TIME ZONE 'UTC' SLIDE 1 MONTH] ORDER BY price * size DESC",
            {"size": None, "slide": "1 month", "zone": "UTC"},
        ),
        (
            (
                "SELECT TOP 10 * FROM t [RANGE 1 DAY CUMULATIVE AT TIME ZONE 'Asia/Tokyo' SLIDE 1 MINUTE] "
                "ORDER BY price * size DESC"
            ),
            {"size": "1 day", "slide": "1 minute", "cumulative": True, "zone": "Asia/Tokyo"},
        ),
        (
            "SELECT TOP 10 * FROM t [RANGE 1 WEEK AT TIME ZONE 'UTC' WEEK START SUNDAY] ORDER BY price * size DESC",
            {"size": "1 week", "slide": None, "zone": "UTC", "week_start": "sunday"},
        ),
        (
            "SELECT TOP 10 * FROM t [SESSION 30 MINUTES UP TO 8 HOURS] ORDER BY price * size DESC",
            {"size": None, "slide": None, "gap": "30 minutes", "max_length": "8 hours"},
        ),
        (
            f"{HEAD} WHERE a IS DISTINCT FROM b ORDER BY price * size DESC DISTINCT player HALF_LIFE 5 MINUTES",
            {"where": "a IS DISTINCT FROM b", "distinct": "player", "half_life": "5 minutes"},
        ),
    ],
)
def test_what_it_says(text, fields):
    assert sb.sql(text) == sb.TopK(**{**BASE, **fields})


def test_windows_of_keys():
    text = "SELECT TOP 5 page, count(*) FROM log [RANGE {}] GROUP BY page ORDER BY count(*) DESC"
    for window, fields in (
        ("UNBOUNDED SLIDE 1 DAY", {"size": None, "slide": "1 day"}),
        ("1 DAY CUMULATIVE SLIDE 1 HOUR", {"size": "1 day", "slide": "1 hour", "cumulative": True}),
        ("1 QUARTER AT TIME ZONE 'UTC'", {"size": "1 quarter", "zone": "UTC"}),
    ):
        assert sb.sql(text.format(window)) == sb.AggregateTopK(k=5, key="page", aggregate="count", **fields)


def test_the_stream_is_kept():
    (statement,) = parse(f"{HEAD} ORDER BY x")
    assert (statement.stream, statement.spelling, statement.time) == ("trades", "cql", None)
