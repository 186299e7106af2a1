"""What is wrong with a text is said at its place: line, column, the line itself with a caret, and what helps."""

from __future__ import annotations

import pickle

import pytest

import skyband as sb

C = "SELECT TOP 5 * FROM t [RANGE 10 MINUTES] "
F = """SELECT * FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY p DESC) AS rn
  FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '10' MINUTES))
) WHERE rn <= 5"""


def flink(old, new):
    assert old in F
    return F.replace(old, new)


WRONG = [
    # beginnings
    ("", 1, 1, "the text contains no statement"),
    ("  ;\n; ", 1, 1, "the text contains no statement"),
    ("price, 10 OVER 5 ROWS", 1, 1, "a query begins with TOPK or SELECT"),
    ("TOPKK price, 10 OVER 5 ROWS", 1, 1, "did you mean TOPK?"),
    ("SELCT TOP 5 * FROM t [ROWS 5] ORDER BY p", 1, 1, "did you mean SELECT?"),
    ("UPDATE t SET a = 1", 1, 1, "expected TOPK or SELECT, got 'UPDATE'"),
    ("SHOW TABLES", 1, 1, "expected TOPK or SELECT, got 'SHOW'"),
    ("big TOPK price, 10 OVER 5 ROWS", 1, 1, "a colon is missing between the name 'big' and TOPK"),
    ("'': TOPK price, 10 OVER 5 ROWS", 1, 1, "must not be empty"),
    ("a: TOPK 1 OVER 5 ROWS;\na: TOPK 2 OVER 5 ROWS", 2, 1, "the name 'a' is used by more than one query"),
    # the short spelling
    ("TOPK", 1, 5, "expected the score or k, got the end of the statement"),
    ("TOPK , 10 OVER 5 ROWS", 1, 6, "expected the score or k, got ','"),
    ("TOPK price OVER 5 ROWS", 1, 12, "expected a comma and k after the score"),
    ("TOPK price, OVER 5 ROWS", 1, 13, "k is the number of objects in an answer"),
    ("TOPK price, 1.5 OVER 5 ROWS", 1, 13, "expected k, got '1.5'"),
    ("TOPK price, -1 OVER 5 ROWS", 1, 13, "k must be between 1 and 2147483647, got -1"),
    ("TOPK price, 10 ASC OVER 5 ROWS", 1, 16, "as in TOPK price ASC, 10"),
    ("TOPK price 10 OVER 5 ROWS", 1, 12, "the form is TOPK score, k"),
    ("TOPK 10 price OVER 5 ROWS", 1, 9, "the form is TOPK score, k"),
    ("TOPK price, 10", 1, 15, "expected OVER and the size of the window"),
    ("TOPK price, 10 WITH OVER 5 ROWS", 1, 21, "expected TIES"),
    ("TOPK price, 10 OVER", 1, 20, "write 10 MINUTES"),
    ("TOPK price, 10 OVER MINUTES", 1, 21, "expected the size of the window, got 'MINUTES'"),
    ("TOPK price, 10 OVER (5 ROWS)", 1, 21, "expected the size of the window, got '('"),
    ("TOPK price, 10 OVER 5", 1, 22, "expected a unit after 5"),
    ("TOPK price, 10 OVER 5 EVERY 1", 1, 23, "expected a unit after 5, such as MINUTES or ROWS, got 'EVERY'"),
    ("TOPK price, 10 OVER 5 PARSECS", 1, 21, "unit 'PARSECS' is unknown"),
    ("TOPK price, 10 OVER 5 minuts", 1, 21, "did you mean 'minutes'?"),
    ("TOPK price, 10 OVER 1 MONTH", 1, 21, "a month has no fixed length"),
    ("TOPK price, 10 OVER 0 ROWS", 1, 21, "size must be at least 1, got 0"),
    ("TOPK price, 10 OVER 5 ROWS EVERY 6 ROWS", 1, 34, "slide must be between 1 and 5 (the window size), got 6"),
    ("TOPK price, 10 OVER 5 ROWS EVERY 1 MINUTE", 1, 34, "different axes"),
    ("TOPK price, 10 OVER 5 ROWS OVER 6 ROWS", 1, 28, "OVER is given twice"),
    ("TOPK price, 10 OVER 5 ROWS SLIDE 1 ROW", 1, 28, "write the slide with EVERY"),
    ("TOPK price, 10\nOVER 5 MINUTES\nEVRY 1 MINUTE", 3, 1, "did you mean EVERY?"),
    ("TOPK price, 10\r\n\tOVR 5 MINUTES", 2, 2, "did you mean OVER?"),
    ("TOPK price, 10 OVER 5 ROWS ORIGIN", 1, 34, "write ORIGIN '2024-01-01' for a time"),
    (
        "TOPK price, 10 OVER 5 ROWS ORIGIN '2024-01-01'",
        1,
        35,
        "must be an integer (a sequence number) for count windows",
    ),
    ("TOPK price, 10 OVER 5 MINUTES ORIGIN 'soon'", 1, 38, "origin must be an ISO date or time"),
    ("TOPK price, 10 OVER 5 ROWS FULL", 1, 32, "expected WINDOWS"),
    ("TOPK price, 10 OVER 5 ROWS AS big", 1, 28, "write the name first"),
    ("TOPK price, 10 OVER 5 ROWS ORDER BY a", 1, 28, "write the score after TOPK"),
    ("TOPK price, 10 FROM 5 OVER 5 ROWS", 1, 21, "expected the name of a stream"),
    ("TOPK price, 10 BY a, a OVER 5 ROWS", 1, 22, "group 'a' is given twice"),
    ("TOPK price, 10 BY OVER 5 ROWS", 1, 19, "write a column of that name as `OVER`"),
    ("TOPK price NULLS LAST, 10 OVER 5 ROWS", 1, 12, "rows without a score are not ranked"),
    ("TOPK 1 OVER 5 ROWS;\n  TOPK 2 OVER ROWS", 2, 15, "expected the size of the window"),
    ("TOPK price, 99999999999 OVER 5 ROWS", 1, 13, "k must be between 1 and 2147483647, got 99999999999"),
    # expressions
    ("TOPK price, 10 WHERE OVER 5 ROWS", 1, 22, "is incomplete before the keyword OVER"),
    ("TOPK price, 10 WHERE a > OVER 5 ROWS", 1, 26, "is incomplete before the keyword OVER"),
    ("TOPK price, 10 WHERE a = = 2 OVER 5 ROWS", 1, 26, "an operand is missing next to '='"),
    ("TOPK price + , 10 OVER 5 ROWS", 1, 12, "an operand is missing next to '+'"),
    ("TOPK price, 10 WHERE (a > 1 OVER 5 ROWS", 1, 22, "'(' is not closed"),
    ("TOPK price, 10 WHERE a > 1) OVER 5 ROWS", 1, 27, "')' has no opening bracket"),
    ("TOPK price, 10 WHERE (a > 1] OVER 5 ROWS", 1, 28, "']' does not match '('"),
    ("TOPK price, 10 WHERE a > 'x OVER 5 ROWS", 1, 26, "a text begins here and is not closed"),
    ("TOPK price, 10 WHERE `a > 1 OVER 5 ROWS", 1, 22, "close it with `"),
    ("TOPK price, 10\n/* OVER 5 ROWS", 2, 1, "close it with */"),
    ("TOPK price, 10 WHERE CASE WHEN a THEN b OVER 5 ROWS", 1, 39, "expected END after CASE"),
    ("TOPK price, 10 WHERE a > 1 OVRE 5 ROWS", 1, 28, "did you mean OVER?"),
    ("TOPK *, 10 OVER 5 ROWS", 1, 6, "must be a single value computed from a row"),
    ("TOPK f(a b), 10 OVER 5 ROWS", 1, 10, "expected )"),
    ("TOPK x'ZZ', 1 OVER 5 ROWS", 1, 6, "check the digits of x'...' and b'...' literals"),
    # CQL
    ("SELECT", 1, 7, "write SELECT *"),
    ("SELECT TOP * FROM t [ROWS 5] ORDER BY p", 1, 12, "expected k after TOP"),
    ("SELECT TOP 5 p FROM t [ROWS 5] ORDER BY p", 1, 14, "a list of columns is not supported here"),
    ("SELECT TOP 5 *, p FROM t [ROWS 5] ORDER BY p", 1, 15, "nothing can follow *"),
    ("SELECT TOP 5 PERCENT * FROM t [ROWS 5] ORDER BY p", 1, 14, "TOP with PERCENT is not supported"),
    ("SELECT DISTINCT * FROM t [ROWS 5] ORDER BY p", 1, 8, "DISTINCT is not supported"),
    ("SELECT TOP 5 * FORM t [ROWS 5] ORDER BY p", 1, 16, "did you mean FROM?"),
    ("SELECT TOP 5 * FROM t ORDER BY p", 1, 23, "write [RANGE 10 MINUTES SLIDE 1 MINUTE]"),
    ("SELECT TOP 5 * FROM t [NOW] ORDER BY p", 1, 24, "[NOW] windows are not supported"),
    ("SELECT TOP 5 * FROM t [RANGE UNBOUNDED] ORDER BY p", 1, 24, "UNBOUNDED needs a slide"),
    ("SELECT TOP 5 * FROM t [ROWS UNBOUNDED SLIDE 5] ORDER BY p", 1, 24, "windows over numbers of rows have a size"),
    ("SELECT TOP 5 * FROM t [RANGE 1 MONTH] ORDER BY p", 1, 30, "a month has no fixed length"),
    ("SELECT TOP 5 * FROM t [RANGE 1 DAY AT TIME ZONE Paris] ORDER BY p", 1, 49, "the name of a time zone in quotes"),
    ("SELECT TOP 5 * FROM t [RANGE 1 DAY AT TIME ZONE 'UTC' AT TIME ZONE 'UTC'] ORDER BY p", 1, 55, "given twice"),
    ("SELECT TOP 5 * FROM t [RANGE 1 DAY] ORDER BY p DISTINCT a DISTINCT b", 1, 59, "DISTINCT is given twice"),
    (
        "SELECT TOP 5 * FROM t [RANGE 1 DAY CUMULATIVE] ORDER BY p DESC PROBABILITY q",
        1,
        36,
        "a plan chooses the moments",
    ),
    ("SELECT TOP 5 * FROM t [SLIDE 1 MINUTE] ORDER BY p", 1, 23, "the window has no size"),
    ("SELECT TOP 5 * FROM t [RANG 5 MINUTES] ORDER BY p", 1, 24, "did you mean RANGE?"),
    ("SELECT TOP 5 * FROM t [RANGE 5 ROWS] ORDER BY p", 1, 30, "RANGE must be a duration"),
    ("SELECT TOP 5 * FROM t [ROWS 5 MINUTES] ORDER BY p", 1, 29, "use RANGE for durations and ROWS for rows"),
    ("SELECT TOP 5 * FROM t [ROWS 5", 1, 23, "'[' is not closed"),
    ("SELECT * FROM t [ROWS 5] ORDER BY p", 1, 36, "write k after TOP or LIMIT"),
    (f"{C}WHERE a > 1", 1, 53, "expected ORDER BY and a score"),
    (f"{C}WERE a > 1 ORDER BY p", 1, 42, "did you mean WHERE?"),
    (f"{C}WHERE a > 1 ORDR BY p", 1, 54, "did you mean ORDER?"),
    (f"{C}ORDER p", 1, 48, "expected BY, got 'p'"),
    (f"{C}ORDER BY p LIMIT 6", 1, 53, "k is given twice"),
    (f"{C}GROUP BY a ORDER BY p", 1, 62, "the score 'p' is not an aggregate"),
    (f"{C}[PARTITION BY a ORDER BY p", 1, 58, "expected ']' after the groups"),
    (f"{C}[ROWS 5] ORDER BY p", 1, 42, "a stream has only one window"),
    (f"{C}ORDER BY p )", 1, 53, "')' has no opening bracket"),
    # Flink
    ("TOPK p, 1 OVER 1 MONTH", 1, 16, "a month has no fixed length"),
    ("TOPK p, 1 OVER 1 DAY AT TIME ZONE Paris", 1, 35, "the name of a time zone in quotes"),
    ("TOPK p, 1 OVER 1 DAY AT TIME ZONE 'Paris'", 1, 35, "zone='Paris' is not a time zone"),
    ("TOPK p, 1 OVER 1 WEEK AT TIME ZONE 'UTC' WEEK START 1", 1, 53, "expected a day of the week"),
    ("TOPK p, 1 OVER 1 HOUR CUMULATIVE", 1, 1, "slide is missing"),
    (flink("HOP(", "SESSION("), 3, 66, "SESSION(TABLE stream, DESCRIPTOR(time), gap)"),
    (flink("HOP(", "HOOP("), 3, 14, "did you mean HOP?"),
    (flink("ROW_NUMBER", "DENSE_RANK"), 2, 13, "DENSE_RANK is not supported"),
    (flink("ROW_NUMBER", "ROWNUMBER"), 2, 13, "did you mean ROW_NUMBER?"),
    (flink("window_end ", "a "), 2, 32, "window_end is missing"),
    (flink("SELECT *, ROW", "SELECT p, ROW"), 2, 10, "a list of columns is not supported here"),
    (flink("AS rn", ", a"), 2, 87, "expected a name for the row number"),
    (flink(", INTERVAL '10' MINUTES", ""), 3, 62, "expected the size as an INTERVAL"),
    (flink("INTERVAL '1' MINUTE,", "1,"), 3, 43, "expected the slide as an INTERVAL"),
    (flink("'1' MINUTE,", "'1:30' MINUTE TO SECOND,"), 3, 59, "use one unit"),
    (flink("'1' MINUTE", "'1' MINUET"), 3, 43, "did you mean 'minutes'?"),
    (flink("TABLE t,", "t,"), 3, 18, "expected TABLE"),
    (flink("DESCRIPTOR(ts)", "ts"), 3, 27, "expected DESCRIPTOR"),
    (flink("rn <= 5", "rn <= 5 AND p > 1"), 4, 17, "only the row number can be filtered here"),
    (flink("rn <= 5", "rn > 5"), 4, 9, "does not select the first rows"),
    (flink("rn <= 5", "rn = 2"), 4, 9, "does not select the first rows"),
    (flink("rn <= 5", "p <= 5"), 4, 9, "only the row number can be compared here"),
    (flink("rn <= 5", "rn BETWEEN 2 AND 5"), 4, 9, "the first rank must be 1"),
    (flink("rn <= 5", "rn < 1"), 4, 14, "k must be between 1 and 2147483647, got 0"),
    (flink(" WHERE rn <= 5", ""), 4, 2, "WHERE rn <= k selects the first k rows"),
    (flink("ORDER BY p", "ORDER BY window_end - ts"), 2, 79, "the score cannot use window_end"),
    (flink("))\n)", "))\nGROUP BY p)"), 4, 1, "GROUP BY is not supported here"),
    (flink("FROM TABLE(HOP(TABLE t,", "FROM (SELECT * FROM t,"), 3, 8, "a nested subquery must aggregate rows"),
    (flink("MINUTES))\n)", "MINUTES))\n"), 1, 15, "close the subquery with ')'"),
    ("SELECT TOP 5 * FROM (SELECT * FROM t)", 1, 21, "TOP must read from a stream"),
    ("SELECT * FROM TABLE(HOP(TABLE t))", 1, 15, "a window function without a ranking is not supported"),
]


