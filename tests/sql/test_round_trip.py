"""Writing a query down and reading it back loses nothing, whatever is in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import skyband as sb
from skyband.sql import writer
from tests.sql import spell
from tests.sql.strategies import ATOMS, expressions, queries

ANY_TEXT = st.text(min_size=1).filter(str.strip)  # single surrogates too
SCRAPS = st.lists(
    st.sampled_from(
        ["a", "(", ")", "[", "]", ",", ";", "'", "`", '"', "\\", "--", "/*", "*/", "SQL", "OVER", "10", " "]
    )
).map("".join)


@given(query=queries())
def test_every_query_comes_back(query):
    text = str(query)
    assert sb.sql(text) == query
    assert "\n" not in text
    assert str(sb.sql(text)) == text


@given(query=queries(st.one_of(ANY_TEXT, SCRAPS.filter(str.strip))))
def test_even_what_is_no_sql_comes_back(query):
    assert sb.sql(str(query)) == query


@given(query=queries(scored=True))
def test_cql_says_every_query_with_a_score(query):
    assert sb.sql(spell.cql(query)) == query


@given(query=queries(scored=True).filter(lambda query: query.axis == "time" and not query.full_only))
def test_flink_says_every_time_window(query):
    assert sb.sql(spell.flink(query)) == query


@given(found=st.lists(queries(), min_size=1, max_size=4, unique_by=lambda query: query.name))
def test_every_workload_comes_back(found):
    axis = found[0].axis
    work = sb.Workload([query for query in found if query.axis == axis])
    assert sb.Workload(sb.sql(str(work))) == work
    if len(work) > 1:
        assert sb.sql(str(work)) == work


def test_the_default_name_survives_in_a_workload():
    work = sb.Workload([sb.TopK(k=1, size=5), sb.TopK(name="topk1", k=2, size=5)])
    assert sb.sql(str(work)) == work


@given(text=expressions())
def test_valid_sql_on_one_line_stands_as_it_is(text):
    # Comments, new lines and the like are what may be quoted; anything else is shown as the user wrote it.
    if text.isprintable() and "--" not in text:
        assert writer.expression(text) == text


@given(text=ATOMS)
def test_a_column_named_like_a_keyword_needs_no_quotes(text):
    query = sb.TopK(k=3, size=10, by=text, where=f"{text} = {text}", partition_by=[text])
    assert "SQL '" not in str(query).replace("'SQL \\'x\\''", "")
    assert sb.sql(str(query)) == query


@pytest.mark.parametrize(
    ("query", "text"),
    [
        (sb.TopK(k=3, size=10), "TOPK 3 OVER 10 ROWS"),
        (sb.TopK(k=3, size=1, order="asc"), "TOPK 3 ASC OVER 1 ROW"),
        (sb.TopK(k=3, size=10, slide=1, by="10"), "TOPK 10, 3 OVER 10 ROWS EVERY 1 ROW"),
        (sb.TopK(k=3, size="90 min" + "utes", by="a", order="asc"), "TOPK a ASC, 3 OVER 1 HOUR 30 MINUTES"),
        (
            sb.TopK(k=3, size=5, by="a", ties="rank", full_only=True),
            "TOPK a, 3 WITH TIES OVER 5 ROWS FULL WINDOWS ONLY",
        ),
        (sb.TopK(k=3, size=5, by="a", origin=-7), "TOPK a, 3 OVER 5 ROWS ORIGIN -7"),
        (
            sb.TopK(k=3, size="1 day", by="a", origin="2024-01-01T09:30:00+00:00"),
            "TOPK a, 3 OVER 1 DAY ORIGIN '2024-01-01T09:30:00Z'",
        ),
        (sb.TopK(k=3, size="1 day", origin=-(2**61)), f"TOPK 3 OVER 1 DAY ORIGIN {-(2**61)}"),
        (sb.TopK(name="a b", k=3, size=5), "'a b': TOPK 3 OVER 5 ROWS"),
        (sb.TopK(name="it's\n", k=3, size=5), r"'it\'s\n': TOPK 3 OVER 5 ROWS"),
        (sb.TopK(name="over", k=3, size=5), "over: TOPK 3 OVER 5 ROWS"),
        (sb.TopK(k=3, size=5, where="origin > every"), "TOPK 3 WHERE origin > every OVER 5 ROWS"),
        (sb.TopK(k=3, size=5, where="a > 1\nAND b"), r"TOPK 3 WHERE SQL 'a > 1\nAND b' OVER 5 ROWS"),
        (sb.TopK(k=3, size=5, by="a )("), "TOPK SQL 'a )(', 3 OVER 5 ROWS"),
        (sb.TopK(k=3, size=5, by=" a "), "TOPK SQL ' a ', 3 OVER 5 ROWS"),
        (sb.TopK(k=3, size=5, by="price desc"), "TOPK SQL 'price desc', 3 OVER 5 ROWS"),
        (sb.TopK(k=3, size=5, by="SQL 'a'"), r"TOPK SQL 'SQL \'a\'', 3 OVER 5 ROWS"),
        (sb.TopK(k=3, size=5, by="a -- b"), "TOPK SQL 'a -- b', 3 OVER 5 ROWS"),
        (sb.TopK(k=3, size=5, by="a, b"), "TOPK SQL 'a, b', 3 OVER 5 ROWS"),
        (sb.TopK(k=3, size=5, by="a\ud800"), r"TOPK SQL 'a\ud800', 3 OVER 5 ROWS"),
    ],
    ids=str,
)
def test_the_canonical_form(query, text):
    assert str(query) == text
    assert sb.sql(text) == query


def words_of_sqlglot():
    from sqlglot.dialects.spark import Spark

    parts = {*Spark.Tokenizer.KEYWORDS, *Spark.parser_class.FUNCTIONS, *Spark.parser_class.FUNCTION_PARSERS}
    return sorted({word for part in parts for word in str(part).split() if word.isidentifier()})


def test_what_is_called_simple_without_a_parser_is_so_with_one():
    words = words_of_sqlglot()
    assert len(words) > 500
    for at, word in enumerate(words):
        other = words[(at * 389 + 17) % len(words)]
        for text in (word, f"{word.lower()} * a", f"a - {word}", f"{word} / {word}", f"a * {word} / {other}"):
            assert not writer._is_simple(text) or writer.is_cut_out_again(text), text


def test_every_word_of_sql_can_be_a_name_or_a_column():
    words = words_of_sqlglot()
    work = sb.Workload([sb.TopK(name=word, k=1, size=5, by=word, where=f"{word} > 1") for word in words])
    assert sb.sql(str(work)) == work


def test_a_deep_expression_is_taken_unchecked():
    deep = "(" * 3000 + "a" + ")" * 3000
    query = sb.TopK(k=1, size=5, by=deep)
    assert str(query) == f"TOPK {deep}, 1 OVER 5 ROWS"
    assert sb.sql(str(query)) == query
