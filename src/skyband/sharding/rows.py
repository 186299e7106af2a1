"""Convert a table for the kernels: times and scores as arrays, groups as small numbers, and the stream order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import kernel_array, one
from skyband.kernels.stream import Floats, Ints
from skyband.kernels.validation import first_backwards, has_negative_zero, rows_by_group, shared_positions
from skyband.windows import ALWAYS

__all__ = [
    "Grouping",
    "SortedRows",
    "by_group_and_position",
    "group_rows",
    "ids_in",
    "positions_of",
    "scores_of",
    "shard_of_groups",
    "sorted_rows",
    "stream_order",
    "without_negative_zero",
]

FEW = 16  # if at most one of this many rows shares its position, comparing scores is cheaper than reading ids


class Grouping(NamedTuple):
    """The group of every row."""

    codes: Ints  # per row
    samples: Ints  # per group: one of its rows

    @property
    def size(self) -> int:
        """Number of groups."""
        return int(self.samples.size)


class SortedRows(NamedTuple):
    """The order of rows by group, then position."""

    order: Ints | None  # row indexes; None: rows are in this order
    begins: Ints  # (groups + 1): where each group's rows begin
    positions: Ints  # of the rows in this order


def group_rows(table: pa.Table, columns: Sequence[str]) -> Grouping:
    """Number the groups: rows with equal values in all columns form a group; nulls and NaN count as values."""
    if not columns:
        return Grouping(np.zeros(table.num_rows, np.int64), np.zeros(min(1, table.num_rows), np.int64))
    codes, known = np.zeros(table.num_rows, np.int64), 1
    for name in columns:
        numbers, found = _numbered(without_negative_zero(one(table[name])))
        codes = codes * max(1, found) + numbers
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


def without_negative_zero(values: pa.Array) -> pa.Array:
    """Return the values with 0.0 for -0.0."""
    return pc.add(values, pa.scalar(0.0, values.type)) if pa.types.is_floating(values.type) else values


def _numbered(array: pa.Array) -> tuple[Ints, int]:
    """Return a number for each value, with null as a value, and a bound of the numbers."""
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode(null_encoding="encode")
    values = array.dictionary
    if len(values.unique()) < len(values):  # a writer may store a value twice
        return _numbered(array.cast(values.type))
    indices = array.indices.fill_null(len(values)) if array.null_count else array.indices
    return indices.to_numpy(zero_copy_only=False), len(values) + bool(array.null_count)


def _renumbered(codes: Ints) -> tuple[Ints, int]:
    values, inverse = np.unique(codes, return_inverse=True)
    return inverse.astype(np.int64), int(values.size)


def shard_of_groups(table: pa.Table, columns: Sequence[str], grouping: Grouping, shards: int) -> Ints:
    """The shard of each group, computed from its values only: the same in every task and every run."""
    if shards == 1 or not grouping.size:
        return np.zeros(grouping.size, np.int64)
    samples = pa.array(grouping.samples)
    values: list[list[Any]] = [without_negative_zero(one(table[name]).take(samples)).to_pylist() for name in columns]
    return np.fromiter(
        (crc32(repr(key).encode()) % shards for key in zip(*values, strict=True)), np.int64, grouping.size
    )


def by_group_and_position(positions: Ints, grouping: Grouping) -> tuple[Ints | None, Ints]:
    """Row indexes by group, then position, or None if rows are in this order; and where groups begin."""
    grouped = grouping.size > 1
    if first_backwards(positions, ALWAYS) < 0:
        return rows_by_group(grouping.codes, grouping.size) if grouped else (None, np.array([0, positions.size]))
    order = np.argsort(positions, kind="stable")
    if not grouped:
        return order, np.array([0, positions.size])
    by_group, begins = rows_by_group(grouping.codes[order], grouping.size)
    return order[by_group], begins


def stream_order(positions: Ints, grouping: Grouping, ids: Callable[[Ints], pa.Array]) -> tuple[Ints, Ints]:
    """Row indexes by group, then position, then id; and where groups begin. `ids` returns the ids of some rows."""
    found = sorted_rows(positions, grouping, ids)
    return np.arange(positions.size) if found.order is None else found.order, found.begins


def sorted_rows(
    positions: Ints, grouping: Grouping, ids: Callable[[Ints], pa.Array], scores: Floats | None = None
) -> SortedRows:
    """As `stream_order`, without an order if rows are in it already.

    With `scores`, rows that share group and position, but not the score, are in any order: of two scores the higher one
    is better, whatever the ids are. Windows over a number of rows need the order by id, and must not pass them.
    """
    order, begins = by_group_and_position(positions, grouping)
    # Sort only rows that share group and position by id: they are few, or their ids are already sorted.
    lined = positions if order is None else positions[order]
    places, runs = shared_positions(lined, begins)
    if scores is not None and places.size * FEW <= positions.size:
        equal = _equal_scores(runs, scores[places if order is None else order[places]])
        places, runs = places[equal], runs[equal]
    if not places.size:
        return SortedRows(order, begins, lined)
    order = np.arange(positions.size) if order is None else order
    shared = ids(order[places])
    if shared.null_count == 0 and pa.types.is_integer(shared.type):
        inside = np.lexsort([shared.to_numpy(zero_copy_only=False), runs])
    else:
        # Rows without an id come first. Versions of PyArrow differ in the option for that.
        keys = pa.table({"run": runs, "known": pc.is_valid(shared), "id": shared})
        inside = pc.sort_indices(keys, [(name, "ascending") for name in keys.column_names]).to_numpy()
    order[places] = order[places[inside]]
    return SortedRows(order, begins, lined)


def _equal_scores(runs: Ints, scores: Floats) -> Ints:
    """Return the entries, in order, whose run has another entry with the same score."""
    by_score = np.lexsort([scores, runs])
    runs, scores = runs[by_score], scores[by_score]
    equal = np.zeros(runs.size + 1, bool)
    equal[1:-1] = (runs[1:] == runs[:-1]) & (scores[1:] == scores[:-1])
    found: Ints = np.sort(by_score[equal[1:] | equal[:-1]])
    return found


def ids_in(table: pa.Table, id_: str) -> Callable[[Ints], pa.Array]:
    """Return a function that returns the ids of some rows of the table."""
    return lambda rows: one(table[id_]).take(pa.array(rows))


def positions_of(table: pa.Table, time: str) -> Ints:
    """Event times in microseconds; null times are not allowed."""
    values: Ints = kernel_array(one(table[time]).cast(pa.int64()))
    return values


def scores_of(table: pa.Table, name: str) -> Floats:
    """Scores, NaN if missing; negative zeros become zeros."""
    values: Floats = kernel_array(one(table[name]).cast(pa.float64()))
    return values + 0.0 if has_negative_zero(values.view(np.int64)) else values
