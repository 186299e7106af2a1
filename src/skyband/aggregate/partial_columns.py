"""The columns of partials: the newest position, exact sums and extremes; and partials as engines take them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.aggregate.addends import Addends
from skyband.aggregate.decayed_sums import decayed_sums
from skyband.aggregate.extreme_rows import PartialLayout, at_name, extreme_columns
from skyband.aggregate.kernels.sums import sum_up
from skyband.aggregate.kernels.totals import Partials
from skyband.aggregate.shape import AggregateShape
from skyband.kernels.stream import Floats, Ints
from skyband.windows import ALWAYS

__all__ = ["column_of", "numbers_of", "partial_columns", "partials_of"]


def partial_columns(
    layout: PartialLayout, codes: Ints, size: int, positions: Ints, values: Floats, rows: pa.Table
) -> dict[str, pa.Array]:
    """Return the columns for each code below `size`. `values` are empty if all queries only count.

    `rows` has the columns that extremes return, and the one that orders rows with the same time.
    """
    shape = layout.shape
    lasts = np.full(size, ALWAYS)
    extremes = np.full((size, len(shape.extremes)), -np.inf)
    signs = shape.query_set(0).signs
    if shape.decay is None:
        bits = values.view(np.int64)
        addends = Addends(shape.reduced_powers).holding(bits)
        adds = np.zeros((size, addends.width), np.int64)
        summed = signs[:0] if shape.identified else signs
        sum_up(codes, positions, values, bits, addends.low, addends.powers, summed, adds, lasts, extremes)
    else:
        values = np.ones(positions.size) if shape.counts_decayed else values
        addends, adds = decayed_sums(shape.decay, codes, positions, values, lasts)
    columns: dict[str, Any] = {"last": pa.array(lasts)}
    columns |= {column: pa.array(adds[:, place]) for place, column in enumerate(addends.names)}
    if not shape.identified:
        return columns | {extreme: pa.array(extremes[:, place]) for place, extreme in enumerate(shape.extremes)}
    for extreme, sign in zip(shape.extremes, signs.tolist(), strict=True):
        columns |= extreme_columns(layout, extreme, codes, size, positions, sign * values, rows)
    return columns


def partials_of(
    shape: AggregateShape, table: pa.Table, slots: Ints, ids_of: Callable[[str], Ints]
) -> tuple[Partials, Addends]:
    """Return a table of partials for the engine, and what its sums are. Of an extreme, `ids_of` returns the rows."""
    addends = Addends(shape.powers).named_in(table.column_names)
    adds = [numbers_of(column_of(table, column, 0)) for column in addends.names]
    extremes = [numbers_of(column_of(table, column, -np.inf)) for column in shape.extremes]
    names = shape.extremes if shape.identified else ()
    ats = [numbers_of(column_of(table, at_name(name), ALWAYS)) for name in names]
    ids = [ids_of(name) for name in names]
    nothing = np.empty((table.num_rows, 0), np.int64)
    partials = Partials(
        slots=slots,
        positions=numbers_of(table["last"]),
        lows=numbers_of(table["pane"]),
        adds=np.stack(adds, axis=1),
        extremes=np.stack(extremes, axis=1) if extremes else np.empty((table.num_rows, 0)),
        ats=np.stack(ats, axis=1) if names else nothing,
        ids=np.stack(ids, axis=1) if names else nothing,
    )
    return partials, addends


def column_of(table: pa.Table, name: str, otherwise: Any) -> Any:
    """Return a column, or `otherwise` where it is missing: other workloads and tasks may not have written it."""
    if name not in table.column_names:
        return pa.array(np.full(table.num_rows, otherwise))
    return pc.fill_null(table[name], otherwise)


def numbers_of(column: Any) -> Any:
    """Return a column as an array for kernels."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.ascontiguousarray(array.to_numpy(zero_copy_only=False))
