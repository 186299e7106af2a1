"""Mathematical functions and rounding."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.expressions import decimals
from skyband.expressions.casts import cast
from skyband.expressions.nodes import Data, Node, Value, fail, from_numpy, node, to_numpy
from skyband.expressions.registry import constant, function, mismatch
from skyband.expressions.types import DOUBLE, is_fractional, is_integral, is_numeric

__all__: list[str] = []

_NEAR = "The last bits may differ from Spark's."
_ROUND = "For doubles, decimals and whole numbers; `digits` is a literal of 0 or more, at most 15 for doubles."


def _as_double(name: str, arg: Node) -> Node:
    if not is_numeric(arg.type) and not pa.types.is_null(arg.type):
        raise mismatch(name, [arg], "takes a number in process")
    return cast(arg, DOUBLE)


def _apply(name: str, compute: Callable[..., Any], *args: Node, over: float | None = None) -> Node:
    """Apply a numpy function to doubles; the result is null unless the last argument exceeds `over`."""

    def run(*data: Data) -> Data:
        parts = [to_numpy(part) for part in data]
        valid: Any = None
        for _, mask in parts:
            valid = mask if valid is None else valid if mask is None else valid & mask
        with np.errstate(all="ignore"):
            found = np.asarray(compute(*(numbers for numbers, _ in parts)))
            for numbers, _ in parts if over is not None else ():
                inside = ~(numbers <= over)
                valid = inside if valid is None else inside & valid
        return from_numpy(found, valid, DOUBLE, *data)

    return node(DOUBLE, run, *(_as_double(name, arg) for arg in args))


def _register(names: str, compute: Callable[..., Any], note: str = "", over: float | None = None) -> None:
    name = names.split(maxsplit=1)[0]
    usage = ", ".join(f"{word}(a)" for word in names.split())
    function("mathematics", names, usage, 1, note)(lambda arg: _apply(name, compute, arg, over=over))


_register("sqrt", np.sqrt)
_register("sign signum", lambda x: np.where(x == 0, x, np.sign(x)))
_register("rint", np.rint)
_register("degrees", lambda x: x * (180.0 / np.pi), _NEAR)
_register("radians", lambda x: x * (np.pi / 180.0), _NEAR)
_register("exp", np.exp, _NEAR)
_register("expm1", np.expm1, _NEAR)
_register("ln", np.log, _NEAR, over=0.0)
_register("log10", np.log10, _NEAR, over=0.0)
_register("log2", lambda x: np.log(x) / np.log(2.0), _NEAR, over=0.0)
_register("log1p", np.log1p, _NEAR, over=-1.0)
_register("sin", np.sin, _NEAR)
_register("cos", np.cos, _NEAR)
_register("tan", np.tan, _NEAR)
_register("atan", np.arctan, _NEAR)
_register("cbrt", np.cbrt, _NEAR)


@function("mathematics", "log", "log(a), log(base, a)", (1, 2), _NEAR)
def _log(*args: Node) -> Node:
    if len(args) == 1:
        return _apply("log", np.log, args[0], over=0.0)
    return _apply("log", lambda base, x: np.log(x) / np.log(base), *args, over=0.0)


@function("mathematics", "pow power", "pow(a, b), power(a, b)", 2, _NEAR)
def _power(left: Node, right: Node) -> Node:
    def run(one: Any, two: Any) -> Any:
        one, two = (np.array(part) for part in np.broadcast_arrays(one, two))  # numpy has other rules for one exponent
        found = np.power(one, two)
        undefined = (np.abs(one) == 1) & ~np.isfinite(two)  # Java: NaN; C: 1
        return np.where(undefined | (np.isnan(two)), np.nan, found)

    return _apply("pow", run, left, right)


@function("mathematics", "atan2", "atan2(a, b)", 2, _NEAR)
def _atan2(left: Node, right: Node) -> Node:
    return _apply("atan2", lambda one, two: np.arctan2(one + 0.0, two + 0.0), left, right)


def _whole(name: str, arg: Node, compute: Any) -> Node:
    if is_integral(arg.type):
        return cast(arg, pa.int64())
    if pa.types.is_decimal(arg.type):
        if not arg.type.scale:
            return node(arg.type, lambda data: data, arg)
        kind = pa.decimal128(arg.type.precision - arg.type.scale + 1, 0)
        return node(kind, lambda data: decimals.fit(decimals.whole(data, up=name == "ceil"), kind), arg)
    if not is_fractional(arg.type):
        raise mismatch(name, [arg], "takes a number in process")

    def run(data: Data) -> Value:
        numbers, valid = to_numpy(compute(data))
        numbers = np.where(np.isnan(numbers), 0, numbers)
        bad = (numbers >= 2.0**63) | (numbers < -(2.0**63))
        whole = np.where(bad, 0, numbers).astype(np.int64)
        return fail(from_numpy(whole, valid, pa.int64(), data), bad, "ARITHMETIC_OVERFLOW")

    return node(pa.int64(), run, cast(arg, DOUBLE))


@function("mathematics", "ceil ceiling", "ceil(a)", 1)
def _ceil(arg: Node) -> Node:
    return _whole("ceil", arg, pc.ceil)


@function("mathematics", "floor", "floor(a)", 1)
def _floor(arg: Node) -> Node:
    return _whole("floor", arg, pc.floor)


@function("mathematics", "round", "round(a), round(a, digits)", (1, 2), _ROUND)
def _round(arg: Node, *digits: Node) -> Node:
    return _rounded("round", arg, digits, even=False)


@function("mathematics", "bround", "bround(a), bround(a, digits)", (1, 2), _ROUND)
def _bround(arg: Node, *digits: Node) -> Node:
    return _rounded("bround", arg, digits, even=True)


def _rounded(name: str, arg: Node, digits: tuple[Node, ...], *, even: bool) -> Node:
    scale = int(str(constant(name, digits[0], pa.int32()))) if digits else 0
    if pa.types.is_decimal(arg.type):
        return _rounded_decimal(arg, scale, even=even)
    if is_integral(arg.type):
        if scale >= 0:
            return node(arg.type, lambda data: data, arg)
        raise mismatch(name, [arg], "negative digits are not supported for whole numbers in process")
    if arg.type != DOUBLE or not 0 <= scale <= 15:
        raise mismatch(name, [arg], "takes doubles with 0 to 15 digits, decimals or whole numbers in process")

    def run(data: Data) -> Data:
        numbers, valid = to_numpy(data)
        return from_numpy(_round_doubles(numbers, scale, even=even), valid, DOUBLE, data)

    return node(DOUBLE, run, arg)


def _rounded_decimal(arg: Node, scale: int, *, even: bool) -> Node:
    whole = arg.type.precision - arg.type.scale + 1
    if scale < 0:
        raise mismatch("round", [arg], "negative digits are not supported in process")
    kept = min(scale, arg.type.scale)
    kind = pa.decimal128(min(whole + kept, 38), kept)
    return node(kind, lambda data: decimals.fit(data, kind, even=even), arg)


def _round_doubles(numbers: Any, scale: int, *, even: bool) -> Any:
    """Round the shortest decimal text of each double, as Spark does, without writing the text.

    A double stands for the decimal ``(2 n + 1) / (2 · 10**scale)`` exactly half way between two results if it is the
    double nearest to it. That holds up to 15 digits; longer ones are rounded one by one.
    """
    power = 10.0**scale
    size = np.abs(numbers)
    with np.errstate(all="ignore"):
        lower = np.floor(size * power)
        middle = (2 * lower + 1) / (2 * power)
        before = (2 * lower - 1) / (2 * power)
        up = (size > middle) | ((size == middle) & ((lower % 2 == 1) if even else True))
        down = (size < before) | ((size == before) & ((lower % 2 == 1) if even else False))
        found = np.copysign((lower + up - down) / power, numbers)
        long = (size * power >= 1e15) & (size < 2.0**53)
    found = np.where((size >= 2.0**53) | ~np.isfinite(numbers), numbers, found)
    unit, mode = Decimal(1).scaleb(-scale), ROUND_HALF_EVEN if even else ROUND_HALF_UP
    for at in np.flatnonzero(long):
        found[at] = float(Decimal(repr(float(numbers[at]))).quantize(unit, mode))
    return np.where(found == 0, 0.0, found)