@pytest.mark.parametrize(("text", "line", "column", "said"), WRONG, ids=[repr(case[0][-60:]) for case in WRONG])
def test_the_place_and_the_hint(text, line, column, said):
    with pytest.raises(sb.InvalidSQLError) as caught:
        sb.sql(text)
    error = caught.value
    assert (error.line, error.column) == (line, column)
    assert said in str(error)
    assert str(error).startswith(f"line {line}, column {column}: ")
    assert error.hint in str(error)
    assert error.__cause__ is None
    assert "sqlglot" not in str(error)


def test_the_caret_stands_under_the_place():
    with pytest.raises(sb.InvalidSQLError) as caught:
        sb.sql("TOPK price, 10\n\tOVER 5 MINUTES EVRY 1 MINUTE")
    assert str(caught.value).splitlines()[1:3] == ["  \tOVER 5 MINUTES EVRY 1 MINUTE", "  \t               ^"]


def test_of_a_long_line_the_place_is_shown():
    with pytest.raises(sb.InvalidSQLError) as caught:
        sb.sql(f"TOPK {' + '.join(['a'] * 900)}, 10 OVR 5 ROWS AND SO ON {'x' * 500}")
    shown, caret = str(caught.value).splitlines()[1:3]
    assert len(shown) < 120
    assert shown[caret.index("^") :].startswith("OVR")


def test_control_characters_do_not_reach_the_terminal():
    with pytest.raises(sb.InvalidSQLError) as caught:
        sb.sql("TOPK 10 OVR \x1b[31m 5 ROWS")
    assert "\x1b" not in str(caught.value)


def test_the_error_is_an_invalid_query_and_can_be_sent():
    with pytest.raises(sb.InvalidQueryError) as caught:
        sb.sql("TOPK 10\nOVR 5 ROWS")
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, ValueError)
    assert (again.line, again.column, str(again)) == (2, 1, str(caught.value))
