"""The parser reads expressions as Spark does."""

from __future__ import annotations

import pyarrow as pa
import pytest

from skyband.expressions.failures import InvalidExpressionError
from skyband.expressions.parser import parse
from skyband.expressions.syntax import Call, Cast, ColumnName, Literal


def spelled(tree):
    """A tree with brackets around everything."""
    if isinstance(tree, ColumnName):
        return tree.name
    if isinstance(tree, Literal):
        return repr(tree.value) if isinstance(tree.value, str) else str(tree.value)
    if isinstance(tree, Cast):
        return f"{spelled(tree.value)}::{tree.type}"
    assert isinstance(tree, Call)
    return f"[{tree.name} {' '.join(map(spelled, tree.args))}]"


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a + b * c", "[+ a [* b c]]"),
        ("a - b - c", "[- [- a b] c]"),
        ("a || b + c", "[+ [|| a b] c]"),
        ("-a * b", "[* [negative a] b]"),
        ("-1::string", "-1::string"),
        ("-a::string", "[negative a::string]"),
        ("a = b IN (1)", "[in [= a b] 1]"),
        ("a = b IS NULL", "[isnull [= a b]]"),
        ("NOT a = b AND c", "[and [not [= a b]] c]"),
        ("!a = b OR c", "[or [not [= a b]] c]"),
        ("a BETWEEN 1 AND 2 AND b", "[and [between a 1 2] b]"),
        ("a NOT LIKE 'x'", "[not [like a 'x' '\\\\']]"),
        ("a IS NOT DISTINCT FROM b", "[not [not [<=> a b]]]"),
        ("CASE a WHEN 1 THEN 2 ELSE 3 END", "[case [= a 1] 2 3]"),
        ("trim(LEADING 'x' FROM a)", "[ltrim:from 'x' a]"),
        ("substring(a FROM 2 FOR 3)", "[substring a 2 3]"),
        ("position('x' IN a)", "[position 'x' a]"),
        ("`a b` + `c``d`", "[+ a b c`d]"),
        ("a -- comment\n + /* more */ 1", "[+ a 1]"),
        ("'a' 'b'", "'ab'"),
        ("'it''s'", repr("it's")),
        ("\"it''s\"", repr("it''s")),
        (r"'it\'s'", repr("it's")),
        (r"'\u0041\n\%'", r"'A\n\\%'"),
        (r"r'\n'", r"'\\n'"),
        ("date", "date"),
        ("INTERVAL 1 DAY 2 HOURS", "93600000000"),
        ("INTERVAL '1 day 2 hours'", "93600000000"),
        ("double(a)", "a::double"),
    ],
)
def test_trees(text, tree):
    assert spelled(parse(text)) == tree


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("1", pa.int32(), "1"),
        ("3000000000", pa.int64(), "3000000000"),
        ("-9223372036854775808", pa.int64(), "-9223372036854775808"),
        ("9223372036854775808", pa.decimal128(19, 0), "9223372036854775808"),
        ("1.50", pa.decimal128(3, 2), "1.50"),
        ("0.00", pa.decimal128(2, 2), "0.00"),
        (".5", pa.decimal128(1, 1), "0.5"),
        ("1e3", pa.float64(), "1000.0"),
        ("1e3BD", pa.decimal128(4, 0), "1E+3"),
        ("-0D", pa.float64(), "-0.0"),
        ("127Y", pa.int8(), "127"),
        ("1.5F", pa.float32(), "1.5"),
    ],
)
def test_numbers(text, kind, value):
    literal = parse(text)
    assert (literal.type, str(literal.value)) == (kind, value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a +",
        "a b",
        "(a",
        "a, b",
        "a IS 5",
        "128Y",
        "a.b",
        "x'1F'",
        "a[0]",
        "a NOT 5",
        "CASE END",
        "1e999",
        "CAST(a AS array<int>)",
        "INTERVAL 1 MONTH 2 DAYS",
        "INTERVAL 1.5 DAYS",
        "a; b",
        "a ? b",
        "CAST(a AS",
        "DECIMAL '1'",
        "TIMESTAMP '2020-01-01 00:00:00+01:00'",
        "a::decimal(50, 2)",
        "a IS NULL IS NULL",
        "f(a",
        "*",
        "123456789012345678901234567890123456789",
        "(" * 5000 + "a" + ")" * 5000,
        "a RLIKE 'x'",
        "a LIKE 'x' ESCAPE 'ab'",
    ],
)
def test_what_is_not_known_is_rejected(text):
    with pytest.raises(InvalidExpressionError, match=r"compiled|supported|Write"):
        parse(text)
