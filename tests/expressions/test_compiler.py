"""Compiling and evaluating: names, types, errors, shapes of data."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from skyband.errors import InvalidInputError, InvalidQueryError, SkybandError, UnknownNameError, UnsupportedError
from skyband.expressions import compile_expression
from skyband.expressions.failures import CONDITIONS, EvaluationError, InvalidExpressionError, code

NAN = float("nan")
TRADES = pa.table(
    {
        "Price": [10.0, None, NAN, -0.0],
        "size": [3, 4, 5, None],
        "exchange": ["D", "N", None, ""],
        "a b": pa.array([1, 2, 3, 4], pa.int8()),
        "ts": pa.array([0, -1, 86_400_000_000, None], pa.timestamp("us", "UTC")),
        "fee": pa.array([Decimal("0.10"), Decimal("2.00"), None, Decimal("-1.25")], pa.decimal128(10, 2)),
        "tags": [["x"], [], None, ["y"]],
    }
)


def evaluate(text, data=TRADES):
    return compile_expression(text, data.schema).evaluate(data).to_pylist()


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("price * size", [30.0, None, NAN, None]),
        ("PRICE", [10.0, None, NAN, -0.0]),
        ("`a b` + 1", [2, 3, 4, 5]),
        ("exchange <> 'D'", [False, True, None, True]),
        ("price > 5", [True, None, True, False]),
        ("price = 0", [False, None, False, True]),
        ("price <=> price", [True, True, True, True]),
        ("price IS NULL OR size > 3", [False, True, True, None]),
        ("size / 2", [1.5, 2.0, 2.5, None]),
        ("size * 1.5", [Decimal("4.5"), Decimal("6.0"), Decimal("7.5"), None]),
        ("fee / 3", [Decimal("0.033333"), Decimal("0.666667"), None, Decimal("-0.416667")]),
        ("CASE WHEN exchange = 'D' THEN 'dark' ELSE lower(exchange) END", ["dark", "n", None, ""]),
        ("coalesce(size, 0)", [3, 4, 5, 0]),
        ("greatest(price, 1D)", [10.0, 1.0, NAN, 1.0]),
        ("hour(ts)", [0, 23, 0, None]),
        ("date_trunc('day', ts) = ts", [True, False, True, None]),
        ("ts - INTERVAL 1 DAY < TIMESTAMP '1970-01-01'", [True, True, False, None]),
        ("size IN (3, null)", [True, None, None, None]),
        ("if(size > 3, size / (size - 3), 0)", [0.0, 4.0, 2.5, 0.0]),
        ("try_divide(size, size - 3)", [None, 4.0, 2.5, None]),
        ("round(2.675D, 2) + 0 * size", [2.68, 2.68, 2.68, None]),
        ("1", [1, 1, 1, 1]),
    ],
)
def test_values(text, values):
    assert str(evaluate(text)) == str(values)


def test_type_and_columns():
    found = compile_expression("price * SIZE + price", TRADES.schema)
    assert found.type == pa.float64()
    assert found.columns == ("Price", "size")
    assert "double" in repr(found)


@pytest.mark.parametrize(
    "data", [TRADES, TRADES.to_batches()[0], TRADES.slice(1, 2), pa.concat_tables([TRADES, TRADES])]
)
def test_shapes(data):
    found = compile_expression("size + 1", TRADES.schema).evaluate(data)
    assert isinstance(found, pa.Array)
    assert found.to_pylist() == [None if size is None else size + 1 for size in data.column("size").to_pylist()]


@pytest.mark.parametrize("text", ["size + 1", "7", "upper(exchange)", "fee / 3", "hour(ts)", "1 / 0", "price > 1"])
def test_no_rows(text):
    for data in (TRADES.slice(0, 0), TRADES.slice(0, 0).to_batches()):
        batch = data if isinstance(data, pa.Table) else pa.RecordBatch.from_pylist([], TRADES.schema)
        found = compile_expression(text, TRADES.schema)
        assert found.evaluate(batch).equals(pa.array([], found.type))


@pytest.mark.parametrize(
    ("column", "kind", "value"),
    [
        (pa.array(["x"], pa.large_string()), pa.string(), "x"),
        (pa.array(["x"]).dictionary_encode(), pa.string(), "x"),
        (pa.array([7], pa.uint32()), pa.int64(), 7),
        (pa.array([7], pa.uint64()), pa.decimal128(20, 0), Decimal(7)),
        (pa.array([1999], pa.timestamp("ns")), pa.timestamp("us"), dt.datetime(1970, 1, 1, 0, 0, 0, 1)),
        (
            pa.array([1], pa.timestamp("s", "Europe/Berlin")),
            pa.timestamp("us", "UTC"),
            dt.datetime(1970, 1, 1, 0, 0, 1),
        ),
        (pa.array([1.5], pa.float16()), pa.float32(), 1.5),
    ],
)
def test_other_arrow_types_are_read(column, kind, value):
    data = pa.table({"x": column})
    found = compile_expression("coalesce(x, x)", data.schema)
    (result,) = found.evaluate(data).to_pylist()
    assert (found.type, result.replace(tzinfo=None) if isinstance(result, dt.datetime) else result) == (kind, value)


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("prise", UnknownNameError, "did you mean 'Price'"),
        ("soundex(exchange)", UnsupportedError, "Supported functions: abs, .*year"),
        ("tags", UnsupportedError, "'tags' is of type list"),
        ("exchange - exchange", InvalidExpressionError, "got string and string"),
        ("size AND true", InvalidExpressionError, "got bigint and boolean"),
        ("exchange LIKE exchange", UnsupportedError, "literal of type string"),
        ("abs()", InvalidExpressionError, r"abs got 0 arguments, but it is written abs\(a\)"),
        ("ts = 5", InvalidExpressionError, "cannot be compared"),
        ("CAST(price AS STRING)", InvalidExpressionError, "not supported in process"),
        ("INTERVAL 1 MONTH", UnsupportedError, "months"),
        ("exchange LIKE 'a!' ESCAPE '!'", InvalidExpressionError, "escape character"),
    ],
)
def test_rejected(text, error, words):
    with pytest.raises(error, match=words) as found:
        compile_expression(text, TRADES.schema)
    assert isinstance(found.value, SkybandError)


def test_an_ambiguous_column_is_rejected():
    with pytest.raises(InvalidQueryError, match=r"'x' and 'X'\. Rename one"):
        compile_expression("x", pa.schema([("x", pa.int8()), ("X", pa.int8())]))


def test_other_zones_are_rejected():
    with pytest.raises(UnsupportedError, match="Europe/Berlin"):
        compile_expression("1", TRADES.schema, zone="Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "condition", "row"),
    [
        ("1 / (size - 4)", "DIVIDE_BY_ZERO", 1),
        ("size % (size - 5)", "REMAINDER_BY_ZERO", 2),
        ("size + 9223372036854775804", "ARITHMETIC_OVERFLOW", 1),
        ("`a b` * 64Y", "BINARY_ARITHMETIC_OVERFLOW", 1),
        ("CAST(exchange AS INT)", "CAST_INVALID_INPUT", 0),
        ("CAST(size * 60 AS TINYINT)", "CAST_OVERFLOW", 0),
        ("CAST(fee AS DECIMAL(2, 2))", "NUMERIC_VALUE_OUT_OF_RANGE", 1),
        ("exchange = 'N' AND 1 / 0 > 1", "DIVIDE_BY_ZERO", 1),
        ("split_part(exchange, ',', 0)", "INVALID_INDEX_OF_ZERO", 0),
    ],
)
def test_failing_rows(text, condition, row):
    with pytest.raises(EvaluationError, match=rf"\[{condition}\] expression .* failed at row {row}") as found:
        evaluate(text)
    assert (found.value.condition, found.value.row, found.value.expression) == (condition, row, text)


def test_rows_are_counted_over_batches():
    data = pa.concat_tables([TRADES.slice(0, 1), TRADES])
    with pytest.raises(EvaluationError) as found:
        evaluate("1 / (size - 5)", data)
    assert found.value.row == 3


def test_conditions_have_numbers():
    assert [code(condition) for condition in CONDITIONS] == list(range(len(CONDITIONS)))


def test_constants_fail_only_where_they_are_reached():
    assert evaluate("CASE WHEN size > 100 THEN 1 / 0 ELSE 5D END") == [5.0] * 4
    assert evaluate("coalesce(size, 7) > 0 OR 1 / 0 > 1") == [True] * 4


def test_rounding_halves():
    values = [0.5, 1.5, 2.5, -0.5, 1.005, 2.675, 1e15 + 0.3, 123456789012345.67, 2.0**60, 0.285, NAN, float("inf")]
    data = pa.table({"x": values})
    assert str(evaluate("round(x, 2)", data)) == str(
        [0.5, 1.5, 2.5, -0.5, 1.01, 2.68, 1e15 + 0.3, 123456789012345.67, 2.0**60, 0.29, NAN, float("inf")]
    )
    assert str(evaluate("bround(x)", data)[:4]) == str([0.0, 2.0, 2.0, 0.0])


def test_a_long_column_is_not_looped_over():
    rows = 200_000
    data = pa.table({"x": np.arange(rows, dtype=np.float64), "t": ["a", "B"] * (rows // 2)})
    assert sum(evaluate("x >= 100 AND upper(t) = 'A'", data)) == rows // 2 - 50


@pytest.mark.parametrize("data", [TRADES.drop(["size"]), TRADES.set_column(1, "size", pa.array(["x"] * 4))])
def test_data_of_another_schema_is_rejected(data):
    with pytest.raises(InvalidInputError, match="'size' must be of type bigint"):
        compile_expression("size + 1", TRADES.schema).evaluate(data)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("exchange IN ('D', 'N')", [True, True, None, False]),
        ("size NOT IN (3L, 9L)", [False, True, True, None]),
        ("size IN (3, 5)", [True, False, True, None]),
        ("price IN (0D, 10D)", [True, None, False, True]),
    ],
)
def test_in(text, values):
    assert evaluate(text) == values
