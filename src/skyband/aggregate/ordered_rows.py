"""Rows of scans whose windows follow from the order of all rows of a group.

They are sent to the shard of the group as they are: the window of a row is known when nothing older can arrive.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.aggregate.plan import AggregatePlan
from skyband.data.arrow import one
from skyband.data.composite_key import packed_keys
from skyband.sharding.rows import positions_of

__all__ = ["GROUP", "ID", "KEY", "KNOWN", "POSITION", "ROW", "VALUE", "order_of", "ordered_rows"]

# The columns. They have the same names whatever the columns of the stream are, and the number of the scan is.
POSITION, KEY, VALUE, KNOWN, ID = "position", "key", "value", "known", "id"
GROUP, ROW = "group.", "row."  # prefixes of the columns of the group, by number, and of the row, by name


def order_of(plan: AggregatePlan, scan: int) -> tuple[str, ...]:
    """Return the columns that order rows with equal positions: nulls are the smallest ids.

    Without ids, a hash of the row replaces them; then the value counts first, if windows are not counts of rows.
    """
    identity = (KNOWN, ID) if plan.id is not None else ()
    value = () if plan.values[scan] is None else (VALUE,)
    return (*identity, *value, KEY) if plan.ids_given or plan.axis == "count" else (*value, *identity, KEY)


def ordered_rows(plan: AggregatePlan, scan: int, table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows of a scan: the number of a shard within the scan, and its rows."""
    table = table.filter(table[plan.wanted[scan]]).combine_chunks()
    if not table.num_rows:
        return
    parts = [one(table[name]) for name in plan.key_fields(scan)]
    columns = {POSITION: pa.array(positions_of(table, plan.time)), KEY: packed_keys(parts) if plan.parts else parts[0]}
    if (value := plan.values[scan]) is not None:
        columns[VALUE] = one(table[value])
    if plan.id is not None:
        columns |= {KNOWN: pc.is_valid(one(table[plan.id])), ID: one(table[plan.id])}
    columns |= {f"{GROUP}{number}": one(table[name]) for number, name in enumerate(plan.groups[scan])}
    if any(plan.queries[place].row for place in plan.scans[scan].places):
        columns |= {f"{ROW}{name}": one(table[name]) for name in plan.stored_fields}
    rows = pa.table(columns)
    homes = one(table[plan.homes[scan]]).to_numpy(zero_copy_only=False)
    for shard in np.unique(homes).tolist():
        yield shard, rows.filter(pa.array(homes == shard))
