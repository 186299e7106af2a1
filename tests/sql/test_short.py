"""The short spelling, the way of naming queries, and several statements in one text."""

from __future__ import annotations

import pytest

import skyband as sb
from skyband.sql.reader import parse

BASE = {"k": 10, "size": "10 minutes", "by": "price"}


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("TOPK price, 10 OVER 10 MINUTES", {}),
        ("topk price, 10 over 10 minutes", {}),
        ("TOPK price DESC, 10 OVER 10 MINUTES;", {}),
        ("TOPK price ASC, 10 OVER 10 MINUTES", {"order": "asc"}),
        ("TOPK 10 OVER 10 MINUTES", {"by": None}),
        ("TOPK 10 ASC OVER 10 MINUTES", {"by": None, "order": "asc"}),
        ("TOPK price, 10 WITH TIES OVER 10 MINUTES", {"ties": "rank"}),
        ("TOPK price, 10 OVER 10 MINUTES EVERY 90 SECONDS", {"slide": "90 seconds"}),
        ("TOPK price, 10 EVERY 1 MINUTE OVER 10 MINUTES", {"slide": "1 minute"}),
        ("TOPK price, 10 OVER '10 minutes'", {}),
        ("TOPK price, 10 OVER INTERVAL '10' MINUTES", {}),
        ("TOPK price, 10 OVER INTERVAL 10 MINUTES", {}),
        ("TOPK price, 10 OVER INTERVAL '10 minutes'", {}),
        ("TOPK price, 10 OVER 10MINUTES", {}),
        ("TOPK price, 10 OVER 0.5 HOURS EVERY 1 MINUTE 30 SECONDS", {"size": "30 minutes", "slide": "90 seconds"}),
        ("TOPK price, 10 OVER 500 ROWS EVERY 1 ROW", {"size": 500, "slide": 1}),
        ("TOPK price, 10 OVER 10 MINUTES ORIGIN '2024-01-01'", {"origin": "2024-01-01"}),
        ("TOPK price, 10 OVER 10 MINUTES ORIGIN -5", {"origin": -5}),
        ("TOPK price, 10 OVER 10 MINUTES FULL WINDOWS ONLY", {"full_only": True}),
        ("TOPK price, 10 OVER 1 WEEK", {"size": "7 days"}),
        ("TOPK price, 10 OVER 1 MONTH AT TIME ZONE 'Asia/Tokyo'", {"size": "1 month", "zone": "Asia/Tokyo"}),
        (
            "TOPK price, 10 EVERY 1 DAY OVER 2 WEEKS CUMULATIVE AT TIME ZONE 'UTC' WEEK START sunday",
            {"size": "2 weeks", "slide": "1 day", "cumulative": True, "zone": "UTC", "week_start": "sunday"},
        ),
        (
            "TOPK price, 10 WHERE zone = 3 OVER 1 DAY CUMULATIVE EVERY 1 MINUTE",
            {"size": "1 day", "slide": "1 minute", "cumulative": True, "where": "zone = 3"},
        ),
        (
            "TOPK price, 10 OVER ALL EVERY 1 HOUR ORIGIN '2024-01-01'",
            {"size": None, "slide": "1 hour", "origin": "2024-01-01"},
        ),
        (
            "TOPK price, 10 OVER 1 DAY AT TIME ZONE 'UTC' ORIGIN '2024-01-01T06:00'",
            {"size": "1 day", "zone": "UTC", "origin": "2024-01-01T06:00"},
        ),
        ("TOPK price, 10 FROM db.trades WHERE a > 1 AND b OVER 10 MINUTES", {"where": "a > 1 AND b"}),
        ("TOPK price, 10 BY a, f(b, c) OVER 10 MINUTES", {"partition_by": ["a", "f(b, c)"]}),
        ("TOPK price, 10 PARTITION BY a OVER 10 MINUTES", {"partition_by": ["a"]}),
        ("-- the best\nTOPK price /* by price */, 10 -- ten\nOVER 10 MINUTES -- end", {}),
        ("TOPK SQL 'pri\\'ce', 10 OVER 10 MINUTES", {"by": "pri'ce"}),
        (
            "TOPK over, 10 WHERE over > by BY every OVER 10 MINUTES",
            {"by": "over", "where": "over > by", "partition_by": ["every"]},
        ),
        ("TOPK rank() OVER (ORDER BY x), 10 OVER 10 MINUTES", {"by": "rank() OVER (ORDER BY x)"}),
        (
            "TOPK sort, 10 WHERE a > sort BY x OVER 10 MINUTES",
            {"by": "sort", "where": "a > sort", "partition_by": ["x"]},
        ),
        ("TOPK price, 10 WHERE a IS DISTINCT FROM b OVER 10 MINUTES", {"where": "a IS DISTINCT FROM b"}),
    ],
)
def test_what_it_says(text, fields):
    assert sb.sql(text) == sb.TopK(**{**BASE, **fields})


