"""Rows by group and in stream order: arriving rows, and the rows kept by several engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from skyband.kernels.stream import Floats, Ints
from skyband.kernels.validation import rows_by_group
from skyband.topk.algorithms.base import Objects

__all__ = ["GroupRows", "by_group", "chosen_groups", "in_stream_order"]

NONE = np.empty(0, np.int64)


class GroupRows(NamedTuple):
    """Arriving rows, group by group."""

    scores: Floats
    positions: Ints  # empty on a count axis
    ids: Ints
    groups: Ints  # the groups that have rows, ascending
    begins: Ints  # (groups + 1): where the rows of each begin


def by_group(codes: Ints) -> tuple[Ints, Ints, Ints]:
    """Row indexes by group, in stream order within a group; the groups that occur; and where the rows of each begin."""
    known = int(codes.max(initial=-1)) + 1
    if known > 4 * codes.size:  # a few rows with large group numbers
        present, codes = np.unique(codes, return_inverse=True)
        order, begins = rows_by_group(codes.reshape(-1), present.size)
        return order, present, begins
    order, begins = rows_by_group(codes, known)
    present = np.flatnonzero(np.diff(begins))
    return order, present, begins if present.size == known else np.append(begins[present], codes.size)


def chosen_groups(rows: GroupRows, groups: Any) -> GroupRows:
    """The rows of the groups selected by the mask."""
    if groups.all():
        return rows
    if not groups.any():
        return GroupRows(np.empty(0), NONE, NONE, NONE, np.zeros(1, np.int64))
    counts = np.diff(rows.begins)
    mine = np.repeat(groups, counts)
    positions = rows.positions[mine] if rows.positions.size else rows.positions
    begins = np.concatenate([[0], np.cumsum(counts[groups])])
    return GroupRows(rows.scores[mine], positions, rows.ids[mine], rows.groups[groups], begins)


def in_stream_order(held: Sequence[tuple[Ints, Objects]]) -> tuple[Ints, Objects]:
    """Return the distinct objects of several engines with their groups, in stream order.

    >>> objects = Objects(np.array([9.0, 5.0]), np.array([3, 1]), np.array([0, 1]))
    >>> groups = np.array([0, 0])
    >>> in_stream_order([(groups, objects), (groups, objects)])[1].keys.tolist()
    [5.0, 9.0]
    """
    columns = [_numbered(groups, objects) for groups, objects in held]
    if not columns:
        nothing = np.empty(0, np.int64)
        return nothing, Objects(np.empty(0), nothing, nothing)
    groups, positions, ids, keys, nth = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    order = np.lexsort([nth, keys, ids, positions, groups])
    once = ~_same_as_before([column[order] for column in (groups, positions, ids, keys, nth)])
    groups, positions, ids, keys = (column[order][once] for column in (groups, positions, ids, keys))
    return groups, Objects(keys, positions, ids)


def _numbered(groups: Ints, objects: Objects) -> tuple[Any, ...]:
    """The objects, numbered among equal ones of the same engine: 0, 1, …"""
    order = np.lexsort([objects.keys, objects.ids, objects.positions, groups])
    columns = [column[order] for column in (groups, objects.positions, objects.ids, objects.keys)]
    begins = np.flatnonzero(~_same_as_before(columns))
    nth = np.arange(order.size) - np.repeat(begins, np.diff(begins, append=order.size))
    return (*columns, nth)


def _same_as_before(columns: Sequence[Any]) -> Any:
    """Per row: whether it equals the row before it."""
    same = np.zeros(columns[0].size, bool)
    same[1:] = np.logical_and.reduce([column[1:] == column[:-1] for column in columns])
    return same
