"""Group values as small numbers; what nothing refers to any more is forgotten, and its number used again.

A null group is a group, and NaN is null: lists, NumPy and pandas columns have it so, and columns of every kind give the
same answers. 0.0 and -0.0 are one group.
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
    """A column of group codes, and the values that were not known before."""

    codes: Ints
    fresh: dict[Any, int]  # with their codes
    kind: pa.DataType | None  # None: there is no value that would tell


class GroupDictionary:
    """Knows the groups that are in use, by value and by code. What is forgotten leaves its code to another group."""

    def __init__(self, kind: pa.DataType | None = None, values: list[Any] | None = None) -> None:
        self.kind = None if kind is None or pa.types.is_null(kind) else kind
        self._values: list[Any] = values or []  # by code; unused codes are in `_free`
        self._codes = {value: code for code, value in enumerate(self._values)}
        self._free: list[int] = []
        self._look_at = _FEW

    def __len__(self) -> int:
        return len(self._codes)

    @property
    def codes(self) -> int:
        """All codes are smaller than this."""
        return len(self._values)

    @property
    def has_grown(self) -> bool:
        """Whether there are twice as many groups as were in use when it was last looked."""
        return len(self._codes) > self._look_at

    def forget(self, used: Any) -> None:
        """Keep only the groups whose codes are marked."""
        for value in [value for value, code in self._codes.items() if not used[code]]:
            code = self._codes.pop(value)
            self._values[code] = None
            self._free.append(code)
        if 4 * len(self._codes) < len(self._values):
            # Codes beyond the last one in use are given back, so that arrays by code need not be that long.
            last = max(self._codes.values(), default=-1)
            del self._values[last + 1 :]
            self._free = [code for code in self._free if code <= last]
        self._look_at = max(_FEW, 2 * len(self._codes))

    def encode(self, column: Any) -> Coded:
        """Codes for a column; the book itself stays as it is until `adopt`."""
        array = nan_as_null(as_arrow(column, "groups"))
        kind = None if pa.types.is_null(array.type) else array.type
        if kind is not None and self.kind is not None and kind != self.kind:
            raise InvalidInputError(
                f"groups are of type {kind} and those of earlier pushes of type {self.kind}; "
                "a group would be told apart from itself."
            )
        refuse_orderless(array, "groups", "answers come by group")
        if pa.types.is_floating(array.type):
            array = pc.add(array, pa.scalar(0.0, array.type))  # -0.0 becomes 0.0
        try:
            encoded = array.dictionary_encode(null_encoding="encode")
            values = encoded.dictionary.to_pylist()
            if pa.types.is_temporal(array.type) and not pa.array(values, array.type).equals(encoded.dictionary):
                raise ValueError("they are finer than a microsecond")
        except (pa.ArrowException, NotImplementedError, OverflowError, ValueError) as error:
            raise InvalidInputError(
                f"groups are of type {array.type}, and these cannot be told apart: {error}. Pass text or numbers."
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
        """Remember the groups that `encode` found."""
        self.kind = self.kind or coded.kind
        again = min(len(self._free), len(coded.fresh))
        del self._free[len(self._free) - again :]
        self._values += [None] * (len(coded.fresh) - again)
        self._codes |= coded.fresh
        for value, code in coded.fresh.items():
            self._values[code] = value

    def values_of(self, codes: Ints) -> tuple[pa.Array, Ints]:
        """The values of the groups with these codes, and the place of each code's value among them, -1 for -1."""
        if len(self._values) <= 4 * codes.size + _FEW:
            return pa.array(self._values, self.kind), codes
        there = np.zeros(int(codes.max(initial=-1)) + 1, bool)
        there[codes[codes >= 0]] = True
        places: Ints = np.append(np.cumsum(there) - 1, -1)
        values = pa.array([self._values[code] for code in np.flatnonzero(there).tolist()], self.kind)
        return values, places[codes]

    def state(self) -> bytes:
        """Everything that `load` needs."""
        codes = np.sort(np.fromiter(self._codes.values(), np.int64, len(self._codes)))
        values = [self._values[code] for code in codes.tolist()]
        return to_bytes(pa.table({"group": pa.array(values, self.kind), "code": codes}))

    @classmethod
    def load(cls, state: bytes) -> GroupDictionary:
        """The book that `state` was taken from, or one that forgot nothing and has no codes in its state."""
        table = from_bytes(state)
        values = table["group"].to_pylist()
        if "code" not in table.column_names:
            return cls(table["group"].type, values)
        book = cls(table["group"].type)
        codes = table["code"].to_pylist()
        if len(set(codes)) < len(codes) or min(codes, default=0) < 0 or max(codes, default=0) > _MOST:
            raise ValueError("the codes of groups are no codes")
        book._codes = dict(zip(values, codes, strict=True))
        book._values = [None] * (max(codes, default=-1) + 1)
        for value, code in book._codes.items():
            book._values[code] = value
        book._free = [code for code in range(len(book._values)) if code not in set(codes)]
        return book


def ranks_of(values: pa.Array) -> Ints:
    """The place of each group when groups are sorted by value, nulls last."""
    ranks = np.empty(len(values), np.int64)
    ranks[pc.sort_indices(values).to_numpy()] = np.arange(len(values))
    return ranks
