"""When is the next answer due? A heap of the queries by the end of their oldest unanswered window."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import kernel
from skyband.kernels.stream import Ints, Queries


class Ends(NamedTuple):
    """Heap order: by end, then by the query's place, so that queries due together are answered in workload order."""

    heap: Ints  # the queries; the one due first is at 0
    due: Ints  # per query: the end of its oldest unanswered window


def empty_ends(queries: int) -> Ends:
    """No query is due until `reset_ends`."""
    return Ends(np.arange(queries, dtype=np.int64), np.zeros(queries, np.int64))


@kernel
def sooner(ends: Ends, a: int, b: int) -> bool:
    """Whether query `a` is due before query `b`."""
    return ends.due[a] < ends.due[b] or (ends.due[a] == ends.due[b] and a < b)


@kernel
def sift_down(ends: Ends, at: int) -> None:
    """Restore the heap below place `at`."""
    heap, n = ends.heap, ends.heap.size
    query = heap[at]
    while True:
        child = 2 * at + 1
        if child >= n:
            break
        if child + 1 < n and sooner(ends, heap[child + 1], heap[child]):
            child += 1
        if not sooner(ends, heap[child], query):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = query


@kernel
def reset_ends(ends: Ends, queries: Queries, position: int) -> None:
    """Nothing is held and an object arrives at `position`: each query's oldest window is the first that holds it."""
    for query in range(ends.due.size):
        slide, origin = queries.slides[query], queries.origins[query]
        start = max(position - queries.sizes[query] + 1, queries.since[query])
        # The smallest end whose window holds the position and does not start before the query's time.
        low = max(position + 1, start + queries.sizes[query])
        ends.due[query] = origin + -((origin - low) // slide) * slide
    for at in range(ends.heap.size // 2 - 1, -1, -1):
        sift_down(ends, at)


@kernel
def pass_end(ends: Ends, queries: Queries) -> None:
    """The query due first has been answered: its next window is due a slide later."""
    query = ends.heap[0]
    ends.due[query] += queries.slides[query]
    sift_down(ends, 0)
