"""Dictionary of ids that are not integers (text, dates, …): kernels see a number with the same order.

Objects are numbered in (position, id) order, so that the number breaks ties as the id would. For that, the rows at the
newest position wait until time advances: a later push may contain a smaller id at the same position.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import from_bytes, one, to_bytes
from skyband.kernels.stream import Floats, Ints

__all__ = ["IdDictionary", "Numbered"]


class Numbered(NamedTuple):
    """Rows with id numbers, in stream order."""

    positions: Ints
    scores: Floats
    groups: Ints
    numbers: Ints


class IdDictionary:
    """Assigns numbers to ids, and maps the numbers in use back to ids."""

    def __init__(self, kind: pa.DataType, k: int, tied: bool = False) -> None:
        self.kind = kind
        self.k = k  # the largest k of the workload: the most objects of a group that can be ranked at one position
        self.tied = tied  # whether a query has ties="rank", which also ranks objects that tie with them
        self._next = 0
        self._numbers = np.empty(0, np.int64)  # the numbers in use, ascending
        self._values = pa.array([], kind)  # their ids
        self._waiting = _waiting_table(kind)

    def __len__(self) -> int:
        """Return the number of rows that wait for time to advance."""
        return int(self._waiting.num_rows)

    @property
    def groups(self) -> Ints:
        """The groups of the waiting rows."""
        groups: Ints = one(self._waiting["group"]).to_numpy(zero_copy_only=False)
        return groups

    def number(self, positions: Ints, scores: Floats, groups: Ints, ids: pa.Array, until: int | None) -> Numbered:
        """Add rows to the waiting ones, and number and return those before `until` (all for None)."""
        arrived = pa.table({"position": positions, "score": scores, "group": groups, "id": ids})
        rows = pa.concat_tables([self._waiting, arrived])
        rows = rows.take(pc.sort_indices(rows, [("position", "ascending"), ("id", "ascending")]))
        cut = rows.num_rows if until is None else int(np.searchsorted(rows["position"].to_numpy(), until))
        ready, self._waiting = rows.slice(0, cut).combine_chunks(), _best(rows.slice(cut), self.k, self.tied)
        numbers = np.arange(self._next, self._next + cut, dtype=np.int64)
        self._next += cut
        self._numbers = np.concatenate([self._numbers, numbers])
        self._values = pa.concat_arrays([self._values, one(ready["id"])])
        names = ("position", "score", "group")
        position, score, group = (one(ready[name]).to_numpy(zero_copy_only=False).copy() for name in names)
        return Numbered(position, score, group, numbers)

    def forget_all_but(self, held: Ints) -> None:
        """Remove the ids of all numbers that are not in `held`."""
        keep = np.flatnonzero(np.isin(self._numbers, held))
        self._numbers, self._values = self._numbers[keep], self._values.take(pa.array(keep))

    def ids_of(self, numbers: Ints) -> pa.Array:
        """Return the ids of `numbers`, which must be in use."""
        return self._values.take(pa.array(np.searchsorted(self._numbers, numbers)))

    def state(self) -> dict[str, Any]:
        """Return the state for `load`."""
        return {
            "next": self._next,
            "numbers": self._numbers,
            "values": to_bytes(pa.table({"id": self._values})),
            "waiting": to_bytes(self._waiting),
            "k": self.k,
            "tied": self.tied,
        }

    @classmethod
    def load(cls, state: dict[str, Any]) -> IdDictionary:
        """Restore a dictionary from its `state`."""
        values = one(from_bytes(state["values"])["id"])
        dictionary = cls(values.type, state["k"], state.get("tied", False))
        dictionary._next, dictionary._numbers, dictionary._values = state["next"], state["numbers"], values
        dictionary._waiting = from_bytes(state["waiting"])
        return dictionary


def _waiting_table(kind: pa.DataType) -> pa.Table:
    return pa.schema(
        [("position", pa.int64()), ("score", pa.float64()), ("group", pa.int64()), ("id", kind)]
    ).empty_table()


def _best(rows: pa.Table, k: int, tied: bool) -> pa.Table:
    """Return the rows among the k highest or k lowest scores of their group; `tied` includes ties with the k-th."""
    if rows.num_rows <= k:
        return rows
    keep = np.zeros(rows.num_rows, bool)
    for direction in ("descending", "ascending"):
        order = pc.sort_indices(rows, [("group", "ascending"), ("score", direction), ("id", "descending")]).to_numpy()
        groups, scores = (one(rows[name]).to_numpy()[order] for name in ("group", "score"))
        begins = np.flatnonzero(np.diff(groups, prepend=groups[0] - 1))
        better = np.arange(order.size) - np.repeat(begins, np.diff(begins, append=order.size))
        if tied:  # a row with the score of the row before has the same number of better rows
            runs = (better == 0) | (scores != np.roll(scores, 1))
            better = better[runs][np.cumsum(runs) - 1]
        keep[order[better < k]] = True
    return rows.filter(pa.array(keep))
