"""Literals and type names: numbers with Spark's types, typed literals, intervals."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa

from skyband.expressions.failures import InvalidExpressionError
from skyband.expressions.syntax import Cast, Literal, Syntax
from skyband.expressions.types import DATE, DOUBLE, INTERVAL, MONTHS, NTZ, STRING, TIMESTAMP

if TYPE_CHECKING:
    from skyband.expressions.parser import _Parser

__all__ = ["CAST_FUNCTIONS", "NULL", "boolean", "number", "read_type", "string", "typed"]

NULL = Literal(None, pa.null())
_SUFFIXES = {"L": pa.int64(), "S": pa.int16(), "Y": pa.int8(), "D": DOUBLE, "F": pa.float32(), "BD": None}
_TYPES = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": DOUBLE,
    "decimal": pa.decimal128(10, 0),
    "dec": pa.decimal128(10, 0),
    "numeric": pa.decimal128(10, 0),
    "string": STRING,
    "date": DATE,
    "timestamp": TIMESTAMP,
    "timestamp_ltz": TIMESTAMP,
    "timestamp_ntz": NTZ,
}
_ALIASES = {"byte", "short", "integer", "long", "real", "dec", "numeric", "timestamp_ltz", "timestamp_ntz"}
CAST_FUNCTIONS = {name: kind for name, kind in _TYPES.items() if name not in _ALIASES}
_SECOND = 1_000_000
_UNITS = {
    "year": 12,
    "month": 1,
    "week": 7 * 86_400 * _SECOND,
    "day": 86_400 * _SECOND,
    "hour": 3_600 * _SECOND,
    "minute": 60 * _SECOND,
    "second": _SECOND,
    "millisecond": 1_000,
    "microsecond": 1,
}


def boolean(value: bool) -> Literal:
    """Return a boolean literal."""
    return Literal(value, pa.bool_())


def string(value: str) -> Literal:
    """Return a string literal."""
    return Literal(value, STRING)


def number(written: str, text: str, *, negative: bool = False) -> Literal:
    """Return the literal of a number; without exponent or suffix it is an integer or a decimal.

    >>> number("1.50", "").type, number("3000000000", "").type, number("1e3", "").type
    (Decimal128Type(decimal128(3, 2)), DataType(int64), DataType(double))
    """
    body, suffix = re.fullmatch(r"(.*?)(BD|[LSYFD]?)", written.upper(), re.DOTALL).groups()  # type: ignore[union-attr]
    value = -Decimal(body) if negative else Decimal(body)
    if suffix in ("L", "S", "Y"):
        kind = _SUFFIXES[suffix]
        if not body.isdigit() or not -(2 ** (kind.bit_width - 1)) <= value < 2 ** (kind.bit_width - 1):
            raise InvalidExpressionError(
                f"number {written} in {text!r} does not fit into its type. It was not compiled."
            )
        return Literal(int(value), kind)
    if suffix in ("D", "F") or (not suffix and "E" in body):
        return _floating(value, negative, suffix, text)
    if body.isdigit() and not suffix and -(2**63) <= value < 2**63:
        return Literal(int(value), pa.int32() if -(2**31) <= value < 2**31 else pa.int64())
    _, digits, exponent = value.as_tuple()
    length, scale = len("".join(map(str, digits)).lstrip("0")) or 1, -int(exponent)
    precision, scale = (length - scale, 0) if scale < 0 else (max(length, scale), scale)
    if precision > 38:
        raise InvalidExpressionError(f"number {written} in {text!r} has more than 38 digits. It was not compiled.")
    return Literal(value, pa.decimal128(precision, scale))


def _floating(value: Decimal, negative: bool, suffix: str, text: str) -> Literal:
    number_ = float(value)
    if negative and number_ == 0:
        number_ = -0.0
    limit = 3.4028234663852886e38 if suffix == "F" else 1.7976931348623157e308
    if not abs(number_) <= limit or (number_ == 0) != (value == 0):
        raise InvalidExpressionError(f"number {value} in {text!r} is out of range. It was not compiled.")
    return Literal(number_, pa.float32() if suffix == "F" else DOUBLE)


def typed(parser: _Parser) -> Syntax:
    """Read a typed literal: DATE '…', TIMESTAMP '…', TIMESTAMP_NTZ '…' or INTERVAL …."""
    word = parser.token
    if word.text == "INTERVAL":
        parser.next()
        return _interval(parser)
    if word.text not in ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"):
        raise parser.unexpected("DATE, TIMESTAMP, TIMESTAMP_NTZ or INTERVAL before a string")
    parser.next()
    value = string(parser.next().text)
    kind = _TYPES[word.text.lower()]
    if kind == TIMESTAMP and word.text == "TIMESTAMP" and re.search(r"[^\d:. T-]", value.value):
        raise InvalidExpressionError(
            f"TIMESTAMP {value.value!r} has a time zone, which is not supported. Write the time in UTC without a zone."
        )
    return Cast(value, kind)


def _interval(parser: _Parser) -> Literal:
    if parser.token.kind == "string" and parser.following().kind != "word":
        found = re.findall(r"\s*([+-]?\d+)\s+([a-z]+)\s*", parser.token.text.lower())
        if " ".join(" ".join(pair) for pair in found) != " ".join(parser.token.text.lower().split()):
            raise parser.unexpected("an interval such as '1 day 2 hours'")
        parser.next()
    else:
        found = []
        while parser.token.kind in ("number", "string") and parser.following().kind == "word":
            if not re.fullmatch(r"[+-]?\d+", parser.token.text):
                break
            found.append((parser.next().text, parser.next().text.lower()))
    units = {unit.removesuffix("s") for _, unit in found}
    months = units <= {"year", "month"}
    if not found or not units <= set(_UNITS) or (not months and units & {"year", "month"}) or parser.sees("TO"):
        raise parser.unexpected("an interval such as 5 MINUTES, of whole numbers, with years and months apart")
    total = sum(int(count) * _UNITS[unit.removesuffix("s")] for count, unit in found)
    if not -(2**63) <= total < 2**63 or (months and not -(2**31) <= total < 2**31):
        raise InvalidExpressionError(f"an interval in {parser.text!r} is out of range. It was not compiled.")
    return Literal(total, MONTHS) if months else Literal(total, INTERVAL, "day" if units <= {"day", "week"} else "")


def read_type(parser: _Parser) -> pa.DataType:
    """Read the name of a type, such as ``bigint`` or ``decimal(10, 2)``."""
    name = parser.token.text.lower()
    if parser.token.kind != "word" or name not in _TYPES:
        raise parser.unexpected(f"one of the types {', '.join(sorted(_TYPES))}")
    parser.next()
    if name not in ("decimal", "dec", "numeric") or not parser.takes("("):
        return _TYPES[name]
    digits = [parser.next().text]
    if parser.takes(","):
        digits.append(parser.next().text)
    parser.expect(")")
    precision, scale = int(digits[0]) if digits[0].isdigit() else 0, int(digits[1]) if len(digits) > 1 else 0
    if not 1 <= precision <= 38 or not 0 <= scale <= precision:
        raise InvalidExpressionError(
            f"decimal({', '.join(digits)}) in {parser.text!r} must have 1 to 38 digits, and at most as many after the "
            "point. It was not compiled."
        )
    return pa.decimal128(precision, scale)
