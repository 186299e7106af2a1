"""Rows by group, in stream order inside a group."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.kernels.stream import Floats, Ints
from skyband.kernels.validation import rows_by_group

__all__ = ["GroupRows", "by_group", "chosen_groups"]

NONE = np.empty(0, np.int64)


class GroupRows(NamedTuple):
    """Rows that arrive, group by group."""

    scores: Floats
    positions: Ints  # empty on a count axis
    ids: Ints
    groups: Ints  # the groups that have rows, ascending
    begins: Ints  # (groups + 1): where the rows of each begin


def by_group(codes: Ints) -> tuple[Ints, Ints, Ints]:
    """The rows by group, in stream order inside a group; the groups there are, and where the rows of each begin."""
    known = int(codes.max(initial=-1)) + 1
    if known > 4 * codes.size:  # a few rows of groups with any numbers
        present, codes = np.unique(codes, return_inverse=True)
        order, begins = rows_by_group(codes.reshape(-1), present.size)
        return order, present, begins
    order, begins = rows_by_group(codes, known)
    present = np.flatnonzero(np.diff(begins))
    return order, present, begins if present.size == known else np.append(begins[present], codes.size)


def chosen_groups(rows: GroupRows, groups: Any) -> GroupRows:
    """The rows of the groups that the mask names."""
    if groups.all():
        return rows
    if not groups.any():
        return GroupRows(np.empty(0), NONE, NONE, NONE, np.zeros(1, np.int64))
    counts = np.diff(rows.begins)
    mine = np.repeat(groups, counts)
    positions = rows.positions[mine] if rows.positions.size else rows.positions
    begins = np.concatenate([[0], np.cumsum(counts[groups])])
    return GroupRows(rows.scores[mine], positions, rows.ids[mine], rows.groups[groups], begins)
