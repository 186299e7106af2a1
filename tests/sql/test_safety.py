"""Expressions that reach beyond their row: found whatever they look like, and no others."""

from __future__ import annotations

import pytest

import skyband as sb
from skyband.sql.safety import beyond_the_row, comment_in
from skyband.workload_file.live_query_limits import read_query, refuse_reaching_out, refuse_unfit


@pytest.mark.parametrize(
    "text",
    [
        "reflect('java.lang.System', 'exit', 1)",
        "1 + ReFlect ('java.lang.System', 'exit', 1)",
        "`reflect`('java.lang.System', 'exit')",
        "/* x */ java_method/* y */('a', 'b')",
        "try_reflect('a', 'b') IS NULL",
        "system.builtin.reflect('a', 'b')",
        "coalesce(price, reflect('a', 'b'))",
        "identifier('ref' || 'lect')('a', 'b')",
        "(SELECT max(value) FROM text.`/etc/passwd`)",
        "exists(select 1)",
        "price IN (SELECT 1)",
        "(TABLE secrets)",
        "( VALUES 1 )",
        "(FROM t SELECT x)",
        "(WITH a AS (VALUES 1) TABLE a)",
        "(FROM t MAP a USING 'cat')",
    ],
)
def test_found(text):
    assert beyond_the_row(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "price * shares",
        "extract(HOUR FROM at)",
        "substring(name FROM 2 FOR 3)",
        "reflect",
        "reflect + java_method",
        "'SELECT reflect(1)'",
        "`select` > 1",
        "map('a', 1)['a']",
        "cast(x AS decimal(10, 2))",
        "filter(kafka_headers, h -> h.key = 'trace')",
        "case when x then (y) else 'using' end",
    ],
)
def test_let_alone(text):
    assert beyond_the_row(text) is None


BAD = "reflect('a', 'b')"


@pytest.mark.parametrize(
    "query",
    [
        sb.TopK(name="q", k=1, size=5, by=BAD),
        sb.TopK(name="q", k=1, size=5, by="x", where=BAD),
        sb.TopK(name="q", k=1, size=5, by="x", partition_by=["x", BAD]),
        sb.AggregateTopK(name="q", k=1, size=5, key=BAD, value="x"),
        sb.AggregateTopK(name="q", k=1, size=5, key="x", value=BAD),
        sb.AggregateTopK(name="q", k=1, size=5, key="x", value="v", aggregate="latest", delete=f"{BAD} = 'd'"),
        sb.IncompleteTopK(name="q", k=1, size=5, object=BAD, stream="s", value="v", streams=["r"]),
        sb.IncompleteTopK(name="q", k=1, size=5, object="o", stream=BAD, value="v", streams=["r"]),
        sb.UncertainTopK(name="q", k=1, size=5, by="x", probability=BAD),
        sb.UncertainTopK(name="q", k=1, size=5, by="x", probability="p", rule=BAD),
        sb.UncertainTopK(name="q", k=1, size=5, by="x", probability="p", stream=BAD),
    ],
    ids=repr,
)
def test_every_expression_of_a_query_is_looked_at(query):
    with pytest.raises(sb.UnsupportedError, match=r"uses reflect, which is not allowed .*Add the query to the file"):
        refuse_reaching_out(query)


def test_others_may_join():
    refuse_reaching_out(sb.TopK(name="q", k=1, size=5, by="x", where="y > 1", partition_by=["z"]))
    refuse_reaching_out(sb.TopK(name="q", k=1, size=5))


CLIMBED = "price /* /*+ */ + cast(reflect('java.lang.Integer','parseInt','41') as int) -- */\n * 1"


@pytest.mark.parametrize(
    "text",
    [
        CLIMBED,
        "price -- cheap",
        "price--1",
        "price /* x */ + 1",
        "/*+ BROADCAST(t) */ price",
        "price */",
        "price # x",
        "price {# x #}",
        "'closed' -- 'open",
        "'it''s' -- x",
        "`a``b` -- x",
        '"a" /* "b" */',
        r"'a\' -- b'",  # where the text ends depends on a setting of Spark
        r"r'a\' -- b'",
        "$$ -- $$",
        "'never closed -- x",
        "price --\r+ 1",
        "price\n--\n+ 1",
    ],
)
def test_comments_are_found(text):
    assert comment_in(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "price - -1",
        "price / 2 * 3",
        "name = '-- no'",
        "name = '/* no */'",
        'name = "#1"',
        "`a--b` > 1",
        "'it''s -- x'",
        "a->b",
    ],
)
def test_what_is_no_comment_is_let_alone(text):
    assert comment_in(text) is None


@pytest.mark.parametrize(
    "sql",
    [
        f"x: TOPK {CLIMBED}, 1 OVER 5 SECONDS",
        "x: TOPK price, 1 OVER 5 SECONDS -- done",
        "x: TOPK SQL 'price /* a */ + 1', 1 OVER 5 SECONDS",
        "x: TOPK price, 1 BY SQL 'upper(name) -- a' OVER 5 SECONDS",
    ],
)
def test_messages_have_no_comments(sql):
    """Whoever reads them, `ctl` or the page: in the message itself, or in a text that is taken as an expression."""
    with pytest.raises(sb.UnsupportedError, match="cannot contain comments or hints"):
        refuse_unfit({"s": sb.Workload([sb.TopK(name="q", k=1, size="1 hour", by="x")])}, read_query(sql, "s")[0])


def test_a_running_job_takes_no_query_since_a_landmark():
    """Rows that were read before are not stored for it."""
    known, added = sb.TopK(name="q", k=1, size="1 hour", by="x"), "ever: TOPK x, 1 OVER ALL EVERY 1 HOUR"
    with pytest.raises(sb.InvalidQueryError, match=r"size=None: query 'ever' ranks everything since 1970-01-01"):
        refuse_unfit({"s": sb.Workload([known])}, read_query(added, "s")[0])
    refuse_unfit({"s": sb.Workload([known])}, read_query(added, "s")[0], has_past=True)
    refuse_unfit({"s": sb.Workload([known])}, read_query("visits: TOPK x, 1 BY g OVER SESSION 1 HOUR", "s")[0])
