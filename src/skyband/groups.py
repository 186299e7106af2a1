"""Group values as small numbers, in the order in which they are first seen.

A null group is a group, and NaN is null: lists, NumPy and pandas columns have it so, and columns of every kind give the
same answers. 0.0 and -0.0 are one group.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.columns import as_arrow, nan_as_null, refuse_orderless
from skyband.errors import InvalidInputError
from skyband.kernels.stream import Ints

__all__ = ["Coded", "GroupBook"]


class Coded(NamedTuple):
    """A column of group codes, and the values that were not known before."""

    codes: Ints
    fresh: list[Any]
    kind: pa.DataType | None  # None: there is no value that would tell


class GroupBook:
    """Knows the groups seen so far."""

    def __init__(self, kind: pa.DataType | None = None, values: list[Any] | None = None) -> None:
        self.kind = None if kind is None or pa.types.is_null(kind) else kind
        self.values: list[Any] = values or []
        self._codes = {value: code for code, value in enumerate(self.values)}

    def __len__(self) -> int:
        return len(self.values)

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
        codes = np.empty(len(values), np.int64)
        for place, value in enumerate(values):
            code = self._codes.get(value)
            codes[place] = fresh.setdefault(value, len(self.values) + len(fresh)) if code is None else code
        indices = encoded.indices.to_numpy(zero_copy_only=False)
        return Coded(codes[indices] if codes.size else np.empty(0, np.int64), list(fresh), kind)

    def adopt(self, coded: Coded) -> None:
        """Remember the groups that `encode` found."""
        self.kind = self.kind or coded.kind
        for value in coded.fresh:
            self._codes[value] = len(self.values)
            self.values.append(value)

    def column(self) -> pa.Array:
        """The values of all groups, by code."""
        return pa.array(self.values, self.kind)

    def ranks(self) -> Ints:
        """The place of each group when groups are sorted by value, nulls last."""
        ranks = np.empty(len(self.values), np.int64)
        ranks[pc.sort_indices(self.column()).to_numpy()] = np.arange(len(self.values))
        return ranks
