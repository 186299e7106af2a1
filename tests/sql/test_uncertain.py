"""Queries over uncertain streams in SQL: PROBABILITY and FREQUENCY tell them from the others."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skyband as sb
from skyband.sql.reader import parse
from tests.sql import spell
from tests.sql.strategies import uncertain_queries

ANY_TEXT = st.text(min_size=1).filter(str.strip)
SHORT = "TOPK speed, 3 PROBABILITY confidence OVER 20 MINUTES FREQUENCY 2 MINUTES"
CQL = "SELECT TOP 3 * FROM s [RANGE 20 MINUTES]"
FAST = {"k": 3, "size": "20 minutes", "every": "2 minutes", "by": "speed", "probability": "confidence"}


@given(query=uncertain_queries())
def test_every_query_comes_back(query):
    text = str(query)
    assert sb.sql(text) == query
    assert "\n" not in text
    assert str(sb.sql(text)) == text


@given(query=uncertain_queries(ANY_TEXT))
def test_even_what_is_no_sql_comes_back(query):
    assert sb.sql(str(query)) == query


@given(query=uncertain_queries(scored=True))
def test_cql_says_every_query_with_a_score(query):
    assert sb.sql(spell.uncertain_cql(query)) == query


@given(found=st.lists(uncertain_queries(), min_size=1, max_size=3, unique_by=lambda query: query.name))
def test_every_workload_comes_back(found):
    size = found[0].size  # which the queries of a class have in common
    work = sb.Workload([query for query in found if query.size == size])
    assert sb.Workload(sb.sql(str(work))) == work


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (SHORT, {}),
        ("SELECT TOP 3 * FROM s [RANGE 20 MINUTES FREQUENCY 2 MINUTES] PROBABILITY confidence ORDER BY speed DESC", {}),
        ("topk speed desc, 3 over 20 minutes frequency interval '2' minutes probability confidence", {}),
        ("TOPK speed, 3 PROBABILITY confidence OVER 20 MINUTES", {"every": "20 minutes"}),
        ("TOPK speed, 3 OVER 20 MINUTES FREQUENCY 2 MINUTES", {"probability": "probability"}),
        ("TOPK speed, 3 PROBABILITY confidence OVER 90 ROWS FREQUENCY 9 ROWS", {"size": 90, "every": 9}),
        (
            f"{SHORT} RULE car SEMANTICS pt-k THRESHOLD 0.25",
            {"rule": "car", "semantics": "pt-k", "threshold": 0.25},
        ),
        (f"{SHORT} STREAM sensor", {"stream": "sensor"}),
        (f"{SHORT} SEMANTICS PRF WEIGHTS (1, 0.5, -2e-1)", {"semantics": "prf", "weights": [1, 0.5, -0.2]}),
        (f"{SHORT} ALPHA 0.9 SEMANTICS prf", {"semantics": "prf", "alpha": 0.9}),
        (
            f"{CQL} WHERE location = 'X' ORDER BY speed DESC PROBABILITY confidence FREQUENCY 2 MINUTES",
            {"where": "location = 'X'"},
        ),
        (
            f"{CQL} FREQUENCY 2 MINUTES RULE car SEMANTICS 'u-topk' PROBABILITY confidence ORDER BY speed DESC",
            {"rule": "car", "semantics": "u-topk"},
        ),
    ],
)
def test_what_it_says(text, fields):
    assert sb.sql(text) == sb.UncertainTopK(**{**FAST, **fields})


def test_the_papers_query_needs_a_column_of_that_name():
    (statement,) = parse("SELECT TOP 3 * FROM SENSOR [RANGE 20 MINUTES] ORDER BY speed DESC FREQUENCY 2 MINUTES")
    assert (statement.stream, statement.spelling) == ("SENSOR", "cql")
    assert statement.query.probability == "probability"


# The queries of the paper on shared plans: k and the minutes of FREQUENCY.
PAPER = ((3, 2), (2, 2), (4, 3), (3, 5), (5, 5), (2, 7))


def as_printed(number):
    """A query with the words, columns and line breaks in which the paper prints it."""
    k, minutes = PAPER[number - 1]
    clauses = {
        f"Q{number}:  SELECT": f"top-{k}",
        "      FROM  ": "SENSOR [Range 20 mins]",
        "      WHERE ": "SENSOR.location=X",
        "      FREQUENCY": f"{minutes} mins",
    }
    return "\n" + "".join(f"{word:<18}{rest}\n" for word, rest in clauses.items())


# The blocks of the paper: the first two queries alone, the others together.
PRINTED = (as_printed(1).lstrip(), as_printed(2) + "\n", "".join(map(as_printed, (3, 4, 5, 6))) + "\n")


def test_the_papers_queries_as_printed():
    wanted = [
        sb.UncertainTopK(
            name=f"Q{number}",
            k=k,
            size="20 minutes",
            every=f"{minutes} minutes",
            by="score",
            probability="probability",
            where="SENSOR.location=X",
        )
        for number, (k, minutes) in enumerate(PAPER, 1)
    ]
    assert [sb.sql(text) for text in PRINTED[:2]] == wanted[:2]
    assert list(sb.sql(PRINTED[2])) == wanted[2:]
    work = sb.sql("".join(PRINTED))
    assert list(work) == wanted
    assert {statement.stream for statement in parse("".join(PRINTED))} == {"SENSOR"}
    plan = sb.uncertain.schedule([(query.window.slide // 60_000_000, query.k) for query in work])
    assert (plan.cycle, plan.cost_per_unit) == (4, 2.25)  # section 6
    assert sb.Workload(sb.sql(str(work))) == work


def test_the_papers_queries_on_the_papers_readings():
    """The first two queries over table 1, with the filter replaced by one that its columns have."""
    minute = 60_000_000
    readings = {
        "ts": pa.array([minute * m for m in (5, 10, 10, 15, 20, 20)], pa.timestamp("us")),
        "score": [80, 65, 45, 30, 50, 25],
        "probability": [0.3, 0.4, 0.5, 1.0, 0.8, 0.2],
        "pair": [None, "GR1", "GR1", None, "GR2", "GR2"],
        "location": ["X"] * 6,
    }
    text = "".join(PRINTED[:2]).replace("SENSOR.location=X", "location='X' RULE pair")
    found = sb.uncertain.replay(sb.sql(text), pa.table(readings), time="ts", plan="none").to_pylist()
    at = max(row["time"] for row in found if row["time"].minute <= 22)  # all six readings are in this window
    answers = [(row["query"], row["score"]) for row in found if row["time"] == at]
    assert sorted(answers) == [("Q1", 30), ("Q1", 45), ("Q1", 50), ("Q2", 50), ("Q2", 65)]


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("SELECT TOP-3 FROM s [RANGE 9 MINUTES]", 38, "ORDER BY defines which objects are best"),
        ("SELECT TOP -3 FROM s [RANGE 9 MINUTES] FREQUENCY 1 MINUTE", 15, "answers contain whole rows: write SELECT *"),
        ("SELECT TOP- 3 * FROM s [RANGE 9 MINUTES] FREQUENCY 1 MINUTE", 11, "k must be between 1 and"),
        ("SELECT TOP-x FROM s [RANGE 9 MINUTES] FREQUENCY 1 MINUTE", 12, "expected k after TOP, got 'x'"),
    ],
)
def test_a_hyphen_after_top(text, column, message):
    with pytest.raises(sb.InvalidSQLError) as caught:
        sb.sql(text)
    assert (caught.value.column, message in str(caught.value)) == (column, True)


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("TOPK a, 3 PROBABILITY p OVER 5 ROWS EVERY 1 ROW", 43, "does not support a slide"),
        ("TOPK a, 3 PROBABILITY p BY b, b OVER 5 ROWS", 31, "group 'b' is given twice"),
        (
            "TOPK a, 3 WITH TIES PROBABILITY p OVER 5 ROWS",
            11,
            "of equal probabilities the row with the higher score ranks first",
        ),
        ("TOPK a, 3 PROBABILITY p OVER 5 ROWS ORIGIN 3", 44, "time starts with the first row"),
        ("TOPK a, 3 PROBABILITY p OVER 5 ROWS FULL WINDOWS ONLY", 37, "does not support FULL WINDOWS ONLY"),
        ("TOPK a, 3 PROBABILITY OVER 5 ROWS", 23, "the probability of a row after PROBABILITY is incomplete"),
        ("TOPK a, 3 PROBABILITY p RULE OVER 5 ROWS", 30, "the label of rows that exclude each other"),
        ("TOPK a, 3 PROBABILITY p PROBABILITY q OVER 5 ROWS", 25, "PROBABILITY is given twice"),
        ("TOPK a, 3 PROBABILTY p OVER 5 ROWS", 11, "did you mean PROBABILITY?"),
        ("TOPK a, 3 OVER 5 ROWS FREQUENCY 6 ROWS", 33, "every must be between 1 and 5 (the window size), got 6"),
        ("TOPK a, 3 OVER 5 ROWS FREQUENCY 1 MINUTE", 33, "different axes"),
        ("TOPK a, 3 OVER 5 ROWS FREQUENCY 6", 34, "expected a unit after 6"),
        ("TOPK a, 3 PROBABILITY p OVER 5 ROWS SEMANTICS best", 47, "semantics must be one of 'pk-topk'"),
        ("TOPK a, 3 PROBABILITY p OVER 5 ROWS SEMANTICS", 46, "one of PK-TOPK, GLOBAL-TOPK"),
        (
            "TOPK a, 3 PROBABILITY p OVER 5 ROWS SEMANTICS PT-K THRESHOLD 2",
            62,
            "threshold=2.0 must be a number in (0, 1]",
        ),
        ("TOPK a, 3 PROBABILITY p OVER 5 ROWS SEMANTICS PT-K THRESHOLD -1", 62, "threshold=-1.0 must be a number in"),
        ("TOPK a, 3 PROBABILITY p SEMANTICS PT-K OVER 5 ROWS", 35, "hint: the minimum probability of being in"),
        ("TOPK a, 3 PROBABILITY p SEMANTICS PRF OVER 5 ROWS", 35, "SEMANTICS PRF needs WEIGHTS or ALPHA"),
        ("TOPK a, 3 PROBABILITY p SEMANTICS PRF OVER 5 ROWS WEIGHTS 1", 59, "as in WEIGHTS (1, 0.5, 0.25)"),
        ("TOPK a, 3 PROBABILITY p SEMANTICS PRF OVER 5 ROWS WEIGHTS (1, x)", 63, "expected a number after WEIGHTS"),
        ("TOPK a, 3 PROBABILITY p SEMANTICS PRF OVER 5 ROWS WEIGHTS (1", 61, "expected ')'"),
        ("TOPK a, 3 PROBABILITY p SEMANTICS PRF OVER 5 ROWS WEIGHTS (0)", 59, "weights must be a list of"),
        ("TOPK a, 3 PROBABILITY p SEMANTICS PRF OVER 5 ROWS ALPHA 2", 57, "alpha=2.0 must be a number in (0, 1]"),
        ("TOPK a, 3 PROBABILITY p OVER 5 ROWS THRESHOLD much", 47, "expected a number after THRESHOLD"),
        (
            "TOPK a, 3 PROBABILITY p OVER 5 ROWS THRESHOLD 0.5",
            47,
            "threshold=0.5 is not supported with semantics='pk-topk'",
        ),
    ],
)
def test_what_is_wrong_is_said_at_its_place(text, column, message):
    with pytest.raises(sb.InvalidSQLError) as caught:
        sb.sql(text)
    assert (caught.value.line, caught.value.column) == (1, column)
    assert message in str(caught.value)


def test_families_are_not_mixed():
    with pytest.raises(sb.InvalidQueryError, match="famil"):
        sb.sql("a: TOPK x, 1 OVER 5 ROWS; b: TOPK x, 1 PROBABILITY p OVER 5 ROWS")


@pytest.mark.parametrize(
    "text",
    [
        "TOPK a, 3 PROBABILITY p PARTITION BY g, upper(h) OVER 5 ROWS",
        "TOPK a, 3 PROBABILITY p BY g, upper(h) OVER 5 ROWS",
        "SELECT TOP 3 * FROM r [ROWS 5] PROBABILITY p PARTITION BY g, upper(h) ORDER BY a DESC FREQUENCY 5 ROWS",
    ],
)
def test_groups(text):
    query = sb.UncertainTopK(k=3, size=5, by="a", probability="p", partition_by=["g", "upper(h)"])
    assert sb.sql(text) == query
    assert "PARTITION BY g, upper(h)" in str(query)
