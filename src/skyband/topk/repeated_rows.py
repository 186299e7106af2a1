"""Columns of rows that many answers contain.

Windows overlap, so a row is often in many answers. Its values are written once for each slice of answers, and answers
contain numbers instead. Answers pass between processes, where each byte is copied several times.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import one
from skyband.kernels.expand import number_distinct
from skyband.kernels.stream import Ints

__all__ = ["RepeatedRows", "kind_of", "with_positive_zero"]

OFTEN = 3  # with fewer answers per row, numbers cost more than they save
_SMALL = 1 << 15  # so many values have numbers of 16 bits


class RepeatedRows:
    """The rows of a shard's table, and the names of the queries whose answers contain them."""

    def __init__(self, table: pa.Table, names: pa.Array) -> None:
        self._table, self._names = table, names
        self._numbers = np.full(table.num_rows, -1, np.int64)

    def columns(self, rows: Ints, wanted: Iterable[str]) -> dict[str, pa.Array]:
        """Return columns of these rows, as dictionaries if rows are repeated."""
        distinct, places = np.empty(rows.size, np.int64), np.empty(rows.size, np.int32)
        size = number_distinct(rows, self._numbers, distinct, places)
        table = self._table.select(list(dict.fromkeys(wanted)))
        if size * OFTEN > rows.size:
            taken = table.take(pa.array(rows))
            return {name: one(taken[name]) for name in table.column_names}
        taken, numbers = table.take(pa.array(distinct[:size])), _small(places, size)
        return {name: pa.DictionaryArray.from_arrays(numbers, one(taken[name])) for name in table.column_names}

    def queries(self, places: Ints) -> pa.Array:
        """Return the names of queries."""
        return pa.DictionaryArray.from_arrays(_small(places, len(self._names)), self._names)


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


def _small(numbers: Any, size: int) -> pa.Array:
    return pa.array(numbers.astype(np.int16 if size <= _SMALL else np.int32))
