"""Sums and differences of dates, timestamps and intervals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.expressions import calendars
from skyband.expressions.casts import DAY, cast
from skyband.expressions.nodes import Data, Node, Value, fail, from_numpy, node, to_numpy
from skyband.expressions.registry import mismatch
from skyband.expressions.times import map_days, move_days
from skyband.expressions.types import DATE, INTERVAL, MONTHS, NTZ, TIMESTAMP, is_datetime, is_integral

__all__ = ["shifted"]


def shifted(sign: str, left: Node, right: Node) -> Node | None:
    """Return the node of + or - if an operand is a date, a timestamp or an interval; otherwise None."""
    kinds = [left.type, right.type]
    if not any(is_datetime(kind) or kind in (INTERVAL, MONTHS) for kind in kinds):
        return None
    if sign == "-" and all(map(is_datetime, kinds)):
        kind = NTZ if NTZ in kinds and TIMESTAMP not in kinds else TIMESTAMP
        return _exact("-", INTERVAL, cast(left, kind), cast(right, kind))
    if sign == "+" and not is_datetime(left.type):
        left, right = right, left
    if is_datetime(left.type) and right.type == MONTHS and right.is_literal:
        return _months(left, right.literal if sign == "+" else -right.literal)
    if left.type == DATE and right.type == INTERVAL and right.is_literal and right.unit == "day":
        days = right.literal // DAY
        if abs(days) < 2**31:
            return _map_dates(lambda dates: dates + (days if sign == "+" else -days), left)
    if left.type == DATE and is_integral(right.type):
        return move_days(sign, left, right, 1 if sign == "+" else -1)
    if is_datetime(left.type) and right.type == INTERVAL and right.is_literal:
        moment = cast(left, TIMESTAMP) if left.type == DATE else left
        return _exact(sign, moment.type, moment, right)
    raise mismatch(sign, [left, right], "this sum of dates, timestamps or intervals is not supported in process")


def _map_dates(compute: Callable[[Any], Any], arg: Node) -> Node:
    def run(data: Data) -> Value:
        numbers, valid = to_numpy(data)
        days = compute(numbers.astype(np.int64))
        far = np.abs(days) >= 2**31 - 1
        return fail(from_numpy(np.where(far, 0, days), valid, DATE, data), far, "SKYBAND_UNSUPPORTED_VALUE")

    return node(DATE, run, arg)


def _exact(sign: str, kind: pa.DataType, left: Node, right: Node) -> Node:
    def run(one: Data, two: Data) -> Value:
        (a, valid_a), (b, valid_b) = to_numpy(one), to_numpy(two)
        valid = valid_a if valid_b is None else valid_b if valid_a is None else valid_a & valid_b
        with np.errstate(over="ignore"):
            found = a + b if sign == "+" else a - b
        other = b if sign == "+" else ~b
        bad = ((a ^ found) & (other ^ found)) < 0
        return fail(
            from_numpy(found, valid, kind, one, two),
            bad,
            "DATETIME_OVERFLOW" if kind != INTERVAL else "ARITHMETIC_OVERFLOW",
        )

    return node(kind, run, left, right)


def _months(arg: Node, count: int) -> Node:
    if arg.type == DATE:
        return _map_dates(lambda days: calendars.add_months(days, count), arg)
    return map_days(arg.type, lambda days, rest: (calendars.add_months(days, count), rest), arg)
