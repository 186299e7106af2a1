"""A table's rows in stream order, and their times and scores as the arrays that kernels read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import one
from skyband.kernels.stream import Floats, Ints
from skyband.kernels.validation import rows_by_group
from skyband.sharding.grouping import Grouping

__all__ = ["by_group_and_position", "positions_of", "scores_of", "stream_order"]


def by_group_and_position(positions: Ints, grouping: Grouping) -> tuple[Ints, Ints]:
    """The rows by group, then position; and where groups begin."""
    if positions.size and (positions[1:] < positions[:-1]).any():
        order = np.argsort(positions, kind="stable")
        by_group, begins = rows_by_group(grouping.codes[order], max(1, grouping.size))
        return order[by_group], begins
    if grouping.size <= 1:
        return np.arange(positions.size), np.array([0, positions.size])
    return rows_by_group(grouping.codes, grouping.size)


def stream_order(table: pa.Table, id_: str, positions: Ints, grouping: Grouping) -> tuple[Ints, Ints]:
    """The rows by group, then position, then id; and where groups begin."""
    order, begins = by_group_and_position(positions, grouping)
    placed, codes = positions[order], grouping.codes[order]
    together = (placed[1:] == placed[:-1]) & (codes[1:] == codes[:-1])
    if not together.any():
        return order, begins
    # Only rows that share group and position are sorted by id: they are few, or their ids are in order already.
    touched = np.zeros(order.size, bool)
    touched[1:] |= together
    touched[:-1] |= together
    places = np.flatnonzero(touched)
    ids = one(table[id_]).take(pa.array(order[places]))
    runs = np.cumsum(np.concatenate([[True], ~together]))[places]
    if ids.null_count == 0 and pa.types.is_integer(ids.type):
        inside = np.lexsort([ids.to_numpy(zero_copy_only=False), runs])
    else:
        keys = pa.table({"run": runs, "id": ids})
        inside = pc.sort_indices(
            keys, [("run", "ascending"), ("id", "ascending")], null_placement="at_start"
        ).to_numpy()
    order[places] = order[places[inside]]
    return order, begins


def positions_of(table: pa.Table, time: str) -> Ints:
    """Event times in microseconds; null times are not allowed."""
    values: Ints = one(table[time]).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return values


def scores_of(table: pa.Table, name: str) -> Floats:
    """Scores, NaN where there is none; negative zeros are zeros."""
    values: Floats = one(table[name]).to_numpy(zero_copy_only=False)
    return values + 0.0
