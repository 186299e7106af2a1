"""Decimals against Python's own, on numbers that are near powers of two and ten."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal, localcontext

import numpy as np
import pyarrow as pa
import pytest

from skyband.expressions import compile_expression, decimals

NEAR = [2**bits + step for bits in (31, 32, 53, 62, 63, 64, 65) for step in (-2, -1, 0, 1)]
NEAR += [10**digits + step for digits in (1, 9, 15, 18, 19, 20) for step in (-1, 0, 1)]


def values(scale, digits):
    """Numbers with this scale, whose digits after the point are few, many, nines, or a half."""
    rng = np.random.default_rng(1)
    after = [0, 10**scale - 1, 10**scale // 2, 10**scale // 2 - 1, 5 * 10 ** (scale - 2), 15 * 10 ** (scale - 2)]
    found = []
    for number in [0, 1, 2, *NEAR]:
        for rest in [*after, 10**scale - int(rng.integers(1, 1000)), int(rng.integers(0, 10**scale))]:
            found += [sign * (number * 10**scale + rest) for sign in (1, -1)]
    return [Decimal(number).scaleb(-scale) for number in found if abs(number) < 10**digits]


@pytest.mark.parametrize("scale", [4, 10, 17])
def test_cutting_and_rounding(scale):
    with localcontext(prec=100):
        found = values(scale, 38)
        data = pa.array(found, pa.decimal128(38, scale))
        for kept in range(scale):
            unit = Decimal(1).scaleb(-kept)
            assert decimals.cut(data, kept).to_pylist() == [one.quantize(unit, ROUND_DOWN) for one in found]
            assert decimals.rounded(data, kept).to_pylist() == [one.quantize(unit, ROUND_HALF_UP) for one in found]
            even = decimals.rounded(data, kept, even=True).to_pylist()
            assert even == [one.quantize(unit, ROUND_HALF_EVEN) for one in found]
        up, down = decimals.whole(data, up=True).to_pylist(), decimals.whole(data, up=False).to_pylist()
        assert up == [one.quantize(Decimal(1), ROUND_CEILING) for one in found]
        assert down == [one.quantize(Decimal(1), ROUND_FLOOR) for one in found]


@pytest.mark.parametrize("scale", [2, 6, 17])
def test_doubles_are_the_nearest(scale):
    found = values(scale, 38)
    data = pa.array(found, pa.decimal128(38, scale))
    assert decimals.to_double(data).to_pylist() == [float(one) for one in found]


@pytest.mark.parametrize("scale", [2, 6])
def test_strings(scale):
    data = pa.table({"x": pa.array(values(scale, 30), pa.decimal128(30, scale))})
    found = compile_expression("CAST(x AS STRING)", data.schema).evaluate(data).to_pylist()
    assert found == [f"{one:f}" if one else f"{abs(one):f}" for one in data.column("x").to_pylist()]


@pytest.mark.parametrize("divisor", ["3", "0.7", "-2.50", "999999999", "i"])
def test_quotients(divisor):
    found = values(4, 24)
    data = pa.table({"x": pa.array(found, pa.decimal128(24, 4)), "i": pa.array([2**31 - 1] * len(found), pa.int32())})
    compiled = compile_expression(f"x / {divisor}", data.schema)
    by = Decimal(2**31 - 1 if divisor == "i" else divisor)
    with localcontext(prec=120):
        exact = [(one / by).quantize(Decimal(1).scaleb(-38), ROUND_HALF_UP) for one in found]
        expected = [one.quantize(Decimal(1).scaleb(-compiled.type.scale), ROUND_HALF_UP) for one in exact]
    assert compiled.evaluate(data).to_pylist() == expected
