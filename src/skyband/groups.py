"""Group values as small numbers, in the order in which they are first seen. A null group is a group."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.columns import as_arrow
from skyband.errors import InvalidInputError
from skyband.kernels.stream import Ints

__all__ = ["Coded", "GroupBook"]


class Coded(NamedTuple):
    """A column of group codes, and the values that were not known before."""

    codes: Ints
    fresh: list[Any]
    kind: pa.DataType


class GroupBook:
    """Knows the groups seen so far."""

    def __init__(self, kind: pa.DataType | None = None, values: list[Any] | None = None) -> None:
        self.kind = kind
        self.values: list[Any] = values or []
        self._codes = {value: code for code, value in enumerate(self.values)}

    def __len__(self) -> int:
        return len(self.values)

    def encode(self, column: Any) -> Coded:
        """Codes for a column; the book itself stays as it is until `adopt`."""
        array = as_arrow(column, "groups")
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if pa.types.is_null(array.type) and self.kind is not None:
            array = array.cast(self.kind)
        if self.kind is not None and array.type != self.kind and len(array):
            raise InvalidInputError(
                f"groups are of type {array.type} and those of earlier pushes of type {self.kind}; "
                "a group would be told apart from itself."
            )
        try:
            encoded = array.dictionary_encode(null_encoding="encode")
        except pa.ArrowNotImplementedError as error:
            raise InvalidInputError(f"groups are of type {array.type}, whose values cannot be compared.") from error
        fresh: list[Any] = []
        codes = np.empty(len(encoded.dictionary), np.int64)
        for place, value in enumerate(encoded.dictionary.to_pylist()):
            code = self._codes.get(value)
            if code is None:
                code = len(self.values) + len(fresh)
                fresh.append(value)
            codes[place] = code
        indices = encoded.indices.to_numpy(zero_copy_only=False)
        return Coded(codes[indices] if codes.size else np.empty(0, np.int64), fresh, array.type)

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
