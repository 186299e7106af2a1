"""Columns of values that many answers contain: of rows, because windows overlap, and of windows.

Values are written once for each slice of answers, and answers contain numbers instead. The columns of a row have the
same numbers, and so have those of a window: `pack_table` writes them once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import one
from skyband.kernels.expand import number_distinct
from skyband.kernels.stream import Ints

__all__ = ["OFTEN", "RepeatedRows", "kind_of", "repeated", "small_numbers", "with_positive_zero"]

OFTEN = 3  # with fewer answers per row, numbers cost more than they save
_SMALL = 1 << 15  # so many values have numbers of 16 bits


class RepeatedRows:
    """The rows of a shard's table that answers contain."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self._numbers = np.full(table.num_rows, -1, np.int64)

    def columns(self, rows: Ints, wanted: Iterable[str]) -> dict[str, pa.Array]:
        """Return columns of these rows, as dictionaries if rows are repeated."""
        distinct, places = np.empty(rows.size, np.int64), np.empty(rows.size, np.int32)
        size = number_distinct(rows, self._numbers, distinct, places)
        table = self._table.select(list(dict.fromkeys(wanted)))
        if size * OFTEN > rows.size:
            taken = table.take(pa.array(rows))
            return {name: one(taken[name]) for name in table.column_names}
        taken = table.take(pa.array(distinct[:size]))
        return repeated({name: one(taken[name]) for name in table.column_names}, places)


def repeated(columns: Mapping[str, pa.Array], numbers: Any) -> dict[str, pa.Array]:
    """Return columns with a value for each of the numbers, as dictionaries if values are repeated.

    >>> {name: str(column.type) for name, column in repeated({"a": pa.array([5.0])}, np.zeros(4, np.int64)).items()}
    {'a': 'dictionary<values=double, indices=int16, ordered=0>'}
    """
    size = max(map(len, columns.values()), default=0)
    small = small_numbers(numbers, size)
    if size * OFTEN > numbers.size:
        return {name: column.take(small) for name, column in columns.items()}
    # All numbers are below the size. Arrow would check that again for each column.
    return {name: pa.DictionaryArray.from_arrays(small, column, safe=False) for name, column in columns.items()}


def kind_of(column: pa.Array) -> pa.DataType:
    """Return the type of a column's values.

    >>> kind_of(pa.array(["a"]).dictionary_encode())
    DataType(string)
    """
    return column.type.value_type if pa.types.is_dictionary(column.type) else column.type


def with_positive_zero(column: pa.Array) -> pa.Array:
    """Return doubles with 0.0 for -0.0.

    >>> str(with_positive_zero(pa.array([-0.0]))[0].as_py())
    '0.0'
    """
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(column.indices, with_positive_zero(column.dictionary))
    return pc.add(column, 0.0)


def small_numbers(numbers: Any, size: int) -> pa.Array:
    """Return numbers below `size` in a type that is as short as they allow."""
    return pa.array(numbers.astype(np.int16 if size <= _SMALL else np.int32))
