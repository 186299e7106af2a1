"""Packed keys come back, and have the order of their columns."""

from __future__ import annotations

import datetime as dt
import math
from random import Random

import pyarrow as pa
import pytest

from skyband.data.composite_key import packed_keys, unpacked_keys

DRAWN = {
    pa.string(): ["", "a", "ab", "a\0", "a\0b", "é", "\0", "\0\xff", "z" * 20],
    pa.binary(): [b"", b"\0", b"\0\0", b"\0\xff", b"\xff", b"a\0"],
    pa.int64(): [-(2**63), -1, 0, 1, 255, 256, 2**63 - 1],
    pa.int32(): [-(2**31), -1, 0, 7],
    pa.uint64(): [0, 1, 2**64 - 1, 2**63],
    pa.float64(): [-math.inf, -1.5, 0.0, 5e-324, 2.0, math.inf],
    pa.bool_(): [False, True],
    pa.date32(): [dt.date(1960, 1, 1), dt.date(2026, 1, 1)],
    pa.timestamp("us", "UTC"): [dt.datetime(1960, 1, 1, tzinfo=dt.UTC), dt.datetime(2026, 1, 1, 3, tzinfo=dt.UTC)],
}


@pytest.mark.parametrize("seed", range(8))
def test_packed_keys_have_the_order_of_the_columns_and_come_back(seed):
    random = Random(seed)
    kinds = random.choices(list(DRAWN), k=random.randint(2, 4))
    rows = [tuple(None if random.random() < 0.05 else random.choice(DRAWN[one]) for one in kinds) for _ in range(80)]
    columns = [pa.array(values, kind) for values, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
    packed = packed_keys([column.slice(3) for column in columns])
    back = list(zip(*(one.to_pylist() for one in unpacked_keys(packed, kinds)), strict=True))
    whole = [None if None in row else row for row in rows[3:]]
    assert [None if None in row else row for row in back] == whole
    assert [one.type for one in unpacked_keys(packed, kinds)] == kinds
    assert [one is None for one in packed.to_pylist()] == [row is None for row in whole]
    known = [(key, row) for key, row in zip(packed.to_pylist(), whole, strict=True) if row is not None]
    ordered = [tuple(one.encode() if isinstance(one, str) else one for one in row) for _, row in sorted(known)]
    assert ordered == sorted(ordered)


def test_negative_zero_and_nan():
    packed = packed_keys([pa.array([0.0, -0.0, math.nan]), pa.array(["a", "a", "a"])])
    assert packed[0] == packed[1]
    assert packed[2].as_py() is None
