"""The rows of a shard together with those that a query of the same scans would have held from the start.

Both are parts of one stream, and a row may be in both. Equal rows of a stream are counted: of a row that is m times in
one part and n times in the other, the larger number remains.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from skyband.data.arrow import one
from skyband.data.row_hash import row_hash
from skyband.errors import UnsupportedError
from skyband.kernels.stream import Bools, Ints
from skyband.sharding.rows import group_rows, scores_of
from skyband.topk.plan import TopKPlan

__all__ = ["united"]

_HASH = "__skyband_hash"


def united(plan: TopKPlan, held: pa.Table | None, past: pa.Table | None) -> pa.Table | None:
    """Return the rows of both, each once for each scan."""
    if held is None or past is None:
        return past if held is None else held
    past = past.select(held.column_names)
    for name in plan.scores:
        mine, other = (np.flatnonzero(~np.isnan(scores_of(table, name))) for table in (held, past))
        if mine.size and other.size:
            known = np.zeros(past.num_rows, bool)
            known[other] = _repeated(plan, name, held.take(pa.array(mine)), past.take(pa.array(other)))
            left = pa.array(one(past[name]).to_numpy(zero_copy_only=False), pa.float64(), mask=known)
            past = past.set_column(past.schema.get_field_index(name), name, left)
    needed = np.logical_or.reduce([~np.isnan(scores_of(past, name)) for name in plan.scores])
    return pa.concat_tables([held, past.filter(pa.array(needed))], promote_options="default")


def _repeated(plan: TopKPlan, score: str, held: pa.Table, past: pa.Table) -> Bools:
    """Return a mask of the rows in `past` that are in `held`; of equal rows, as many as are held."""
    names = [name for name in held.column_names if name == score or name not in plan.scores]
    both = pa.concat_tables([held.select(names), past.select(names)], promote_options="default")
    try:
        both = both.append_column(_HASH, pa.array(row_hash(both)))
        keys = [plan.time, plan.id, _HASH]
    except UnsupportedError:  # a column without a hash; rows with equal ids are then one row
        keys = [plan.time, plan.id, score]
    codes = group_rows(both, keys).codes.astype(np.int64)
    mine, other = codes[: held.num_rows], codes[held.num_rows :]
    counts = np.bincount(mine, minlength=int(codes.max(initial=0)) + 1)
    found: Bools = _occurrences(other) < counts[other]
    return found


def _occurrences(codes: Ints) -> Ints:
    """Return how many equal codes come before each.

    >>> _occurrences(np.array([7, 5, 7, 7])).tolist()
    [0, 0, 1, 2]
    """
    order = np.argsort(codes, kind="stable")
    ordered, place = codes[order], np.arange(codes.size)
    new = np.append(True, ordered[1:] != ordered[:-1])[: codes.size]
    found = np.empty(codes.size, np.int64)
    found[order] = place - np.maximum.accumulate(np.where(new, place, 0))
    return found
