"""Expressions that reach beyond their row: found whatever they look like, and no others."""

from __future__ import annotations

import pytest

import skyband as sb
from skyband.sqltext.reach import beyond_the_row
from skyband.workfile.admitting import refuse_reaching_out


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
        sb.IncompleteTopK(name="q", k=1, size=5, object=BAD, stream="s", value="v", streams=["r"]),
        sb.IncompleteTopK(name="q", k=1, size=5, object="o", stream=BAD, value="v", streams=["r"]),
        sb.UncertainTopK(name="q", k=1, size=5, by="x", probability=BAD),
        sb.UncertainTopK(name="q", k=1, size=5, by="x", probability="p", rule=BAD),
        sb.UncertainTopK(name="q", k=1, size=5, by="x", probability="p", stream=BAD),
    ],
    ids=repr,
)
def test_every_expression_of_a_query_is_looked_at(query):
    with pytest.raises(sb.UnsupportedError, match=r"beyond the row \(reflect\).*Put such a query into the file"):
        refuse_reaching_out(query)


def test_others_may_join():
    refuse_reaching_out(sb.TopK(name="q", k=1, size=5, by="x", where="y > 1", partition_by=["z"]))
    refuse_reaching_out(sb.TopK(name="q", k=1, size=5))
