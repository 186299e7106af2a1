"""Corrections of merged answers: which windows have another answer than before, and their revision.

A merge has no state. So shards send two answers for a window that a late row may have changed: the one without the late
rows, which was emitted before, and the one with them. The merge ranks both, and emits the second if they differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import one
from skyband.kernels.stream import Bools, Ints
from skyband.queries.answer_schema import REVISION
from skyband.sharding.plan import HIDDEN
from skyband.sharding.rows import group_rows

__all__ = ["again", "changed_windows", "corrected", "without_corrections"]

REVISED = f"{HIDDEN}revision"  # of a window that is answered again; null in first answers
KNOWN_BEFORE = f"{HIDDEN}before"  # whether it is the answer without the late rows


def again(table: pa.Table, revision: int, *, before: bool) -> pa.Table:
    """Mark a shard's rows as those of windows that are answered again; `before`: without the late rows."""
    table = table.append_column(REVISED, pa.array(np.full(table.num_rows, revision), pa.int32()))
    return table.append_column(KNOWN_BEFORE, pa.array(np.full(table.num_rows, before)))


def without_corrections(tables: Iterable[pa.Table], found: list[pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows of first answers, and add all other rows to `found`."""
    for table in tables:
        if REVISED not in table.column_names:
            yield table
            continue
        is_first = pc.is_null(table[REVISED])
        found.append(table.filter(pc.invert(is_first)))
        first = table.filter(is_first).drop_columns([REVISED, KNOWN_BEFORE])
        if first.num_rows:
            yield first


def corrected(
    table: pa.Table, rank: Callable[[pa.Table, pa.Schema], pa.Table], kinds: pa.Schema, owners: Sequence[str]
) -> pa.Table:
    """Rank the answers before and after late rows, and return those that differ, with their revision.

    `owners` are the columns that identify a window in the ranked answers, which have the columns `kinds`.
    """
    revision = int(pc.max(table[REVISED]).as_py())
    before = table[KNOWN_BEFORE]
    rows = table.drop_columns([REVISED, KNOWN_BEFORE])
    after = rank(rows.filter(pc.invert(before)), kinds) if not pc.all(before).as_py() else kinds.empty_table()
    known = rank(rows.filter(before), kinds) if pc.any(before).as_py() else kinds.empty_table()
    found = after.filter(pa.array(changed_windows(known, after, owners)))
    return found.append_column(REVISION, pa.array(np.full(found.num_rows, revision), pa.int32()))


def changed_windows(before: pa.Table, after: pa.Table, owners: Sequence[str]) -> Bools:
    """Return which rows of `after` are of windows that have other rows in `before`, or the rows in another order.

    >>> before = pa.table({"time": [10, 10, 20], "key": ["a", "b", "a"]})
    >>> after = pa.table({"time": [10, 10, 20, 20], "key": ["a", "b", "a", "c"]})
    >>> changed_windows(before, after, ["time"]).tolist()
    [False, False, True, True]
    """
    if not after.num_rows:
        return np.zeros(0, bool)
    both = pa.concat_tables([before, after])
    codes = group_rows(both, list(owners)).codes
    old, new = codes[: before.num_rows], codes[before.num_rows :]
    windows = int(codes.max()) + 1
    changed = np.bincount(old, minlength=windows) != np.bincount(new, minlength=windows)
    # Rows of windows with equal sizes, aligned.
    rows = np.argsort(old, kind="stable"), np.argsort(new, kind="stable")
    left, right = (order[~changed[mine[order]]] for order, mine in zip(rows, (old, new), strict=True))
    differs = np.zeros(left.size, bool)
    for name in after.column_names:
        values = _comparable(one(both[name]))
        differs |= values[left] != values[before.num_rows + right]
    changed[old[left[differs]]] = True
    found: Bools = changed[new]
    return found


def _comparable(column: pa.Array) -> Ints:
    """Return a number per value, equal for equal values; NaN equals NaN."""
    kind = column.type
    if pa.types.is_nested(kind):
        codes: dict[str, int] = {}
        return np.array([codes.setdefault(repr(value), len(codes)) for value in column.to_pylist()], np.int64)
    encoded = column.dictionary_encode(null_encoding="encode").indices
    found: Ints = encoded.to_numpy(zero_copy_only=False).astype(np.int64)
    return found
