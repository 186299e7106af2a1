"""Numbers that engines compare instead of several columns: the place of each row in the order of all rows at hand.

Shards and reducers rank stored rows again at every step. So they can number rows densely by all columns of the order:
equal rows have equal numbers, and better rows higher ones. Engines compare only these numbers, which is exact for text,
decimals, integers beyond 2**53 and decayed scores. New rows between old ones need no room between numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import one
from skyband.kernels.stream import Floats, Ints
from skyband.sharding.rows import group_rows, without_negative_zero
from skyband.topk.plan import OrderColumn, TopKPlan

__all__ = ["decayed_scores", "entities_of", "keys_of"]

EXACT = 2.0**53


def keys_of(plan: TopKPlan, number: int, table: pa.Table, scores: Floats, positions: Ints) -> Floats:
    """Return what engines compare for the rows of a scan; NaN if a row has no score. Usually these are the scores."""
    rule, columns = plan.scans[number].rule, plan.orders[number] if plan.orders else ()
    half_life = None if rule is None else rule.half_life_ticks
    if half_life is None and not columns:
        return scores
    ranked = ~np.isnan(scores)
    integers = half_life is None and all(column.integer for column in columns)
    if integers and np.abs(scores[ranked]).max(initial=0.0) < EXACT:
        return scores  # the doubles are the integers
    rows = np.flatnonzero(ranked)
    first = [scores[rows]] if half_life is None else _decay_parts(scores[rows], positions[rows], half_life)
    some = None if rows.size == scores.size else pa.array(rows)
    parts = [*first, *(_places(table, column, some) for column in columns)]
    keys = np.full(scores.size, np.nan)
    keys[rows] = _dense_ranks(parts)
    return keys


def _dense_ranks(parts: Sequence[Any]) -> Floats:
    order = np.lexsort(parts[::-1])
    new = np.zeros(order.size, bool)
    for part in parts:
        in_order = part[order]
        new[1:] |= in_order[1:] != in_order[:-1]
    ranks = np.empty(order.size)
    ranks[order] = np.cumsum(new)
    return ranks


def _places(table: pa.Table, column: OrderColumn, rows: pa.Array | None) -> Floats:
    """Return a number per row that orders the column's values; equal values have one number."""
    values = one(table[column.name])
    values = values if rows is None else values.take(rows)
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    missing = values.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    places: Floats = np.zeros(len(values))
    if not pa.types.is_null(values.type):
        ranks = pc.rank(without_negative_zero(values), "ascending", tiebreaker="dense")
        places = ranks.to_numpy(zero_copy_only=False).astype(np.float64)
    places = -places if column.flipped else places
    places[missing] = -np.inf if column.nulls_low else np.inf
    return places


def _decay_parts(scores: Floats, positions: Ints, half_life: int) -> list[Any]:
    """Return numbers that order decayed scores at any moment: sign, then the exponent and the fraction of log2.

    A score at time t counts ``score * 2 ** ((t - now) / half_life)``. The factor of `now` is common to all rows, so the
    order of ``score * 2 ** (t / half_life)`` is that of every moment, for negative scores too. The whole part of
    ``t / half_life`` is added to the exponent as an integer: nothing overflows, however long the stream is.
    """
    mantissas, exponents = np.frexp(np.abs(scores))
    finite = np.isfinite(scores) & (scores != 0)
    whole, rest = np.divmod(positions, half_life)
    logs = np.log2(np.where(finite, mantissas, 1.0)) + rest / half_life  # in [-1, 1)
    floors = np.floor(logs)
    sign = np.sign(scores) * np.where(np.isinf(scores), 2, 1)
    direction = np.where(finite, np.sign(scores), 0).astype(np.int64)
    exponent = direction * (exponents.astype(np.int64) + whole + floors.astype(np.int64))
    return [sign, exponent, direction * (logs - floors)]


def decayed_scores(scores: Floats, positions: Ints, ends: Ints, half_life: int) -> Floats:
    """Return the scores as of the ends of their windows.

    >>> decayed_scores(np.array([8.0, -8.0]), np.array([0, 10]), np.array([20, 20]), 10).tolist()
    [2.0, -4.0]
    """
    whole, rest = np.divmod(ends - positions, half_life)
    found: Floats = np.ldexp(scores * np.exp2(-(rest / half_life)), -np.minimum(whole, 1 << 20).astype(np.int32)) + 0.0
    return found


def entities_of(plan: TopKPlan, number: int, table: pa.Table) -> Ints | None:
    """Return the number of each row's entity; None if answers may contain several rows of an entity."""
    name = plan.entities[number] if plan.entities else None
    if name is None:
        return None
    return group_rows(table, [name]).codes.astype(np.int64)
