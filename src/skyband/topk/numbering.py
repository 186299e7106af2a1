"""Sequence numbers for count windows: rows are numbered by position and id once no older row can arrive."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.data.arrow import from_bytes, one, to_bytes
from skyband.kernels.stream import Ints
from skyband.sharding.rows import Grouping, group_rows, ids_in, positions_of, stream_order
from skyband.topk.plan import Scan, TopKPlan

__all__ = ["Counted", "Numbering", "number_column"]

NOT_YET = -1


class Counted(NamedTuple):
    """A scan's numbered rows, by group and number."""

    rows: Ints  # their indexes in the shard's table
    numbers: Ints
    begins: Ints  # per group, and one more
    answered: Ints  # per group: number of objects before this step
    seen: Ints  # per group: number of objects after this step


class Numbering:
    """Count the objects of each scan, per group."""

    def __init__(self, plan: TopKPlan) -> None:
        self._plan = plan
        self._names = [number_column(scan) for scan in plan.scans]
        self._seen: dict[str, pa.Table] = {}  # by number column: the scan's groups and their counts

    def unnumbered(self, table: pa.Table) -> pa.Table:
        """Add number columns to rows that have just arrived."""
        for name in self._names:
            table = table.append_column(name, pa.array(np.full(table.num_rows, NOT_YET)))
        return table

    def number(
        self, rows: pa.Table, scan: int, mine: Ints, table: pa.Table, grouping: Grouping, clock: int, kept: Any
    ) -> tuple[pa.Table, Counted]:
        """Number the scan's rows before `clock`, and mark in `kept` those that are not numbered yet.

        `mine` contains the scan's rows, and `table` their times, ids and groups.
        """
        columns, name = self._plan.groups[scan], self._names[scan]
        numbers = one(rows[name]).to_numpy(zero_copy_only=False).copy()
        positions = positions_of(table, self._plan.time)
        seen, known, values = self._counts(scan, table, grouping)
        closed = (numbers[mine] == NOT_YET) & (positions < clock)
        kept[mine[(numbers[mine] == NOT_YET) & ~closed]] = True
        order, _ = stream_order(positions, grouping, ids_in(table, self._plan.id))
        fresh = order[closed[order]]
        codes = known[grouping.codes[fresh]]
        counts = np.bincount(codes, minlength=seen.size)
        begins = np.cumsum(counts) - counts
        by_code = np.argsort(codes, kind="stable")
        numbers[mine[fresh[by_code]]] = np.arange(fresh.size) - np.repeat(begins, counts) + np.repeat(seen, counts)
        now = seen + counts
        self._seen[name] = values.append_column("seen", pa.array(now))
        rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(numbers))
        numbered = mine[numbers[mine] != NOT_YET]
        owner = known[grouping.codes[numbers[mine] != NOT_YET]]
        sort = np.lexsort([numbers[numbered], owner])
        per_group = np.bincount(owner, minlength=seen.size)
        present = np.flatnonzero(per_group)
        starts = np.concatenate([[0], np.cumsum(per_group[present])])
        if not columns:
            present, starts = np.zeros(1, np.int64), np.array([0, numbered.size])
        where = numbered[sort]
        return rows, Counted(where, numbers[where], starts, seen[present], now[present])

    def _counts(self, scan: int, table: pa.Table, grouping: Grouping) -> tuple[Ints, Ints, pa.Table]:
        """The counts of all groups so far, the index of each of `grouping`'s groups among them, and their values."""
        columns = list(self._plan.groups[scan])
        before = self._seen.get(self._names[scan])
        if not columns:
            counts = np.zeros(1, np.int64) if before is None else one(before["seen"]).to_numpy().copy()
            return counts, np.zeros(max(1, grouping.size), np.int64), pa.table({"all": [0]})
        values = table.select(columns).take(pa.array(grouping.samples))
        counts = np.zeros(0, np.int64)
        if before is not None:
            counts = one(before["seen"]).to_numpy()
            values = pa.concat_tables([before.select(columns), values])
        together = group_rows(values, columns)
        # The groups known before come first and are already distinct, so their indexes do not change.
        places = np.full(together.size, -1, np.int64)
        places[together.codes[: counts.size]] = np.arange(counts.size)
        fresh = np.flatnonzero(places < 0)
        places[fresh] = counts.size + np.arange(fresh.size)
        order = np.empty(together.size, np.int64)
        order[places] = together.samples
        all_counts = np.concatenate([counts, np.zeros(fresh.size, np.int64)])
        return all_counts, places[together.codes[counts.size :]], values.take(pa.array(order))

    def counts(self, scan: int) -> pa.Table | None:
        """The counts of a scan's groups; None before the first object."""
        return self._seen.get(self._names[scan])

    def add_counts(self, scan: int, counts: pa.Table) -> None:
        """Add groups of a scan that are not counted here yet, with their counts."""
        before = self._seen.get(self._names[scan])
        tables = [counts] if before is None else [before, counts]
        self._seen[self._names[scan]] = pa.concat_tables(tables, promote_options="default").combine_chunks()

    def state(self) -> dict[str, bytes]:
        """Return the counts, for `load`."""
        return {name: to_bytes(table) for name, table in self._seen.items()}

    def load(self, state: dict[str, bytes]) -> None:
        """Restore the counts that `state` returned."""
        self._seen = {name: from_bytes(data) for name, data in state.items() if name in self._names}


def number_column(scan: Scan) -> str:
    """The column with the numbers of a shard's rows in `scan`; it does not depend on other scans."""
    return f"__skyband_number_{scan.identity}"
