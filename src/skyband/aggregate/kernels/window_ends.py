"""Windows of a query: the next end, the start of a window, the end of a pane.

Sliding windows are computed. Irregular windows are looked up in the pages of `AggregateQueries`. A kernel must check
with `is_outside` that a position is in the page, and return `PAGE_MISSING` if it is not.
"""

from __future__ import annotations

from typing import Any

from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.stream import Ints

NEVER = 2**62
NONE = -1


@inner_kernel
def is_outside(query_set: Any, position: int) -> bool:
    """Return whether a position is not in the page of irregular windows; never if all windows are sliding."""
    return position < query_set.page_low or position > query_set.page_high


@kernel
def first_above(ordered: Ints, low: int, high: int, position: int) -> int:
    """Return the index of the first number after `position` between two indexes; `high` if there is none."""
    while low < high:
        middle = (low + high) // 2
        if ordered[middle] > position:
            high = middle
        else:
            low = middle + 1
    return low


@inner_kernel
def first_end_after(query_set: Any, q: int, position: int) -> int:
    """Return the end of the oldest window of query `q` that contains `position`, or that ends after it."""
    w = query_set.listed[q]
    if w == NONE:
        slide, origin = query_set.slides[q], query_set.origins[q]
        return origin + ((position - origin) // slide + 1) * slide
    at = first_above(query_set.list_ends, query_set.list_begins[w], query_set.list_begins[w + 1], position)
    return query_set.list_ends[at] if at < query_set.list_begins[w + 1] else NEVER


@inner_kernel
def start_of(query_set: Any, q: int, end: int) -> int:
    """Return the start of the window of query `q` that ends at `end`; after everything for the end NEVER."""
    w = query_set.listed[q]
    if w == NONE:
        return end - query_set.sizes[q]
    if end >= NEVER:  # there may be no page
        return NEVER
    at = first_above(query_set.list_ends, query_set.list_begins[w], query_set.list_begins[w + 1], end - 1)
    return query_set.list_starts[at] if at < query_set.list_begins[w + 1] else NEVER


@inner_kernel
def pane_end(query_set: Any, position: int) -> int:
    """Return the end of the pane that contains `position`."""
    end = NEVER
    if query_set.pane > 0:
        end = position - (position - query_set.offset) % query_set.pane + query_set.pane
    at = first_above(query_set.cuts, 0, query_set.cuts.size, position)
    return min(end, query_set.cuts[at]) if at < query_set.cuts.size else end
