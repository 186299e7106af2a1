"""Flink's Window Top-N, and that all spellings of one question are one query."""

from __future__ import annotations

import pytest

import skyband as sb
from skyband.sql.reader import parse

FLINK = """\
SELECT *
FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, symbol ORDER BY price * size DESC) AS rownum
    FROM TABLE(HOP(TABLE trades, DESCRIPTOR(ts), INTERVAL '1' MINUTES, INTERVAL '10' MINUTES))
    WHERE exchange <> 'D'
)
WHERE rownum <= 10;
"""
CQL = """\
SELECT TOP 10 * FROM trades [RANGE 10 MINUTES SLIDE 1 MINUTE]
WHERE exchange <> 'D' [PARTITION BY symbol]
ORDER BY price * size DESC
"""
SHORT = "TOPK price * size, 10 FROM trades WHERE exchange <> 'D' BY symbol OVER 10 MINUTES EVERY 1 MINUTE"
FIELDS = {
    "k": 10,
    "size": "10 minutes",
    "slide": "1 minute",
    "by": "price * size",
    "where": "exchange <> 'D'",
    "partition_by": ["symbol"],
}
HOP = "HOP(TABLE trades, DESCRIPTOR(ts), INTERVAL '1' MINUTES, INTERVAL '10' MINUTES)"


def test_three_spellings_of_one_query():
    assert sb.sql(FLINK) == sb.sql(CQL) == sb.sql(SHORT) == sb.TopK(**FIELDS)
    assert {parse(text)[0].stream for text in (FLINK, CQL, SHORT)} == {"trades"}
    assert parse(FLINK)[0].time == "ts"


@pytest.mark.parametrize(
    ("old", "new", "fields"),
    [
        ("ROW_NUMBER", "rank", {"ties": "rank"}),
        ("HOP(", "CUMULATE(", {"cumulative": True}),
        ("<= 10", "< 11", {}),
        ("rownum <= 10", "10 >= rownum", {}),
        ("rownum <= 10", "11 > `ROWNUM`", {}),
        ("rownum <= 10", "rownum BETWEEN 1 AND 10", {}),
        ("rownum <= 10", "rownum = 1", {"k": 1}),
        (")\nWHERE rownum", ") AS ranked\nWHERE ranked.rownum", {}),
        (")\nWHERE rownum", ") ranked\nWHERE rownum", {}),
        (" DESC)", ")", {"order": "asc"}),
        (" DESC)", " asc)", {"order": "asc"}),
        (", symbol ORDER", " ORDER", {"partition_by": []}),
        (
            "window_start, window_end, symbol",
            "symbol, window_end, upper(a), `window_start`",
            {"partition_by": ["symbol", "upper(a)"]},
        ),
        ("    WHERE exchange <> 'D'\n", "", {"where": None}),
        ("INTERVAL '1' MINUTES, INTERVAL '10'", "INTERVAL '5' minute, INTERVAL 10", {"slide": "5 minutes"}),
        ("TABLE(HOP", "(HOP", None),
        (f"TABLE({HOP})", HOP, {}),
        (
            "HOP(TABLE trades, DESCRIPTOR(ts), INTERVAL '1' MINUTES,",
            "TUMBLE(TABLE trades, DESCRIPTOR(ts),",
            {"slide": None},
        ),
        ("'10' MINUTES))", "'10' MINUTES, INTERVAL '30' SECONDS))", {"origin": 30_000_000}),
        ("'10' MINUTES))", "'10' MINUTES, INTERVAL '-30' SECONDS))", {"origin": -30_000_000}),
        (
            "TABLE trades, DESCRIPTOR(ts), INTERVAL '1' MINUTES, INTERVAL '10' MINUTES",
            (
                "DATA => TABLE trades, TIMECOL => DESCRIPTOR(ts), "
                "SIZE => INTERVAL '10' MINUTES, SLIDE => INTERVAL '1' MINUTES"
            ),
            {},
        ),
    ],
)
def test_other_ways_to_put_it(old, new, fields):
    assert old in FLINK
    if fields is None:
        with pytest.raises(sb.InvalidSQLError):
            sb.sql(FLINK.replace(old, new))
    else:
        assert sb.sql(FLINK.replace(old, new)) == sb.TopK(**{**FIELDS, **fields})


def test_the_slide_comes_before_the_size():
    with pytest.raises(
        sb.InvalidSQLError, match=r"slide must be between 1 microsecond and .*, got '10 minutes'"
    ) as caught:
        sb.sql(FLINK.replace("'1' MINUTES, INTERVAL '10'", "'10' MINUTES, INTERVAL '1'"))
    assert (caught.value.line, caught.value.column) == (4, 50)


def test_windows_begin_where_flink_begins_them():
    """Flink anchors starts, we anchor ends: 10 minutes every 3 begin at 0, 3, 6 …, so they end at 10, 13, 16 …"""
    window = sb.sql(FLINK.replace("'1' MINUTES", "'3' MINUTES")).window
    minute = 60_000_000
    starts = [window.start(end) // minute for end in window.ends_holding(9 * minute)]
    assert starts == [0, 3, 6, 9]
