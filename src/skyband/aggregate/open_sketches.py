"""Summaries of the panes of a shard that have not ended: partials of tasks are added as they arrive, in any order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.aggregate.addends import Addends
from skyband.aggregate.kernels.space_saving import rounded_weights
from skyband.aggregate.panes import IrregularPanes, LatticePanes
from skyband.aggregate.shape import AggregateShape
from skyband.aggregate.sketches import HeldCounters, KeyIdentities, PaneSummary
from skyband.data.arrow import from_bytes, one, to_bytes
from skyband.data.key_dictionary import key_column
from skyband.kernels.stream import Floats, Ints
from skyband.sharding.rows import group_rows

__all__ = ["ClosedSketch", "OpenSketches", "weights_of"]


class ClosedSketch(NamedTuple):
    """The counters of a pane that has ended. `rows` has their groups and keys, as partials have them."""

    mark: int
    found: HeldCounters
    rows: pa.Table


class OpenSketches:
    """The summary of each open pane. Each has codes of its groups, so that groups do not outlive their panes."""

    def __init__(
        self,
        shape: AggregateShape,
        panes: LatticePanes | IrregularPanes,
        groups: tuple[str, ...],
        key: str,
    ) -> None:
        self._shape = shape
        self._panes = panes
        self._groups = groups
        self._key = key
        self._open: dict[int, _OpenSketch] = {}  # by mark

    def __len__(self) -> int:
        """Return the number of counters."""
        return sum(len(one.summary) for one in self._open.values())

    @property
    def oldest(self) -> int | None:
        """A position in the oldest pane, None if there is none."""
        return min(self._open, default=None)

    def take(self, fresh: pa.Table | None, clock: int) -> Iterator[ClosedSketch]:
        """Add partials, and yield the panes that end at or before `clock`, oldest first."""
        if fresh is not None and fresh.num_rows:
            marks = self._panes.marks_of(one(fresh["pane"]).to_numpy())
            for mark in np.unique(marks).tolist():
                if mark not in self._open:
                    self._open[mark] = _OpenSketch(PaneSummary(self._shape.counters or 0))
                mine = fresh.filter(pa.array(marks == mark)).combine_chunks()
                self._open[mark].take(mine, self._groups, self._key, weights_of(mine, weighted=self._shape.weighted))
        for mark in sorted(self._open):
            at = np.array([mark])
            if self._panes.ends_of(at)[0] <= clock:
                found = self._open[mark].summary.held()
                rows = self._open.pop(mark).rows(found, self._groups, self._key)
                yield ClosedSketch(int(self._panes.marks_of(at)[0]), found, rows)

    def state(self) -> dict[str, Any]:
        """Return the state for `load`."""
        return {"sketches": [{"mark": mark, **one.state()} for mark, one in self._open.items()]}

    def load(self, state: dict[str, Any], newest: int | None = None) -> None:
        """Restore the state that `state` returned. With other panes, `newest` is the position of the newest row.

        Stored panes are kept apart from current ones. A mark may be later than all rows, so it is moved back.
        """
        for saved in state["sketches"]:
            made = _OpenSketch(PaneSummary(self._shape.counters or 0))
            made.load(saved, self._groups, self._key)
            mark = saved["mark"] if newest is None else min(saved["mark"], newest)
            self._open[mark] = made


class _OpenSketch:
    """The summary of a pane, and its groups by code."""

    def __init__(self, summary: PaneSummary) -> None:
        self.summary = summary
        self._codes: dict[tuple[Any, ...], int] = {}
        self._kinds: pa.Schema | None = None

    def take(self, table: pa.Table, groups: tuple[str, ...], key: str, weights: tuple[Floats, Floats]) -> None:
        """Add partials of this pane."""
        self._kinds = pa.schema([table.schema.field(name) for name in (*groups, key)])
        keys = key_column(one(table[key])).stored
        codes = self._group_codes(table, groups) if groups else None
        lasts = one(table["last"]).to_numpy()
        self.summary.take(KeyIdentities.of(keys), keys.type, weights, lasts, codes)

    def rows(self, found: HeldCounters, groups: tuple[str, ...], key: str) -> pa.Table:
        """Return the groups and keys of counters."""
        assert self._kinds is not None
        columns = self._group_columns(groups)
        picked = {name: column.take(pa.array(found.groups)) for name, column in columns.items()}
        return pa.table({**picked, key: found.keys})

    def state(self) -> dict[str, Any]:
        """Return the state for `load`."""
        assert self._kinds is not None
        groups = tuple(self._kinds.names[:-1])
        return {
            "summary": self.summary.state(),
            "keys": to_bytes(pa.table({"key": self.summary.keys})),
            "kinds": self._kinds.serialize().to_pybytes(),
            "groups": to_bytes(pa.table(self._group_columns(groups))) if groups else None,
        }

    def load(self, state: dict[str, Any], groups: tuple[str, ...], key: str) -> None:
        """Restore the state that `state` returned. The key column may have another name now."""
        kinds = pa.ipc.read_schema(pa.py_buffer(state["kinds"]))
        self._kinds = kinds.set(len(kinds) - 1, kinds.field(-1).with_name(key))
        self.summary.load(state["summary"], one(from_bytes(state["keys"])["key"]))
        if state["groups"] is not None:
            table = from_bytes(state["groups"])
            self._codes = {group: code for code, group in enumerate(_tuples(table))}

    def _group_codes(self, table: pa.Table, groups: tuple[str, ...]) -> Ints:
        grouping = group_rows(table, groups)
        samples = table.select(list(groups)).take(pa.array(grouping.samples))
        found = np.array([self._codes.setdefault(group, len(self._codes)) for group in _tuples(samples)], np.int64)
        return found[grouping.codes]

    def _group_columns(self, groups: tuple[str, ...]) -> dict[str, pa.Array]:
        assert self._kinds is not None
        columns = list(zip(*self._codes, strict=True)) if self._codes else [()] * len(groups)
        return {
            name: pa.array(values, self._kinds.field(name).type) for name, values in zip(groups, columns, strict=True)
        }


def weights_of(table: pa.Table, *, weighted: bool) -> tuple[Floats, Floats]:
    """Return the weights of partials, rounded up and down: their counts, or their sums."""
    if not weighted:
        counts = one(table["count"]).to_numpy().astype(np.float64)
        return counts, counts
    addends = Addends(1).named_in(table.column_names)
    limbs = [name for name in addends.names if name not in ("count", "infinite")]
    sums = np.zeros((table.num_rows, addends.limbs), np.int64)
    for place, name in enumerate(limbs):
        if name in table.column_names:
            sums[:, place] = one(table[name].fill_null(0)).to_numpy()
    highs, lows = np.zeros(table.num_rows), np.zeros(table.num_rows)
    rounded_weights(sums, addends.low, np.zeros(addends.limbs + 4, np.int64), highs, highs.view(np.int64), lows)
    return highs, lows


def _tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return the rows of a table as hashable tuples. Group columns have no NaN and no -0.0."""
    return list(zip(*(one(table[name]).to_pylist() for name in table.column_names), strict=True))
