"""The minimal candidate set by its definition, in one sweep over the candidates, best first.

An object is kept iff some live view still has room for it: iff, for a view s at or before it, fewer than k_s better
objects are at or after s. With c_i the number of kept objects whose youngest view is i, the room is k_s minus the sum
of c_i over i >= s, maximised over the views up to the object's own. A tree over the views stores the maxima of its
ranges, so updating a leaf and querying a prefix take logarithmic time. With ties, objects with equal keys do not count
against each other: the sweep tests all of them before it counts any of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import allocating_kernel, kernel
from skyband.kernels.stream import Floats, Ints, Queries, Ties
from skyband.topk.kernels.listed import Lists, open_start, open_windows


class RoomTree(NamedTuple):
    """A complete binary tree over the live views, root at 1. A range does not count objects to its right."""

    counts: Ints  # kept objects whose youngest view is in the range
    rooms: Ints  # the largest room of a view in the range


@allocating_kernel
def live_views(queries: Queries, listed: Lists, due: Ints, newest: int) -> tuple[Ints, Ints]:
    """Starts of the live views at or before `newest`, ascending, and the largest k that each still has to answer.

    `due` contains the ends of the queries' oldest unanswered windows.
    """
    total = 0
    for query in range(due.size):
        total += open_windows(queries, listed, query, due[query], newest)[0]
    starts = np.empty(total, np.int64)
    ks = np.empty(total, np.int64)
    at = 0
    for query in range(due.size):
        count, place = open_windows(queries, listed, query, due[query], newest)
        for i in range(count):
            starts[at] = open_start(queries, listed, query, due[query], place, i)
            ks[at] = queries.ks[query]
            at += 1
    order = np.argsort(starts)
    kept = 0
    sorted_starts = np.empty(total, np.int64)
    sorted_ks = np.empty(total, np.int64)
    for place in order:
        if kept and sorted_starts[kept - 1] == starts[place]:
            sorted_ks[kept - 1] = max(sorted_ks[kept - 1], ks[place])
        else:
            sorted_starts[kept], sorted_ks[kept] = starts[place], ks[place]
            kept += 1
    return sorted_starts[:kept], sorted_ks[:kept]


@kernel
def room_up_to(tree: RoomTree, leaf: int) -> int:
    """The largest room of the views up to the leaf's view."""
    room = tree.rooms[leaf]
    node = leaf
    while node > 1:
        if node & 1:
            room = max(room, tree.rooms[node - 1] - tree.counts[node])
        else:
            room -= tree.counts[node + 1]
        node >>= 1
    return room


@kernel
def take_room(tree: RoomTree, leaf: int) -> None:
    """Count a kept object of the leaf's view: the room of every view up to it decreases by one."""
    tree.counts[leaf] += 1
    tree.rooms[leaf] -= 1
    node = leaf >> 1
    while node:
        left, right = 2 * node, 2 * node + 1
        tree.counts[node] = tree.counts[left] + tree.counts[right]
        tree.rooms[node] = max(tree.rooms[left] - tree.counts[right], tree.rooms[right])
        node >>= 1


@kernel
def last_at_or_before(starts: Ints, position: int) -> int:
    """Index of the last start at or before `position`; -1 if there is none."""
    low, high = 0, starts.size
    while low < high:
        middle = (low + high) >> 1
        if starts[middle] <= position:
            low = middle + 1
        else:
            high = middle
    return low - 1


@allocating_kernel
def needed(keys: Floats, positions: Ints, starts: Ints, ks: Ints, ties: Ties) -> Ints:
    """Indexes of those of these objects, given best first, that belong to the minimal candidate set."""
    leaves = 1
    while leaves < starts.size:
        leaves *= 2
    tree = RoomTree(np.zeros(2 * leaves, np.int64), np.full(2 * leaves, -(2**62)))
    for view in range(starts.size):  # not a slice, for which numba compiles seconds of checks of shapes
        tree.rooms[leaves + view] = ks[view]
    for node in range(leaves - 1, 0, -1):
        tree.rooms[node] = max(tree.rooms[2 * node], tree.rooms[2 * node + 1])
    places = np.empty(positions.size, np.int64)
    views = np.empty(positions.size, np.int64)  # per kept object
    kept, counted = 0, 0
    for i in range(positions.size):
        if ties is None or keys[i] != keys[i - 1]:
            for better in range(counted, kept):
                take_room(tree, leaves + views[better])
            counted = kept
        view = last_at_or_before(starts, positions[i])
        if view >= 0 and room_up_to(tree, leaves + view) > 0:
            places[kept], views[kept] = i, view
            kept += 1
    return places[:kept]
