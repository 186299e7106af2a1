"""A hash of whole rows, equal to Spark's `xxhash64`: it breaks ties between rows that have no id."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.data.arrow import one
from skyband.errors import UnsupportedError
from skyband.kernels.stream import Ints
from skyband.kernels.xxhash import hash_bytes, hash_ints, hash_longs

__all__ = ["row_hash"]

_SEED = 42  # Spark's
_LONGEST_LONG = 18  # digits of a decimal that Spark hashes as a long
_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)


def row_hash(table: pa.Table, columns: Iterable[str] | None = None) -> Ints:
    """Hash each row over `columns`, by default all of them, in their order.

    >>> row_hash(pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["a", None]})).tolist()
    [-8527884376001292090, -3341702809300393011]
    """
    seeds = np.full(table.num_rows, _SEED, np.uint64)
    for name in table.column_names if columns is None else columns:
        _add(name, one(table[name]), seeds)
    return seeds.view(np.int64)


def _add(name: str, column: pa.Array, seeds: Any) -> None:
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if pa.types.is_null(kind):
        return
    valid = np.ones(len(column), np.bool_) if not column.null_count else column.is_valid().to_numpy(False)
    if any(is_text(kind) for is_text in _TEXT):
        letters = column.cast(pa.large_binary())
        _, offsets, data = letters.buffers()
        ends = np.frombuffer(offsets, np.int64, len(letters) + 1, 8 * letters.offset)
        found = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
        hash_bytes(found, ends[:-1], ends[1:], valid, seeds)
    elif pa.types.is_boolean(kind) or pa.types.is_date32(kind) or (pa.types.is_integer(kind) and kind.bit_width < 64):
        hash_ints(_words(column, pa.int64()), valid, seeds)
    elif pa.types.is_integer(kind):
        hash_longs(_words(column, kind), valid, seeds)
    elif pa.types.is_timestamp(kind):
        hash_longs(_words(column.cast(pa.timestamp("us", kind.tz)), pa.int64()), valid, seeds)
    elif pa.types.is_float32(kind):
        hash_ints(_bits(column, np.float32, np.uint32), valid, seeds)
    elif pa.types.is_float64(kind):
        hash_longs(_bits(column, np.float64, np.uint64), valid, seeds)
    elif pa.types.is_decimal(kind) and kind.precision <= _LONGEST_LONG:
        hash_longs(_unscaled(column), valid, seeds)
    else:
        raise UnsupportedError(
            f"column {name!r} is of type {kind}, which cannot be hashed here, so ties between equal rows cannot be "
            "broken. Name a column with id=, or drop this column."
        )


def _words(column: pa.Array, kind: pa.DataType) -> Any:
    """Values as 64-bit words, with any value where a null is."""
    if pa.types.is_boolean(column.type) or pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    numbers = column.cast(kind, safe=False).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers.astype(np.int64).view(np.uint64)


def _bits(column: pa.Array, real: Any, word: Any) -> Any:
    """The bits of floating-point numbers; zeros are positive, and there is one NaN, as in Java."""
    values = column.fill_null(0.0).to_numpy(zero_copy_only=False).astype(real) + real(0.0)
    return np.where(np.isnan(values), real("nan"), values).astype(real).view(word).astype(np.uint64)


def _unscaled(column: pa.Array) -> Any:
    """Decimals of up to 18 digits as whole numbers of their last digit."""
    whole = column.cast(pa.decimal128(38, column.type.scale)).fill_null(0)
    words = np.frombuffer(whole.buffers()[1], np.int64).reshape(-1, 2)
    return words[whole.offset : whole.offset + len(whole), 0].copy().view(np.uint64)