def test_an_expression_is_kept_to_the_letter():
    query = sb.sql("TOPK  price   *\n Size , 10 WHERE  a<>'D'  /* no */ OVER 5 ROWS")
    assert (query.by, query.where) == ("price   *\n Size", "a<>'D'")


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("big", "big"),
        ("select", "select"),
        ("show", "show"),
        ("`a ``b``:`", "a `b`:"),
        (r"'it\'s\n'", "it's\n"),
        ('"a b"', "a b"),
        ("größe", "größe"),
    ],
)
@pytest.mark.parametrize(
    "statement",
    [
        "TOPK p, 1 OVER 5 MINUTES",
        "SELECT TOP 1 * FROM t [RANGE 5 MINUTES] ORDER BY p DESC",
        (
            "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY p DESC) AS n "
            "FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' MINUTES))) WHERE n <= 1"
        ),
    ],
)
def test_a_name_stands_in_front(label, name, statement):
    query = sb.TopK(name=name, k=1, size="5 minutes", by="p")
    assert sb.sql(f"{label}: {statement}") == sb.sql(f"{label} :{statement} ;") == query


def test_several_statements_make_a_workload():
    work = sb.sql("a: TOPK x, 1 OVER 5 ROWS;\nTOPK x, 2 OVER 6 ROWS;;\n SELECT TOP 3 * FROM t [ROWS 7] ORDER BY x;")
    assert isinstance(work, sb.Workload)
    assert [(query.name, query.k) for query in work] == [("a", 1), ("topk2", 2), ("topk3", 3)]


def test_numbers_that_are_taken_are_left_out():
    work = sb.sql("TOPK 1 OVER 5 ROWS; topk1: TOPK 2 OVER 5 ROWS; TOPK 3 OVER 5 ROWS; topk3: TOPK 4 OVER 5 ROWS")
    assert [query.name for query in work] == ["topk2", "topk1", "topk4", "topk3"]


def test_a_semicolon_in_quotes_separates_nothing():
    assert sb.sql("TOPK ';', 1 WHERE `;` = 1 -- ;\n OVER 5 ROWS").where == "`;` = 1"


def test_a_statement_has_more_than_its_query():
    one, two = parse("a: TOPK x, 1 FROM s.`t u` OVER 5 ROWS;\n\nTOPK 2 OVER 5 ROWS", name="best")
    assert (one.stream, one.time, one.named, one.spelling, one.line) == ("s.`t u`", None, True, "topk", 1)
    assert (two.query.name, two.stream, two.named, two.line) == ("best2", None, False, 3)


def test_a_default_name_can_be_given():
    assert parse("TOPK 2 OVER 5 ROWS", name="best")[0].query.name == "best"
    assert parse("own: TOPK 2 OVER 5 ROWS", name="best")[0].query.name == "own"


def test_only_text_is_read():
    with pytest.raises(sb.InvalidQueryError, match="a query must be text, got None of type NoneType"):
        sb.sql(None)
