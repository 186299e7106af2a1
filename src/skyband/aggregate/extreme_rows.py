"""The rows that extremes come from, as columns of partials: the value, its position, and the row itself.

Rows of a key have one order: by time, then by id; without ids by time, value and a hash of the row. ``latest`` is the
last of them and ``first`` the first. ``max`` and ``min`` are the last of those with the best value. So the choice does
not depend on the order in which rows arrive, nor on how they are divided among tasks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.aggregate.kernels.extreme_rows import choose_rows
from skyband.aggregate.kernels.partials import BY_VALUE, NONE, OLDEST
from skyband.aggregate.plan import ITEM, AggregatePlan
from skyband.aggregate.shape import EXTREMES, AggregateShape
from skyband.data.arrow import one
from skyband.kernels.stream import Floats, Ints
from skyband.sharding.rows import Grouping, group_rows
from skyband.windows import ALWAYS, NEVER

__all__ = ["PartialLayout", "added", "at_name", "extreme_columns", "row_columns"]


def at_name(extreme: str) -> str:
    """Return the name of the column with the position of an extreme's row."""
    return f"{extreme}:at"


def row_columns(table: pa.Table, extreme: str) -> dict[str, str]:
    """Return the columns of partials that contain an extreme's row, by their names in the row.

    >>> row_columns(pa.table({"max": [1.0], "max:at": [7], "max.game": ["first"]}), "max")
    {'game': 'max.game'}
    """
    return {name.removeprefix(f"{extreme}."): name for name in table.column_names if name.startswith(f"{extreme}.")}


class PartialLayout(NamedTuple):
    """What partials have: the columns of groups and of the key, what queries need, and how rows are ordered."""

    groups: tuple[str, ...]
    key: str
    shape: AggregateShape
    id: str | None  # the column that orders rows with the same time
    ids_given: bool  # whether it contains ids, not hashes: then it counts before the value

    @classmethod
    def of(cls, plan: AggregatePlan, scan: int) -> PartialLayout:
        """Return the layout of the partials of a scan."""
        return cls(plan.groups[scan], plan.keys[scan], plan.shape(scan), plan.id, plan.ids_given)


def extreme_columns(
    layout: PartialLayout, extreme: str, codes: Ints, size: int, positions: Ints, values: Floats, rows: pa.Table
) -> dict[str, pa.Array]:
    """Return the columns of an extreme: its value, position and row for each code below `size`.

    `values` are signed. `rows` has the columns to return, and the one that orders rows with the same time.
    """
    ids = None if layout.id is None else one(rows[layout.id])
    places = _best(EXTREMES[extreme], codes, size, positions, values, ids, layout.ids_given)
    columns = {extreme: pa.array(values[places]), at_name(extreme): pa.array(positions[places])}
    chosen = rows.take(pa.array(places))
    return columns | {f"{extreme}.{name}": one(chosen[name]) for name in rows.column_names}


def added(layout: PartialLayout, table: pa.Table) -> pa.Table:
    """Add up partials with the same group, key and pane.

    Sums are integers that wrap around, so they do not depend on the order of addition. A table may lack a column that
    others have, which is then null in its partials.
    """
    names, shape = [*layout.groups, layout.key, "pane"], layout.shape
    names += [ITEM] if ITEM in table.column_names else []
    grouping = group_rows(table, names)
    if grouping.size == table.num_rows:
        return table
    order = np.argsort(grouping.codes, kind="stable")
    begins = np.flatnonzero(np.diff(grouping.codes[order], prepend=-1))
    columns: dict[str, Any] = {}
    identified = shape.extremes if shape.identified else ()
    for extreme in identified:
        if extreme in table.column_names:
            columns |= _best_partials(layout, table, extreme, grouping)
    for name in table.column_names:
        column = one(table[name])
        if name in names:
            columns[name] = column.take(pa.array(order[begins]))
        elif name == "last" or (name in shape.extremes and name not in identified):
            values = column if name == "last" else pc.fill_null(column, -np.inf)
            columns[name] = pa.array(np.maximum.reduceat(values.to_numpy()[order], begins))
        elif name not in columns and not name.startswith(tuple(EXTREMES)):
            columns[name] = pa.array(np.add.reduceat(pc.fill_null(column, 0).to_numpy()[order], begins))
    return pa.table({name: columns[name] for name in table.column_names if name in columns})


def _best_partials(layout: PartialLayout, table: pa.Table, extreme: str, grouping: Grouping) -> dict[str, pa.Array]:
    """Return the columns of an extreme of the best partial for each code."""
    compared = EXTREMES[extreme]
    rows = row_columns(table, extreme)
    names = [extreme, *(name for name in (at_name(extreme), *rows.values()) if name in table.column_names)]
    values = pc.fill_null(one(table[extreme]), -np.inf).to_numpy()
    missing = NEVER if compared == OLDEST else ALWAYS
    ats = (
        pc.fill_null(one(table[at_name(extreme)]), missing).to_numpy()
        if at_name(extreme) in names
        else np.full(table.num_rows, missing)
    )
    ids = one(table[rows[layout.id]]) if layout.id in rows else None
    places = pa.array(_best(compared, grouping.codes, grouping.size, ats, values, ids, layout.ids_given))
    return {name: one(table[name]).take(places) for name in names}


def _best(
    compared: int, codes: Ints, size: int, positions: Ints, values: Floats, ids: pa.Array | None, ids_given: bool
) -> Ints:
    """Return the best row of each code."""
    best, tied = np.full(size, NONE), np.zeros(size, bool)
    choose_rows(codes, positions, values, compared, ids_given, best, tied)
    if ids is None or not tied.any():
        return best
    rival = best[codes]
    equal = tied[codes] & (positions == positions[rival])
    if compared == BY_VALUE or not ids_given:
        equal &= (values == values[rival]) | (np.isnan(values) & np.isnan(values[rival]))
    rows = np.flatnonzero(equal)
    # The last row of each code is its best: nulls are the smallest ids.
    last = "descending" if compared == OLDEST else "ascending"
    shared = ids.take(pa.array(rows))
    rivals = pa.table({"code": codes[rows], "known": shared.is_valid(), "id": shared, "value": values[rows]})
    keys = [("code", "ascending"), ("known", last), ("id", last), ("value", last)]
    ordered = pc.sort_indices(rivals, keys).to_numpy()
    rows = rows[ordered]
    best[codes[rows]] = rows  # of repeated indices, numpy assigns the last
    return best
