"""Add up the partials of several tasks that have the same key and pane."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.aggregate.plan import AggregatePlan
from skyband.data.arrow import one
from skyband.sharding.envelope import Envelope
from skyband.sharding.rows import group_rows

__all__ = ["add_partials"]


def add_partials(plan: AggregatePlan, envelope: Envelope) -> Envelope:
    """Return the envelope with one partial for each group, key and pane.

    Sums are integers that wrap around, so they do not depend on the order of addition.
    """
    table = envelope.rows
    if not table.num_rows:
        return envelope
    scan = envelope.shard // plan.shards
    names = [*plan.groups[scan], plan.keys[scan], "pane"]
    grouping = group_rows(table, names)
    if grouping.size == table.num_rows:
        return envelope
    order = np.argsort(grouping.codes, kind="stable")
    begins = np.flatnonzero(np.diff(grouping.codes[order], prepend=-1))
    columns = {}
    extremes = set(plan.shape(scan).extremes)
    for name in table.column_names:
        column = one(table[name])
        if name in names:
            columns[name] = column.take(pa.array(order[begins]))
        elif name == "last" or name in extremes:
            # A task may lack a column that others have.
            values = column if name == "last" else pc.fill_null(column, -np.inf)
            columns[name] = pa.array(np.maximum.reduceat(values.to_numpy()[order], begins))
        else:
            columns[name] = pa.array(np.add.reduceat(pc.fill_null(column, 0).to_numpy()[order], begins))
    return envelope._replace(rows=pa.table(columns))
