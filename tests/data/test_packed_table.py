"""Tables as bytes: numbers that columns share are written once, and every value comes back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from skyband.data.arrow import to_bytes
from skyband.data.packed_table import pack_table, unpack_parts, unpack_table

AT = datetime(2026, 11, 18, tzinfo=UTC)
VALUES = {
    "number": pa.array([1.5, None, -0.0]),
    "text": pa.array(["a", None, ""]),
    "raw": pa.array([b"x", b"", None]),
    "at": pa.array([AT, None, AT], pa.timestamp("us", "UTC")),
    "exact": pa.array([Decimal("1.20"), None, Decimal("-3.00")], pa.decimal128(20, 2)),
    "flag": pa.array([True, None, False]),
    "span": pa.array([timedelta(1), None, timedelta(0)], pa.duration("us")),
    "several": pa.array([[1, None], None, []], pa.list_(pa.int64())),
    "named": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    "nested": pa.array([{"deep": {"flag": True}}, None, {"deep": None}]),
    "none": pa.nulls(3),
}


def table_of(numbers, values=VALUES, **more):
    """A table in which the columns of `values` share their numbers; `more` columns have their own."""
    shared = pa.array(numbers)
    found = {name: pa.DictionaryArray.from_arrays(shared, column) for name, column in values.items()}
    return pa.table({"first": np.arange(len(numbers)), **found, **more})


@pytest.mark.parametrize("kind", [np.int16, np.int32])
@pytest.mark.parametrize("size", [1, 3, 100])
def test_every_value_comes_back_in_its_place(kind, size):
    numbers = np.random.default_rng(size).integers(0, 3, size).astype(kind)
    windows = pa.array(np.arange(size) // 7, pa.int16())
    bounds = {
        name: pa.DictionaryArray.from_arrays(windows, pa.array(np.arange(99) * n)) for name, n in (("a", 1), ("b", 2))
    }
    alone = pa.array(numbers % 2).dictionary_encode()
    table = table_of(numbers, **bounds, alone=alone, last=pa.array(["x"] * size))
    data = pack_table(table)
    found = unpack_table(data)
    assert found.column_names == table.column_names
    assert repr(found.to_pylist()) == repr(table.to_pylist())  # -0.0 stays
    for name, column in VALUES.items():
        assert found.schema.field(name).type == column.type
    parts = list(unpack_parts(data, 7))
    assert [part.num_rows for part in parts] == [min(7, size - low) for low in range(0, size, 7)]
    assert pa.concat_tables(parts).equals(found)


def test_numbers_are_written_once():
    numbers = np.random.default_rng(0).integers(0, 3, 10_000).astype(np.int16)
    many = {f"c{place}": pa.array([1.0, 2.0, 3.0]) for place in range(20)}
    assert len(pack_table(table_of(numbers, many))) < len(pack_table(table_of(numbers, {"c0": many["c0"]}))) + 10_000


def test_equal_numbers_in_other_memory_are_other_numbers():
    one, two = (pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(values)) for values in ("ab", "cd"))
    table = pa.table({"one": one, "two": two})
    assert pack_table(table) == to_bytes(table)
    assert unpack_table(pack_table(table)).to_pylist() == table.to_pylist()


def test_parts_of_the_same_memory_are_not_confused():
    numbers = pa.array([0, 1, 1, 0], pa.int16())
    early, late = (
        pa.DictionaryArray.from_arrays(numbers.slice(begin, 3), pa.array(values))
        for begin, values in ((0, "ab"), (1, "cd"))
    )
    table = pa.table({"early": early, "late": late})
    assert unpack_table(pack_table(table)).to_pylist() == table.to_pylist()


def test_numbers_with_nulls_and_tables_without_rows():
    numbers = pa.array([0, None, 1])
    columns = {name: pa.DictionaryArray.from_arrays(numbers, pa.array([5, 6])) for name in "ab"}
    for table in (pa.table(columns), pa.table(columns).slice(0, 0), table_of(np.empty(0, np.int16))):
        found = unpack_table(pack_table(table))
        assert found.column_names == table.column_names
        assert found.to_pylist() == table.to_pylist()


def test_tables_of_earlier_versions():
    table = table_of(np.array([2, 0, 1], np.int16))
    assert repr(unpack_table(to_bytes(table)).to_pylist()) == repr(table.to_pylist())
