"""Queries over keys in SQL: a score that is an aggregate tells them from the others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import skyband as sb
from skyband.sql.reader import parse
from tests.sql import spell
from tests.sql.strategies import aggregate_queries

ANY_TEXT = st.text(min_size=1).filter(str.strip)
PAGES = {"k": 5, "size": "30 minutes", "slide": "5 minutes", "key": "page_id", "aggregate": "count"}
BY_COUNTRY = {"partition_by": ["country"], "size": 500, "slide": 9}
LATEST_DELETE = {"aggregate": "latest", "value": "delete", "key": "delete"}
CQL = "FROM clicks [RANGE 30 MINUTES SLIDE 5 MINUTES]"
RANKED = "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end"
HOP = "TABLE(HOP(TABLE clicks, DESCRIPTOR(ts), INTERVAL '5' MINUTES, INTERVAL '30' MINUTES))"


@given(query=aggregate_queries())
def test_every_query_comes_back(query):
    text = str(query)
    assert sb.sql(text) == query
    assert "\n" not in text
    assert str(sb.sql(text)) == text


@given(query=aggregate_queries(ANY_TEXT))
def test_even_what_is_no_sql_comes_back(query):
    assert sb.sql(str(query)) == query


# A key that is also a group cannot be told from it in GROUP BY; it is the only one of its group.
@given(query=aggregate_queries().filter(lambda query: query.key not in query.partition_by))
def test_cql_says_every_query(query):
    assert sb.sql(spell.aggregate_cql(query)) == query


@given(
    query=aggregate_queries(clauses=False).filter(
        lambda query: query.key not in query.partition_by and query.axis == "time" and not query.full_only
    )
)
def test_flink_says_every_time_window(query):
    assert sb.sql(spell.aggregate_flink(query)) == query


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("TOPK count(*), 5 BY KEY page_id OVER 30 MINUTES EVERY 5 MINUTES", {}),
        ("topk Count( * ) desc, 5 over 30 minutes by key page_id every 5 minutes", {}),
        ("TOPK count(*), 5 BY page_id OVER 30 MINUTES EVERY 5 MINUTES", {}),
        ("TOPK count(*), 5 BY KEY (page_id) OVER 30 MINUTES EVERY 5 MINUTES", {"key": "(page_id)"}),
        ("TOPK count(*), 5 BY KEY key OVER 30 MINUTES EVERY 5 MINUTES", {"key": "key"}),
        ("TOPK count(*), 5 BY KEY value OVER 30 MINUTES EVERY 5 MINUTES", {"key": "value"}),
        ("TOPK count(*), 5 BY KEY object % 3 OVER 30 MINUTES EVERY 5 MINUTES", {"key": "object % 3"}),
        (
            "TOPK latest(n), 5 BY KEY page_id WITH DELETE WHEN op = 'd' OVER 30 MINUTES EVERY 5 MINUTES",
            {"aggregate": "latest", "value": "n", "delete": "op = 'd'"},
        ),
        (
            "TOPK max(n), 5 BY KEY page_id WITH ROW OVER 30 MINUTES EVERY 5 MINUTES",
            {"aggregate": "max", "value": "n", "row": True},
        ),
        ("TOPK latest(delete), 5 BY delete OVER 30 MINUTES EVERY 5 MINUTES", LATEST_DELETE),
        ("TOPK count(*), 5 WITH TIES BY page_id OVER 30 MINUTES EVERY 5 MINUTES", {"ties": "rank"}),
        ("TOPK count(*) ASC, 5 BY page_id OVER 30 MINUTES EVERY 5 MINUTES", {"order": "asc"}),
        (
            "TOPK count(*), 5 BY page_id HAVING count(*) > 3 AND score < 9 OVER 30 MINUTES EVERY 5 MINUTES",
            {"having": "count(*) > 3 AND score < 9"},
        ),
        ("TOPK count(*), 5 BY method OVER 30 MINUTES EVERY 5 MINUTES", {"key": "method"}),
        ("TOPK count(*), 5 BY key OVER 30 MINUTES EVERY 5 MINUTES", {"key": "key"}),
        ("TOPK count(*), 5 BY key IS NULL OVER 30 MINUTES EVERY 5 MINUTES", {"key": "key IS NULL"}),
        ("TOPK mean(ms), 5 BY KEY page_id OVER 30 MINUTES EVERY 5 MINUTES", {"aggregate": "avg", "value": "ms"}),
        (
            "TOPK sum(SQL 'a -- b'), 5 BY KEY page_id BY country, site OVER 30 MINUTES EVERY 5 MINUTES",
            {"aggregate": "sum", "value": "a -- b", "partition_by": ["country", "site"]},
        ),
        (
            "TOPK count(user), 5 WHERE bot = 0 BY KEY page_id PARTITION BY country OVER 500 ROWS EVERY 9 ROWS",
            {"value": "user", "where": "bot = 0", "partition_by": ["country"], "size": 500, "slide": 9},
        ),
        ("TOPK count(*), 5 BY page_id PARTITION BY country OVER 500 ROWS EVERY 9 ROWS", BY_COUNTRY),
        ("TOPK count(*), 5 PARTITION BY country BY page_id OVER 500 ROWS EVERY 9 ROWS", BY_COUNTRY),
        (f"SELECT TOP 5 * {CQL} GROUP BY page_id ORDER BY count(*) DESC", {}),
        (f"SELECT page_id, count(*) clicks {CQL} GROUP BY page_id ORDER BY clicks DESC LIMIT 5", {}),
        (
            (
                f"SELECT TOP 5 country, page_id, max(ms) {CQL} GROUP BY country, page_id [PARTITION BY country] "
                "ORDER BY max(ms) DESC"
            ),
            {"aggregate": "max", "value": "ms", "partition_by": ["country"]},
        ),
        (
            (
                f"{RANKED} ORDER BY t.n DESC) AS r "
                f"FROM (SELECT window_start, window_end, page_id, COUNT(*) AS n FROM {HOP} "
                "GROUP BY window_start, window_end, page_id) t) WHERE r <= 5"
            ),
            {},
        ),
        (
            (
                f"{RANKED}, c ORDER BY n DESC) AS r "
                f"FROM (SELECT window_time, country AS c, page_id, MIN(ms) n FROM {HOP} AS t WHERE bot = 0 "
                "GROUP BY country, window_start, window_end, window_time, page_id)) WHERE r <= 5"
            ),
            {"aggregate": "min", "value": "ms", "where": "bot = 0", "partition_by": ["country"]},
        ),
    ],
)
def test_what_it_says(text, fields):
    assert sb.sql(text) == sb.AggregateTopK(**{**PAGES, **fields})


def test_the_stream_and_the_time_of_a_window_aggregation():
    text = (
        f"{RANKED} ORDER BY n DESC) AS r "
        f"FROM (SELECT page_id, COUNT(*) AS n FROM {HOP} GROUP BY window_start, window_end, page_id)) WHERE r <= 5"
    )
    (statement,) = parse(text)
    assert (statement.spelling, statement.stream, statement.time) == ("flink", "clicks", "ts")


def test_a_score_of_rows_with_the_words_of_keys_comes_back():
    query = sb.TopK(k=3, size=5, by="count(*)", partition_by=["key (a)", "key"])
    assert str(query) == "TOPK SQL 'count(*)', 3 BY SQL 'key (a)', key OVER 5 ROWS"
    assert sb.sql(str(query)) == query


def test_a_query_over_arrays_has_no_sql():
    assert sb.AggregateTopK(k=3, size=5).to_sql() is None
    assert str(sb.AggregateTopK(k=3, size=5)).startswith("AggregateTopK(")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("TOPK count(*), 5 OVER 1 HOUR", "count(*) ranks keys, but the query has no key"),
        ("TOPK count(*), 5 PARTITION BY page OVER 1 HOUR", "the query has no key"),
        ("TOPK count(*), 5 BY KEY page BY KEY site OVER 1 HOUR", "BY KEY is given twice"),
        ("TOPK count(*), 5 BY page BY site OVER 1 HOUR", "BY is given twice"),
        ("TOPK count(*), 5 BY page PARTITION BY site BY day OVER 1 HOUR", "BY is given twice"),
        ("TOPK price, 5 BY KEY page OVER 1 HOUR", "the score 'price' is not an aggregate"),
        ("TOPK 5 BY KEY page OVER 1 HOUR", "no score is an aggregate"),
        ("TOPK sum(a) / sum(b), 5 BY KEY page OVER 1 HOUR", "the score 'sum(a) / sum(b)' is not an aggregate"),
        ("TOPK 2 * sum(a), 5 BY page OVER 1 HOUR", "sum is an aggregate function, so it has no value for a single row"),
        ("TOPK skewness(a), 5 BY page OVER 1 HOUR", "aggregate must be one of 'sum'"),
        ("TOPK sum(*), 5 BY page OVER 1 HOUR", "sum(*) is not an aggregate"),
        ("TOPK sum(a, b), 5 BY page OVER 1 HOUR", "sum has more than one argument"),
        ("TOPK sum(a), 5 BY page WITH ROW OVER 1 HOUR", "row=True, but the score of aggregate='sum' is not"),
        ("TOPK sum(), 5 BY page OVER 1 HOUR", "expected the value of sum, got ')'"),
        ("TOPK sum(a), 5 BY KEY page PROBABILITY p OVER 1 HOUR", "does not support aggregates and keys"),
        (f"SELECT TOP 5 page {CQL} ORDER BY count(*) DESC", "a list of columns is not supported"),
        (f"SELECT TOP 5 * {CQL} ORDER BY count(*) DESC", "the query has no key"),
        (
            f"SELECT TOP 5 page, sum(a), count(*) {CQL} GROUP BY page ORDER BY count(*) DESC",
            "answers contain one score",
        ),
        (f"SELECT TOP 5 page, site, count(*) {CQL} GROUP BY page ORDER BY count(*) DESC", "site is not in GROUP BY"),
        (f"SELECT TOP 5 page, count(*) {CQL} GROUP BY page ORDER BY clicks DESC", "the score 'clicks' is not an aggr"),
        (f"SELECT TOP 5 * {CQL} GROUP BY page HAVING page > 3 ORDER BY count(*) DESC", "must begin with 'score'"),
        (
            (
                f"{RANKED} ORDER BY n DESC) AS r "
                f"FROM (SELECT page, COUNT(*) AS n FROM {HOP} GROUP BY window_start, page)) WHERE r <= 5"
            ),
            "window_end is missing",
        ),
        (
            (f"{RANKED} ORDER BY n DESC) AS r FROM (SELECT page, COUNT(*) AS n FROM {HOP})) WHERE r <= 5"),
            "expected GROUP, got ')'",
        ),
    ],
)
def test_what_is_refused(text, message):
    with pytest.raises(sb.InvalidSQLError) as caught:
        sb.sql(text)
    assert message in str(caught.value)
