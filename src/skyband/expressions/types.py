"""Spark's types as Arrow types, and the type two operands have in common."""

from __future__ import annotations

import re

import pyarrow as pa

__all__ = [
    "DATE",
    "DOUBLE",
    "INTERVAL",
    "MONTHS",
    "NTZ",
    "STRING",
    "TIMESTAMP",
    "adjusted",
    "arrow_type",
    "decimal_for",
    "is_datetime",
    "is_fractional",
    "is_integral",
    "is_numeric",
    "spark_name",
    "spark_type",
    "wider",
]

DOUBLE, STRING, DATE = pa.float64(), pa.string(), pa.date32()
TIMESTAMP, NTZ = pa.timestamp("us", tz="UTC"), pa.timestamp("us")
INTERVAL = pa.duration("us")  # Spark's day-time interval
MONTHS = pa.month_day_nano_interval()  # Spark's year-month interval: literals only

_INTEGRAL = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 20}  # decimal digits, as Spark counts them
_PRECEDENCE = [*_INTEGRAL, pa.float32(), DOUBLE]
_NAMES = {
    pa.null(): "void",
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    DOUBLE: "double",
    STRING: "string",
    DATE: "date",
    TIMESTAMP: "timestamp",
    NTZ: "timestamp_ntz",
    INTERVAL: "interval day to second",
    MONTHS: "interval year to month",
}
_UNSIGNED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): DATE,
}


def spark_name(kind: pa.DataType) -> str:
    """Return the name that Spark gives to a type.

    >>> spark_name(pa.int64()), spark_name(pa.decimal128(10, 2))
    ('bigint', 'decimal(10,2)')
    """
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return _NAMES.get(kind) or str(kind)


def arrow_type(name: str) -> pa.DataType:
    """Return the Arrow type of a key with this name of a type; the inverse of `spark_name`.

    >>> arrow_type("bigint"), arrow_type("varchar(10)"), arrow_type(spark_name(pa.timestamp("ns", "UTC")))
    (DataType(int64), DataType(string), TimestampType(timestamp[ns, tz=UTC]))
    """
    if found := {known: kind for kind, known in _NAMES.items()}.get(name):
        return found
    if name.startswith(("string", "char(", "varchar(")) and not name.startswith("string_view"):
        return STRING
    if zoned := re.fullmatch(r"timestamp\[(\w+), tz=(.*)\]", name):
        return pa.timestamp(zoned[1], zoned[2])
    return pa.type_for_alias(name.split("[", maxsplit=1)[0] if name.startswith("date") else name)


def spark_type(kind: pa.DataType) -> pa.DataType | None:
    """Return the type in which a column of this Arrow type is evaluated, or None if it is not supported.

    >>> spark_type(pa.large_string()), spark_type(pa.uint16()), spark_type(pa.list_(pa.int8()))
    (DataType(string), DataType(int32), None)
    """
    found = _UNSIGNED.get(kind, kind)
    if pa.types.is_dictionary(kind):
        found = spark_type(kind.value_type)
    elif pa.types.is_timestamp(kind):
        found = TIMESTAMP if kind.tz else NTZ
    elif pa.types.is_duration(kind):
        found = INTERVAL
    elif pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        found = STRING
    elif pa.types.is_decimal(kind):
        found = pa.decimal128(kind.precision, kind.scale) if 0 <= kind.scale <= kind.precision <= 38 else None
    return found if found is not None and (found in _NAMES or pa.types.is_decimal(found)) else None


def is_integral(kind: pa.DataType) -> bool:
    """Whether the type is tinyint, smallint, int or bigint."""
    return kind in _INTEGRAL


def is_fractional(kind: pa.DataType) -> bool:
    """Whether the type is float or double."""
    return bool(pa.types.is_floating(kind))


def is_numeric(kind: pa.DataType) -> bool:
    """Whether the type is a number, decimals included."""
    return is_integral(kind) or is_fractional(kind) or bool(pa.types.is_decimal(kind))


def is_datetime(kind: pa.DataType) -> bool:
    """Whether the type is a date or a timestamp."""
    return kind in (DATE, TIMESTAMP, NTZ)


def decimal_for(kind: pa.DataType, literal: object = None) -> pa.DataType:
    """Return the decimal type that holds every value of an integral type, or just the given literal.

    >>> decimal_for(pa.int32()), decimal_for(pa.int32(), 125)
    (Decimal128Type(decimal128(10, 0)), Decimal128Type(decimal128(3, 0)))
    """
    if pa.types.is_decimal(kind):
        return kind
    return pa.decimal128(_INTEGRAL[kind] if literal is None else len(str(abs(int(str(literal))))), 0)


def adjusted(precision: int, scale: int) -> pa.DataType:
    """Return the decimal type of a result; beyond 38 digits it loses digits after the point, but keeps 6 of them.

    >>> adjusted(39, 18), adjusted(20, 3)
    (Decimal128Type(decimal128(38, 17)), Decimal128Type(decimal128(20, 3)))
    """
    if precision > 38:
        scale, precision = max(38 - (precision - scale), min(scale, 6)), 38
    return pa.decimal128(precision, scale)


def wider(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Return the type to which Spark casts both operands in ANSI mode, or None if there is none.

    >>> wider(pa.int32(), pa.float32()), wider(pa.string(), pa.int8()), wider(pa.bool_(), pa.int8())
    (DataType(double), DataType(int64), None)
    """
    if left == right or pa.types.is_null(right):
        return left
    if pa.types.is_null(left):
        return right
    if is_numeric(left) and is_numeric(right):
        return _wider_number(left, right)
    if is_datetime(left) and is_datetime(right):
        return TIMESTAMP if TIMESTAMP in (left, right) else NTZ
    return _from_string(right if left == STRING else left) if STRING in (left, right) else None


def _from_string(other: pa.DataType) -> pa.DataType | None:
    if is_numeric(other):
        return pa.int64() if is_integral(other) else DOUBLE
    return None if other in (INTERVAL, MONTHS) else other


def _wider_number(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if pa.types.is_decimal(left) or pa.types.is_decimal(right):
        if is_fractional(left) or is_fractional(right):
            return DOUBLE
        one, two = decimal_for(left), decimal_for(right)
        scale = max(one.scale, two.scale)
        precision = max(one.precision - one.scale, two.precision - two.scale) + scale
        return pa.decimal128(precision, scale) if precision <= 38 else None
    found = max(left, right, key=_PRECEDENCE.index)
    return DOUBLE if found == pa.float32() else found
