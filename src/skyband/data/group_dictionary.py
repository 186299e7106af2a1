"""Dictionary of group values: each group has a small integer code. Unused groups are removed and their codes reused.

Null is a group. NaN is treated as null, as in pandas, for every type of column. 0.0 and -0.0 are one group.
"""

from __future__ import annotations

from itertools import chain, count
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import from_bytes, to_bytes
from skyband.data.columns import as_arrow, nan_as_null, refuse_orderless
from skyband.errors import InvalidInputError
from skyband.kernels.stream import Ints

__all__ = ["Coded", "GroupDictionary", "ranks_of"]

_FEW = 1024
_MOST = 2**31  # codes


class Coded(NamedTuple):
    """A column of group codes, and the new values."""

    codes: Ints
    fresh: dict[Any, int]  # with their codes
    kind: pa.DataType | None  # None: unknown, because all values are null


class GroupDictionary:
    """The groups in use, by value and by code. The code of a removed group is reused."""

    def __init__(self, kind: pa.DataType | None = None, values: list[Any] | None = None) -> None:
        self.kind = None if kind is None or pa.types.is_null(kind) else kind
        self._values: list[Any] = values or []  # by code; unused codes are in `_free`
        self._codes = {value: code for code, value in enumerate(self._values)}
        self._free: list[int] = []
        self._check_at = _FEW

    def __len__(self) -> int:
        return len(self._codes)

    @property
    def codes(self) -> int:
        """The upper bound (exclusive) of all codes."""
        return len(self._values)

    @property
    def values(self) -> list[Any]:
        """The groups in use."""
        return list(self._codes)

    @property
    def has_grown(self) -> bool:
        """Whether the number of groups has doubled since unused groups were last removed."""
        return len(self._codes) > self._check_at

    def forget(self, used: Any) -> None:
        """Remove the groups whose codes are not marked in `used`."""
        for value in [value for value, code in self._codes.items() if not used[code]]:
            code = self._codes.pop(value)
            self._values[code] = None
            self._free.append(code)
        if 4 * len(self._codes) < len(self._values):
            # Drop the codes after the last one in use, so that arrays indexed by code become shorter.
            last = max(self._codes.values(), default=-1)
            del self._values[last + 1 :]
            self._free = [code for code in self._free if code <= last]
        self._check_at = max(_FEW, 2 * len(self._codes))

    def encode(self, column: Any) -> Coded:
        """Return the codes of a column. The dictionary does not change until `adopt`."""
        array = nan_as_null(as_arrow(column, "groups"))
        kind = None if pa.types.is_null(array.type) else array.type
        if kind is not None and self.kind is not None and kind != self.kind:
            raise InvalidInputError(
                f"groups changed type from {self.kind} to {kind}, so one group would be counted as two; this push was "
                "rejected. Cast the column to one type."
            )
        refuse_orderless(array, "groups", "answers are sorted by group")
        if pa.types.is_floating(array.type):
            array = pc.add(array, pa.scalar(0.0, array.type))  # -0.0 becomes 0.0
        try:
            encoded = array.dictionary_encode(null_encoding="encode")
            values = encoded.dictionary.to_pylist()
            if pa.types.is_temporal(array.type) and not pa.array(values, array.type).equals(encoded.dictionary):
                raise ValueError("values finer than a microsecond are not supported")
        except (pa.ArrowException, NotImplementedError, OverflowError, ValueError) as error:
            raise InvalidInputError(
                f"groups of type {array.type} are not supported: {error}. Pass text or numbers."
            ) from error
        fresh: dict[Any, int] = {}
        unused = chain(reversed(self._free), count(len(self._values)))
        codes = np.empty(len(values), np.int64)
        for place, value in enumerate(values):
            code = self._codes.get(value)
            if code is None:
                code = fresh.get(value)
            if code is None:
                code = fresh[value] = next(unused)
            codes[place] = code
        indices = encoded.indices.to_numpy(zero_copy_only=False)
        return Coded(codes[indices] if codes.size else np.empty(0, np.int64), fresh, kind)

    def adopt(self, coded: Coded) -> None:
        """Add the new groups that `encode` returned."""
        self.kind = self.kind or coded.kind
        again = min(len(self._free), len(coded.fresh))
        del self._free[len(self._free) - again :]
        self._values += [None] * (len(coded.fresh) - again)
        self._codes |= coded.fresh
        for value, code in coded.fresh.items():
            self._values[code] = value

    def values_of(self, codes: Ints) -> tuple[pa.Array, Ints]:
        """Return the values of these codes, and the index of each code's value among them, -1 for -1."""
        if len(self._values) <= 4 * codes.size + _FEW:
            return pa.array(self._values, self.kind), codes
        there = np.zeros(int(codes.max(initial=-1)) + 1, bool)
        there[codes[codes >= 0]] = True
        places: Ints = np.append(np.cumsum(there) - 1, -1)
        values = pa.array([self._values[code] for code in np.flatnonzero(there).tolist()], self.kind)
        return values, places[codes]

    def state(self) -> bytes:
        """Return the state for `load`."""
        codes = np.sort(np.fromiter(self._codes.values(), np.int64, len(self._codes)))
        values = [self._values[code] for code in codes.tolist()]
        return to_bytes(pa.table({"group": pa.array(values, self.kind), "code": codes}))

    @classmethod
    def load(cls, state: bytes) -> GroupDictionary:
        """Restore a dictionary from its `state`; without codes, group i has code i."""
        table = from_bytes(state)
        values = table["group"].to_pylist()
        if "code" not in table.column_names:
            return cls(table["group"].type, values)
        dictionary = cls(table["group"].type)
        codes = table["code"].to_pylist()
        if len(set(codes)) < len(codes) or min(codes, default=0) < 0 or max(codes, default=0) > _MOST:
            raise ValueError("the group codes are not valid")
        dictionary._codes = dict(zip(values, codes, strict=True))
        dictionary._values = [None] * (max(codes, default=-1) + 1)
        for value, code in dictionary._codes.items():
            dictionary._values[code] = value
        dictionary._free = [code for code in range(len(dictionary._values)) if code not in set(codes)]
        return dictionary


def ranks_of(values: pa.Array) -> Ints:
    """Return the rank of each group when sorted by value, nulls last."""
    ranks = np.empty(len(values), np.int64)
    ranks[pc.sort_indices(values).to_numpy()] = np.arange(len(values))
    return ranks
