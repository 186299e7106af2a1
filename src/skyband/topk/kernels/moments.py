"""Due positions of answers. Queries whose windows end at the same positions are due together.

The ends of a query form a lattice ``phase + i * slide``. Thousands of queries often share a few lattices, so the heap
that finds the next due position contains lattices, not queries. For queries with listed windows, the list replaces the
lattice; its slide is not used.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.stream import Ints, Queries
from skyband.topk.kernels.listed import REGULAR, Lists, listed_due, listed_end_after


class Moments(NamedTuple):
    """The lattices of window ends, as a heap ordered by the next end of each."""

    heap: Ints  # lattices; the first one due is at 0
    due: Ints  # per lattice: its oldest unanswered end
    slides: Ints  # per lattice
    phases: Ints  # per lattice
    longest: Ints  # per lattice: the largest window size of its queries
    begins: Ints  # per lattice: index of its first query in `members`
    members: Ints  # the queries, one lattice after another, in workload order


def moments_of(queries: Queries, listed: Lists) -> Moments:
    """Group the queries by the lattice of their window ends."""
    lists = np.full(queries.ks.size, REGULAR) if listed is None else listed.of_query
    kinds = np.stack([queries.slides, queries.origins % queries.slides, lists], axis=1)
    lattices, of = np.unique(kinds, axis=0, return_inverse=True)
    of = of.reshape(-1)
    members = np.argsort(of, kind="stable").astype(np.int64)
    begins = np.searchsorted(of[members], np.arange(len(lattices) + 1)).astype(np.int64)
    longest = np.array([queries.sizes[of == lattice].max() for lattice in range(len(lattices))], np.int64)
    slides, phases = np.ascontiguousarray(lattices[:, 0]), np.ascontiguousarray(lattices[:, 1])
    heap = np.arange(len(lattices), dtype=np.int64)
    return Moments(heap, np.zeros(len(lattices), np.int64), slides, phases, longest, begins, members)


def due_by_query(moments: Moments, queries: Queries, listed: Lists) -> Ints:
    """The end of each query's oldest unanswered window."""
    due = np.empty(queries.ks.size, np.int64)
    due[moments.members] = np.repeat(moments.due, np.diff(moments.begins))
    earliest = queries.since + queries.sizes  # for a query that joined late
    behind: Ints = np.maximum(0, -((due - earliest) // queries.slides)).astype(np.int64)
    found: Ints = due + behind * queries.slides
    if listed is not None:
        for query in np.flatnonzero(listed.of_query != REGULAR):
            found[query] = listed_due(listed, listed.of_query[query], due[query], queries.since[query])
    return found


@kernel
def sift_down(moments: Moments, at: int) -> None:
    """Restore the heap below index `at`."""
    heap, due, n = moments.heap, moments.due, moments.heap.size
    lattice = heap[at]
    while True:
        child = 2 * at + 1
        if child >= n:
            break
        if child + 1 < n and due[heap[child + 1]] < due[heap[child]]:
            child += 1
        if due[heap[child]] >= due[lattice]:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = lattice


@kernel
def first_after(moments: Moments, listed: Lists, lattice: int, position: int) -> int:
    """The lattice's first end after `position`."""
    if listed is not None:
        number = listed.of_query[moments.members[moments.begins[lattice]]]
        if number != REGULAR:
            return listed_end_after(listed, number, position)
    slide, phase = moments.slides[lattice], moments.phases[lattice]
    return phase + ((position - phase) // slide + 1) * slide


@inner_kernel
def following(moments: Moments, listed: Lists, lattice: int) -> int:
    """The lattice's end after the current due one."""
    if listed is not None:
        return first_after(moments, listed, lattice, moments.due[lattice])
    return moments.due[lattice] + moments.slides[lattice]


@kernel
def reset(moments: Moments, listed: Lists, position: int) -> None:
    """Set all lattices to the oldest windows that contain an object at `position`, the only object held."""
    for lattice in range(moments.due.size):
        moments.due[lattice] = first_after(moments, listed, lattice, position)
    for at in range(moments.heap.size // 2 - 1, -1, -1):
        sift_down(moments, at)


@kernel
def next_moment(moments: Moments) -> int:
    """The oldest unanswered end."""
    return moments.due[moments.heap[0]]


@kernel
def pass_moment(moments: Moments, listed: Lists, newest: int, now: int) -> None:
    """Advance the lattice that was answered to its next window, and past empty windows up to `now`."""
    lattice = moments.heap[0]
    end = following(moments, listed, lattice)
    if end - moments.longest[lattice] > newest:
        end = max(end, first_after(moments, listed, lattice, now))
    moments.due[lattice] = end
    sift_down(moments, 0)
