"""The rows that answers may return, by number. Numbers that are not needed any more are released."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from skyband.aggregate.kernels.partials import NONE
from skyband.data.arrow import from_bytes, to_bytes
from skyband.kernels.stream import Ints

__all__ = ["RowStore"]

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
