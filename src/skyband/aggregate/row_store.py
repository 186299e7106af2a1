"""The rows that answers may return, by number. Numbers that are not needed any more are released."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.aggregate.kernels.partials import NONE
from skyband.data.arrow import from_bytes, to_bytes
from skyband.kernels.stream import Ints

__all__ = ["NumberedRows", "RowStore"]

_FEW = 1 << 16  # rows that are kept without looking for unused ones


class RowStore:
    """Rows as an Arrow table. Rows of an earlier workload may lack columns, which are then null.

    >>> store = RowStore()
    >>> numbers = store.add(pa.table({"id": [7, 8, 9]}))
    >>> store.retain(numbers[1:]).tolist(), store.take(np.array([1, -1])).to_pylist()
    ([0, 1], [{'id': 9}, {'id': None}])
    """

    def __init__(self) -> None:
        self._parts: list[pa.Table] = []
        self._size = 0
        self._sweep_at = _FEW

    def __len__(self) -> int:
        return self._size

    @property
    def is_full(self) -> bool:
        """Whether unused rows should be released: the store has doubled since the last time."""
        return self._size > self._sweep_at

    def add(self, rows: pa.Table) -> Ints:
        """Add rows and return their numbers."""
        numbers = np.arange(self._size, self._size + rows.num_rows)
        self._parts.append(rows)
        self._size += rows.num_rows
        return numbers

    def take(self, numbers: Ints) -> pa.Table:
        """Return the rows with these numbers; null for NONE."""
        return self._rows().take(pa.array(numbers, mask=numbers == NONE))

    def copied(self) -> RowStore:
        """Return a store with the same rows, to which others can be added."""
        found = copy(self)
        found._parts = list(self._parts)
        return found

    def retain(self, numbers: Ints) -> Ints:
        """Release all other rows. Return the new numbers of these; NONE remains."""
        used, places = np.unique(numbers[numbers != NONE], return_inverse=True)
        if self._parts:
            self._parts = [self._rows().take(pa.array(used))]
        self._size = used.size
        self._sweep_at = max(_FEW, 2 * used.size)
        found = np.full(numbers.size, NONE)
        found[numbers != NONE] = places
        return found

    def state(self) -> bytes | None:
        """Return the rows as bytes for `load`."""
        return to_bytes(self._rows()) if self._size else None

    def load(self, state: bytes | None) -> None:
        """Restore the rows that `state` returned."""
        self._parts = [] if state is None else [from_bytes(state)]
        self._size = sum(part.num_rows for part in self._parts)
        self._sweep_at = max(_FEW, 2 * self._size)

    def _rows(self) -> pa.Table:
        if len(self._parts) != 1:
            joined = pa.concat_tables(self._parts, promote_options="default") if self._parts else pa.table({})
            self._parts = [joined.combine_chunks()]
        return self._parts[0]


class NumberedRows:
    """Rows whose numbers never change. Rows of an earlier workload may lack columns, which are then null.

    >>> store = NumberedRows()
    >>> numbers = store.add(pa.table({"id": [7, 8, 9]}))
    >>> store.retain(numbers[1:])
    >>> store.take(pa.array([2, None])).to_pylist(), store.add(pa.table({"id": [5]})).tolist()
    ([{'id': 9}, {'id': None}], [3])
    """

    def __init__(self) -> None:
        self._store = RowStore()
        self._numbers = np.empty(0, np.int64)  # of the rows of the store, ascending
        self._next = 0

    @property
    def is_full(self) -> bool:
        """Whether unused rows should be released: the store has doubled since the last time."""
        return self._store.is_full

    def add(self, rows: pa.Table) -> Ints:
        """Add rows and return their numbers."""
        self._store.add(rows)
        numbers = np.arange(self._next, self._next + rows.num_rows)
        self._numbers = np.append(self._numbers, numbers)
        self._next += rows.num_rows
        return numbers

    def take(self, numbers: pa.Array) -> pa.Table:
        """Return the rows with these numbers; null for null."""
        wanted = pc.fill_null(numbers, NONE).to_numpy(zero_copy_only=False)
        places = np.searchsorted(self._numbers, wanted)
        return self._store.take(np.where(wanted == NONE, NONE, places))

    def retain(self, numbers: Ints) -> None:
        """Release all rows but those with these numbers."""
        kept = np.unique(numbers[numbers != NONE])
        self._store.retain(np.searchsorted(self._numbers, kept))
        self._numbers = kept

    def state(self) -> dict[str, Any]:
        """Return the rows for `load`."""
        return {"numbers": self._numbers, "next": self._next, "rows": self._store.state()}

    def load(self, state: dict[str, Any]) -> None:
        """Restore the rows that `state` returned."""
        self._numbers, self._next = state["numbers"], state["next"]
        self._store.load(state["rows"])
