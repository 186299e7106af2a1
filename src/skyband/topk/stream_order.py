"""Objects that several engines hold, as rows: by group, position and id, what more than one of them holds once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skyband.kernels.stream import Ints
from skyband.topk.algorithms.base import Objects

__all__ = ["in_stream_order"]


def in_stream_order(held: Sequence[tuple[Ints, Objects]]) -> tuple[Ints, Objects]:
    """The groups and objects of several engines in stream order.

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
    """The objects with a number that tells equal ones of one engine apart: the first, the second, …"""
    order = np.lexsort([objects.keys, objects.ids, objects.positions, groups])
    columns = [column[order] for column in (groups, objects.positions, objects.ids, objects.keys)]
    begins = np.flatnonzero(~_same_as_before(columns))
    nth = np.arange(order.size) - np.repeat(begins, np.diff(begins, append=order.size))
    return (*columns, nth)


def _same_as_before(columns: Sequence[Any]) -> Any:
    """Per row: whether it equals the one in front of it."""
    same = np.zeros(columns[0].size, bool)
    same[1:] = np.logical_and.reduce([column[1:] == column[:-1] for column in columns])
    return same
