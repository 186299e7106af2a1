"""Casts from and to strings, as Spark does them in ANSI mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.expressions.calendars import from_civil
from skyband.expressions.failures import code
from skyband.expressions.nodes import Data, Value, fail, from_numpy, to_numpy
from skyband.expressions.types import DATE, DOUBLE, NTZ, TIMESTAMP, is_integral

__all__ = ["parser", "writer"]

_PAD = r"[\x00-\x20\x7f]*"  # what Spark trims before it parses
_TRUE, _FALSE = ["t", "true", "y", "yes", "1"], ["f", "false", "n", "no", "0"]
_INTEGER = rf"^{_PAD}(?P<sign>[+-]?)0*(?P<digits>\d+){_PAD}$"
_FLOAT = (
    r"^[\x00-\x20]*(?:(?P<sign>[+-]?)(?P<body>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fFdD]?"
    r"|(?P<nan>(?i:nan)|[+-]NaN)|(?P<signed>[+-]?)(?P<inf>(?i:inf|infinity)))[\x00-\x20]*$"
)
_DATE_PART = r"(?P<era>[+-]?)(?P<year>\d{4,7})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})"
_DATE = rf"(?s)^{_PAD}{_DATE_PART}(?:[ T].*)?)?)?{_PAD}$"
_ZONE = r"(?:Z|(?P<east>[+-])(?P<away>0\d|1[0-7])(?::?(?P<rest>[0-5]\d))?)?"
_CLOCK = rf"(?P<hour>\d{{1,2}}):(?P<minute>\d{{1,2}}):(?P<second>\d{{1,2}})(?:\.(?P<fraction>\d{{1,9}}))?{_ZONE}"
_TIMESTAMP = rf"^{_PAD}{_DATE_PART}(?:[ T]{_CLOCK})?)?)?{_PAD}$"
_MAYBE_TIMESTAMP = rf"^{_PAD}[T+-]?\d"


def parser(kind: pa.DataType) -> Callable[[Data], Any] | None:
    """Return the function that casts strings to `kind`, or None if that is not supported."""
    if kind == pa.bool_():
        return _rows(_boolean)
    if is_integral(kind):
        return _rows(lambda data: _integer(data, kind))
    if kind == DOUBLE:
        return _rows(_double)
    if kind == DATE:
        return _rows(_date)
    return _rows(lambda data: _timestamp(data, kind)) if kind in (TIMESTAMP, NTZ) else None


def writer(kind: pa.DataType) -> Callable[[Data], Any] | None:
    """Return the function that casts values of `kind` to strings, or None if that is not supported."""
    if kind == pa.bool_() or is_integral(kind) or (pa.types.is_decimal(kind) and kind.scale <= 6):
        return lambda data: pc.cast(data, pa.string())
    return _rows(_date_text) if kind == DATE else _rows(_timestamp_text) if kind in (TIMESTAMP, NTZ) else None


def _rows(compute: Callable[[Any], Value]) -> Callable[[Data], Value]:
    """Apply a function of arrays to a scalar, too."""

    def run(data: Data) -> Value:
        if not isinstance(data, pa.Scalar):
            return compute(data)
        found = compute(pa.repeat(data, 1))
        return Value(found.data[0], found.failed)

    return run


def _invalid(data: Any, found: Any) -> Value:
    """Rows that have a text but no value fail."""
    if found.null_count == data.null_count:
        return Value(found)
    bad = to_numpy(pc.and_(pc.is_valid(data), pc.is_null(found)))[0]
    return fail(found, bad, "CAST_INVALID_INPUT")


def _boolean(data: Any) -> Value:
    words = pc.ascii_lower(pc.replace_substring_regex(data, rf"^{_PAD}|{_PAD}$", ""))
    true, false = (pc.is_in(words, pa.array(known)) for known in (_TRUE, _FALSE))
    return _invalid(data, pc.if_else(true, True, pc.if_else(false, False, pa.scalar(None, pa.bool_()))))


def _integer(data: Any, kind: pa.DataType) -> Value:
    parts = pc.extract_regex(data, _INTEGER)
    matched = pc.is_valid(parts)
    sign, digits = pc.struct_field(parts, "sign"), pc.struct_field(parts, "digits")
    negative = pc.equal(sign, "-")
    limit = 2 ** (kind.bit_width - 1)
    length = pc.utf8_length(digits)
    most = pc.if_else(negative, str(limit), str(limit - 1))
    fits = pc.or_(
        pc.less(length, len(str(limit))), pc.and_(pc.equal(length, len(str(limit))), pc.less_equal(digits, most))
    )
    text = pc.binary_join_element_wise(pc.if_else(negative, "-", ""), digits, "")
    return _invalid(data, pc.cast(pc.if_else(pc.and_(matched, fits), text, pa.scalar(None, pa.string())), kind))


def _double(data: Any) -> Value:
    parts = pc.extract_regex(data, _FLOAT)
    matched = pc.is_valid(parts)
    sign, body, nan, signed, inf = (pc.struct_field(parts, name) for name in ("sign", "body", "nan", "signed", "inf"))
    text = pc.binary_join_element_wise(pc.if_else(pc.equal(sign, "-"), "-", ""), body, "")
    text = pc.if_else(pc.not_equal(nan, ""), "nan", text)
    infinite = pc.if_else(pc.equal(signed, "-"), "-inf", "inf")
    text = pc.if_else(pc.not_equal(inf, ""), infinite, text)
    found = pc.cast(pc.if_else(matched, text, pa.scalar(None, pa.string())), pa.float64())
    value = _invalid(data, found)
    if value.failed is not None:
        hexadecimal = to_numpy(pc.fill_null(pc.match_substring_regex(data, r"^[\x00-\x20]*[+-]?0[xX]"), False))[0]
        value = Value(
            value.data, np.where(hexadecimal, code("SKYBAND_UNSUPPORTED_VALUE"), value.failed).astype(np.uint8)
        )
    return value


def _numbers(parts: Any, *names: str, default: int) -> list[Any]:
    """Return groups of digits as numbers, `default` where a group is absent."""
    found = []
    for name in names:
        text = pc.struct_field(parts, name)
        given = pc.and_(pc.is_valid(parts), pc.not_equal(text, ""))
        found.append(pc.cast(pc.if_else(given, text, str(default)), pa.int64()).to_numpy(zero_copy_only=False))
    return found


def _days(parts: Any) -> tuple[Any, Any]:
    year, month, day = (_numbers(parts, name, default=1)[0] for name in ("year", "month", "day"))
    era = pc.fill_null(pc.equal(pc.struct_field(parts, "era"), "-"), False).to_numpy(zero_copy_only=False)
    days, exists = from_civil(np.where(era, -year, year), month, day)
    return days, exists & pc.is_valid(parts).to_numpy(zero_copy_only=False)


def _date(data: Any) -> Value:
    days, exists = _days(pc.extract_regex(data, _DATE))
    far = exists & (np.abs(days) >= 2**31)
    valid = pc.is_valid(data).to_numpy(zero_copy_only=False)
    found = fail(from_numpy(np.where(far, 0, days), exists, DATE, data), valid & ~exists, "CAST_INVALID_INPUT")
    return _unsupported(found, far)


def _timestamp(data: Any, kind: pa.DataType) -> Value:
    parts = pc.extract_regex(data, _TIMESTAMP)
    days, exists = _days(parts)
    hour, minute, second = _numbers(parts, "hour", "minute", "second", default=0)
    fraction = pc.utf8_slice_codeunits(pc.utf8_rpad(pc.struct_field(parts, "fraction"), 6, "0"), 0, 6)
    micros = pc.cast(pc.if_else(pc.is_valid(parts), fraction, "0"), pa.int64()).to_numpy(zero_copy_only=False)
    exists &= (hour < 24) & (minute < 60) & (second < 60)
    far = exists & (np.abs(days) > 106_751_990)
    total = np.where(far, 0, days) * 86_400_000_000 + ((hour * 60 + minute) * 60 + second) * 1_000_000 + micros
    # A timestamp without a zone ignores the offset.
    if kind == TIMESTAMP and pc.any(pc.not_equal(pc.struct_field(parts, "east"), "")).as_py():
        away, rest = _numbers(parts, "away", "rest", default=0)
        west = pc.fill_null(pc.equal(pc.struct_field(parts, "east"), "-"), False).to_numpy(zero_copy_only=False)
        total = total + np.where(west, 1, -1) * (away * 60 + rest) * 60_000_000
    valid = pc.is_valid(data).to_numpy(zero_copy_only=False)
    found = fail(from_numpy(total, exists, kind, data), valid & ~exists, "CAST_INVALID_INPUT")
    # Forms with names of zones, a clock only, or parts of a clock are Spark's to judge.
    maybe = pc.fill_null(pc.match_substring_regex(data, _MAYBE_TIMESTAMP), False).to_numpy(zero_copy_only=False)
    return _unsupported(found, far | (maybe & ~pc.is_valid(parts).to_numpy(zero_copy_only=False)))


def _unsupported(value: Value, rows: Any) -> Value:
    if not rows.any():
        return value
    marked = fail(value.data, rows, "SKYBAND_UNSUPPORTED_VALUE")
    return marked if value.failed is None else Value(marked.data, np.where(rows, marked.failed, value.failed))  # type: ignore[arg-type]


def _date_text(data: Any) -> Value:
    far = _outside(pc.cast(data, pa.int64() if data.type != DATE else pa.int32()), 1)
    return fail(
        pc.cast(pc.if_else(pa.array(far), pa.scalar(0, DATE), data), pa.string()), far, "SKYBAND_UNSUPPORTED_VALUE"
    )


def _timestamp_text(data: Any) -> Value:
    far = _outside(pc.cast(data, pa.int64()), 86_400_000_000)
    near = pc.if_else(pa.array(far), pa.scalar(0, NTZ), data.view(NTZ))
    text = pc.cast(near, pa.string())  # always with six digits of the second
    return fail(pc.utf8_rtrim(pc.utf8_rtrim(text, "0"), "."), far, "SKYBAND_UNSUPPORTED_VALUE")


def _outside(numbers: Any, unit: int) -> Any:
    """Return a mask of the years that are not written with four digits."""
    found, _ = to_numpy(numbers)
    return (found < -719_162 * unit) | (found >= 2_932_897 * unit)
