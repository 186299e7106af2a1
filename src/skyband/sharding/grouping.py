"""The groups of a table's rows as small numbers, and the shard that each group lives in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import one
from skyband.kernels.stream import Ints

__all__ = ["Grouping", "group_rows", "shard_of_groups"]


class Grouping(NamedTuple):
    """A group for every row."""

    codes: Ints  # per row
    samples: Ints  # per group: one of its rows

    @property
    def size(self) -> int:
        """How many groups there are."""
        return int(self.samples.size)


def group_rows(table: pa.Table, columns: Sequence[str]) -> Grouping:
    """Number the groups: rows with equal values (nulls and NaN are values) in all of the columns are one."""
    if not columns:
        return Grouping(np.zeros(table.num_rows, np.int64), np.zeros(min(1, table.num_rows), np.int64))
    codes, known = np.zeros(table.num_rows, np.int64), 1
    for name in columns:
        array = one(table[name])
        if pa.types.is_floating(array.type):
            array = pc.add(array, pa.scalar(0.0, array.type))  # -0.0 becomes 0.0
        encoded = array.dictionary_encode(null_encoding="encode")
        found = len(encoded.dictionary)
        codes = codes * max(1, found) + encoded.indices.to_numpy(zero_copy_only=False)
        known *= max(1, found)
        if len(columns) > 1 and known > 4 * (table.num_rows + 1):
            codes, known = _renumbered(codes)
    if known > 4 * (table.num_rows + 1):
        codes, known = _renumbered(codes)
    samples = np.full(known, -1, np.int64)
    samples[codes[::-1]] = np.arange(table.num_rows - 1, -1, -1)
    present = samples >= 0
    if not present.all():
        codes, samples = (np.cumsum(present) - 1)[codes], samples[present]
    return Grouping(codes, samples)


def _renumbered(codes: Ints) -> tuple[Ints, int]:
    values, inverse = np.unique(codes, return_inverse=True)
    return inverse.astype(np.int64), int(values.size)


def shard_of_groups(table: pa.Table, columns: Sequence[str], grouping: Grouping, shards: int) -> Ints:
    """The shard of each group, from its values alone: the same in every task and every run."""
    if shards == 1 or not grouping.size:
        return np.zeros(grouping.size, np.int64)
    samples = pa.array(grouping.samples)
    values: list[list[Any]] = [one(table[name]).take(samples).to_pylist() for name in columns]
    keys = zip(*(map(_same_text, column) for column in values), strict=True)
    return np.fromiter((crc32(repr(key).encode()) % shards for key in keys), np.int64, grouping.size)


def _same_text(value: Any) -> Any:
    return value + 0.0 if isinstance(value, float) else value
