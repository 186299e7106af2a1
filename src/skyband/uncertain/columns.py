"""Validate columns of uncertain tuples: probabilities, and rule labels as integer codes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.columns import as_arrow, score_column
from skyband.data.key_dictionary import key_column
from skyband.errors import InvalidInputError
from skyband.kernels.stream import Floats, Ints

__all__ = ["SLACK", "Labels", "labels", "probability_column", "reject_excess", "rule_codes"]

SLACK = 1e-9  # tolerance for rounding when probabilities add up to 1


class Labels(NamedTuple):
    """Rule labels in a comparable form; null for tuples without a rule."""

    stored: pa.Array
    kind: pa.DataType | None  # type of the input


def probability_column(column: Any, needed: Any = None) -> Floats:
    """Return validated probabilities in (0, 1]. Rows with `needed` False are dropped anyway and not checked."""
    array = None if isinstance(column, np.ndarray) and column.dtype.kind == "f" else as_arrow(column, "probabilities")
    kind = None if array is None else array.type
    if kind is not None and not (
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind)
    ):
        raise InvalidInputError(
            f"probabilities are of type {kind}, but must be numbers in (0, 1]. This batch was rejected."
        )
    found = score_column(column if array is None else array, "probabilities")
    wrong = ~((found > 0) & (found <= 1))
    if needed is not None:
        wrong &= needed
    if wrong.any():
        row = int(np.argmax(wrong))
        shown = "null" if np.isnan(found[row]) else found[row]
        raise InvalidInputError(
            f"probability must be in (0, 1], got {shown} at row {row}. Drop tuples with probability 0 or null before "
            "passing them; this batch was rejected."
        )
    return found


def labels(column: Any) -> Labels:
    """Return rule labels; -1, null and NaN mean no rule."""
    found = key_column(column, "rules")
    stored = found.stored
    if pa.types.is_integer(stored.type) or pa.types.is_floating(stored.type):
        stored = pc.if_else(pc.equal(stored, pa.scalar(-1).cast(stored.type, safe=False)), None, stored)
    return Labels(stored, found.kind)


def rule_codes(column: Any, rows: int) -> tuple[Ints, pa.Array]:
    """Return integer codes of rules from 0 on, -1 for no rule, and the labels of the codes."""
    if column is None:
        return np.full(rows, -1), pa.array([], pa.int64())
    if rows and isinstance(column, np.ndarray) and column.dtype == np.int64 and column.ndim == 1:
        least, most = int(column.min()), int(column.max())
        if least >= -1 and most < 2 * rows:  # already usable as codes
            return column, pa.array(np.arange(most + 1))
    encoded = labels(column).stored.dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, encoded.dictionary


def reject_excess(probabilities: Floats, codes: Ints, names: pa.Array) -> None:
    """Reject rules whose probabilities add up to more than 1."""
    ruled = codes >= 0
    if not ruled.any():
        return
    sums = np.bincount(codes[ruled], probabilities[ruled])
    if sums.max() > 1 + SLACK:
        worst = int(np.argmax(sums))
        raise InvalidInputError(
            f"the probabilities of rule {names[worst].as_py()!r} add up to {sums[worst]:.12g}, but must add up to at "
            "most 1, because tuples of one rule exclude each other."
        )
