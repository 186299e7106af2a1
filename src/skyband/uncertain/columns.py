"""Columns of uncertain tuples: probabilities that are some, and labels of rules as numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.columns import as_arrow, score_column
from skyband.data.key_dictionary import key_column
from skyband.errors import InvalidInputError
from skyband.kernels.stream import Floats, Ints

__all__ = ["SLACK", "Labels", "labels", "probability_column", "refuse_excess", "rule_codes"]

SLACK = 1e-9  # probabilities that ought to add up to 1 rarely do so to the last bit


class Labels(NamedTuple):
    """Labels of rules in a form that can be told apart; null where a tuple has none."""

    stored: pa.Array
    kind: pa.DataType | None  # as they came


def probability_column(column: Any, needed: Any = None) -> Floats:
    """Probabilities in (0, 1]. Where `needed` is False a tuple is left out anyway, and may have any."""
    array = None if isinstance(column, np.ndarray) and column.dtype.kind == "f" else as_arrow(column, "probabilities")
    kind = None if array is None else array.type
    if kind is not None and not (
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind)
    ):
        raise InvalidInputError(
            f"probabilities are of type {kind}; a probability must be a number in (0, 1], or nothing can be said of "
            "the worlds its tuple is in."
        )
    found = score_column(column if array is None else array, "probabilities")
    wrong = ~((found > 0) & (found <= 1))
    if needed is not None:
        wrong &= needed
    if wrong.any():
        row = int(np.argmax(wrong))
        shown = "null" if np.isnan(found[row]) else found[row]
        raise InvalidInputError(
            f"probabilities[{row}]={shown} must lie in (0, 1]; a tuple that cannot exist is none, and nothing exists "
            "more than surely. Leave such tuples out; nothing of these was taken in."
        )
    return found


def labels(column: Any) -> Labels:
    """Labels of rules; -1, null and NaN are none."""
    found = key_column(column, "rules")
    stored = found.stored
    if pa.types.is_integer(stored.type) or pa.types.is_floating(stored.type):
        stored = pc.if_else(pc.equal(stored, pa.scalar(-1).cast(stored.type, safe=False)), None, stored)
    return Labels(stored, found.kind)


def rule_codes(column: Any, rows: int) -> tuple[Ints, pa.Array]:
    """The rules of tuples that are all here: numbers from 0 on, -1 for none, and their labels."""
    if column is None:
        return np.full(rows, -1), pa.array([], pa.int64())
    if rows and isinstance(column, np.ndarray) and column.dtype == np.int64 and column.ndim == 1:
        least, most = int(column.min()), int(column.max())
        if least >= -1 and most < 2 * rows:  # small numbers already
            return column, pa.array(np.arange(most + 1))
    encoded = labels(column).stored.dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, encoded.dictionary


def refuse_excess(probabilities: Floats, codes: Ints, names: pa.Array) -> None:
    """Refuse rules whose tuples exist with more than certainty."""
    ruled = codes >= 0
    if not ruled.any():
        return
    sums = np.bincount(codes[ruled], probabilities[ruled])
    if sums.max() > 1 + SLACK:
        worst = int(np.argmax(sums))
        raise InvalidInputError(
            f"the probabilities of rule {names[worst].as_py()!r} add up to {sums[worst]:.12g}; its tuples exclude each "
            "other, so that they must come to at most 1, or there is no world they could be in."
        )
