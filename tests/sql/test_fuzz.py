"""Whatever text comes in, a query comes out or one of our errors: never sqlglot's, never a traceback of the parser."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import skyband as sb
from skyband.sql.lexer import tokenize
from tests.sql import spell
from tests.sql.strategies import ATOMS, queries
from tests.sql.test_flink import CQL, FLINK, SHORT

TEXTS = [FLINK, CQL, SHORT, f"a: {SHORT};\nb: {CQL};\n{FLINK}", "'x': TOPK 3 ASC WITH TIES OVER 5 ROWS ORIGIN -5"]
SCRAPS = [
    *[
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ";",
        ":",
        "'",
        '"',
        "`",
        "\\",
        "--",
        "/*",
        "*/",
        "/*+",
        "{{",
        "}}",
        "{%",
        "=>",
    ],
    *["->", "::", ".", "*", "-", "\n", "\x00", "\u2028", "😀", "TOPK", "SELECT", "OVER", "BY", "ORDER BY", "WHERE"],
    *["FROM", "CASE", "END", "INTERVAL", "10", "1e999", "0x", "10L", "x'Z'", "SHOW", "BEGIN", "NULLS", "AS", "SQL '"],
    *["TABLE", "LATERAL VIEW", "PIVOT", "MATCH_RECOGNIZE", "QUALIFY", "VALUES", "$", "@", "?", "#", "%"],
]


def read(text):
    """Read the text, or be told why not."""
    try:
        found = sb.sql(text)
    except sb.SkybandError as error:
        found, told = None, str(error)
    else:
        told = ""
    assert found is None or isinstance(found, sb.TopK | sb.Workload)
    assert "sqlglot" not in told
    return found


@st.composite
def damaged(draw):
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(1, 4))):
        at, length = draw(st.integers(0, len(text))), draw(st.integers(0, 8))
        text = (
            text[:at] + draw(st.one_of(st.just(""), st.sampled_from(SCRAPS), st.text(max_size=3))) + text[at + length :]
        )
    return text


@given(text=damaged())
def test_a_damaged_statement(text):
    read(text)


@pytest.mark.parametrize("text", TEXTS)
def test_a_statement_cut_short(text):
    for end in range(len(text)):
        read(text[:end])


@pytest.mark.parametrize("text", TEXTS)
def test_a_token_taken_out_doubled_or_swapped(text):
    tokens = tokenize(text)
    for at, token in enumerate(tokens):
        read(text[: token.start] + text[token.end :])
        read(text[: token.end] + " " + text[token.start :])
        other = tokens[(at * 7 + 3) % len(tokens)]
        read(text[: token.start] + other.text + text[token.end :])


@given(scraps=st.lists(st.one_of(st.sampled_from(SCRAPS), ATOMS), max_size=12))
def test_scraps_behind_a_beginning(scraps):
    for beginning in ("TOPK ", "SELECT TOP 5 * FROM t [", "TOPK a, 1 WHERE ", "SELECT * FROM (SELECT *, "):
        read(beginning + " ".join(scraps))


@given(text=st.text())
def test_any_text(text):
    read(text)
    read(f"TOPK {text}, 1 OVER 5 ROWS")


@given(query=queries(scored=True), at=st.floats(0, 1))
def test_a_hostile_query_cut_short(query, at):
    for text in (str(query), spell.cql(query)):
        read(text[: int(at * len(text))])


@pytest.mark.parametrize(
    "inner",
    [
        "(" * 20_000 + "a" + ")" * 20_000,
        "f(" * 5_000 + "a" + ")" * 5_000,
        "a[" * 5_000 + "0" + "]" * 5_000,
        "CASE WHEN a THEN " * 2_000 + "b" + " END" * 2_000,
        "NOT " * 5_000 + "a",
        "- " * 5_000 + "a",
        " + ".join(["a"] * 5_000),
        " AND ".join(["a"] * 5_000),
        "'" + "x" * 500_000 + "'",
        "a" * 500_000,
        "1" * 100_000,
    ],
    ids=lambda text: text[:12],
)
@pytest.mark.long
def test_long_and_deep_texts(inner):
    found = read(f"TOPK {inner}, 10 WHERE {inner} OVER 5 ROWS")
    assert found is not None
    assert found.by == found.where == inner
    read(f"TOPK {inner}")
    read("(" * 20_000)
    read(f"TOPK {inner[: len(inner) // 2]}, 10 OVER 5 ROWS")
    read(f"TOPK price, {inner} OVER {inner} ROWS")


def test_a_thousand_statements():
    text = ";\n".join(f"TOPK price, {k} OVER 500 ROWS" for k in range(1, 1001))
    work = sb.sql(text)
    assert len(work) == 1000
    assert sb.sql(str(work)) == work
