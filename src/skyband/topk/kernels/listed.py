"""Irregular windows as kernels read them: sorted arrays of starts and ends.

Kernels that support both kinds get None if all windows are regular. None is a separate type, so Numba compiles a kernel
for each kind, and regular windows do not pay for the lists. A function may test the kind only on one of its
arguments: only then does the compiler drop the branch that does not apply.
"""

from __future__ import annotations

from typing import NamedTuple

from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.stream import Ints, KernelQuery, Queries, end_after

NEVER = 2**62
ALWAYS = -(2**62)


class Listed(NamedTuple):
    """The window lists of some queries. Within a list, ends increase and starts do not decrease."""

    starts: Ints  # of all windows, one list after another
    ends: Ints
    begins: Ints  # (lists + 1): where each list begins
    of_query: Ints  # per query: its list, or REGULAR
    cuts: Ints  # the distinct starts of all lists, ascending; empty: do not cut panes here


REGULAR = -1  # the query's windows form a lattice

Lists = Listed | None


@kernel
def first_beyond(numbers: Ints, low: int, high: int, value: int) -> int:
    """Index in ``[low, high)`` of the first of these ascending numbers greater than `value`; `high` if none is."""
    while low < high:
        middle = (low + high) // 2
        if numbers[middle] > value:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def place_after(listed: Listed, number: int, position: int) -> int:
    """Index of the first window of a list that ends after `position`; the list's end if there is none."""
    return first_beyond(listed.ends, listed.begins[number], listed.begins[number + 1], position)


@kernel
def listed_end_after(listed: Listed, number: int, position: int) -> int:
    """The first end after `position` in a list."""
    place = place_after(listed, number, position)
    return listed.ends[place] if place < listed.begins[number + 1] else NEVER


@kernel
def listed_start(listed: Listed, number: int, end: int) -> int:
    """The start of the window of a list that ends at `end`."""
    place = place_after(listed, number, end - 1)
    return listed.starts[place] if place < listed.begins[number + 1] else NEVER


@kernel
def listed_due(listed: Listed, number: int, due: int, since: int) -> int:
    """The end of a list's first window that ends at `due` or later and starts at `since` or later."""
    stop = listed.begins[number + 1]
    place = first_beyond(listed.starts, place_after(listed, number, due - 1), stop, since - 1)
    return listed.ends[place] if place < stop else NEVER


# One query's windows: naive.


@inner_kernel
def first_end(query: KernelQuery, listed: Lists, position: int) -> int:
    """The smallest window end after `position`."""
    if listed is None:
        return end_after(query, position)
    return listed_end_after(listed, 0, position)


@inner_kernel
def following_end(query: KernelQuery, listed: Lists, end: int) -> int:
    """The end of the window after the one that ends at `end`."""
    if listed is None:
        return end + query.slide
    return listed_end_after(listed, 0, end)


@inner_kernel
def start_of(query: KernelQuery, listed: Lists, end: int) -> int:
    """The start of the window that ends at `end`."""
    if listed is None:
        return end - query.size
    return listed_start(listed, 0, end)


# Several queries' windows: panes.


@inner_kernel
def start_for(queries: Queries, listed: Lists, query: int, end: int) -> int:
    """The start of the window of `query` that ends at `end`."""
    if listed is None:
        return end - queries.sizes[query]
    if listed.of_query[query] == REGULAR:
        return end - queries.sizes[query]
    return listed_start(listed, listed.of_query[query], end)


@kernel
def open_windows(queries: Queries, listed: Lists, query: int, due: int, newest: int) -> tuple[int, int]:
    """Number of windows of `query` that end at or after `due` and start by `newest`, and the index of the first one."""
    if listed is not None:
        number = listed.of_query[query]
        if number != REGULAR:
            place = place_after(listed, number, due - 1)
            return first_beyond(listed.starts, place, listed.begins[number + 1], newest) - place, place
    last = newest + queries.sizes[query]
    return ((last - due) // queries.slides[query] + 1 if due <= last else 0), 0


@inner_kernel
def open_start(queries: Queries, listed: Lists, query: int, due: int, place: int, i: int) -> int:
    """The start of the i-th window counted by `open_windows`."""
    if listed is not None and listed.of_query[query] != REGULAR:
        return listed.starts[place + i]
    return due + i * queries.slides[query] - queries.sizes[query]


@inner_kernel
def has_cuts(listed: Lists) -> bool:
    """Whether panes are cut where listed windows start."""
    if listed is None:
        return False
    return bool(listed.cuts.size > 0)


@inner_kernel
def last_cut(listed: Lists, position: int) -> int:
    """The last start of a listed window at or before `position`."""
    if listed is None:
        return ALWAYS
    place = first_beyond(listed.cuts, 0, listed.cuts.size, position)
    return listed.cuts[place - 1] if place else ALWAYS


@inner_kernel
def next_cut(listed: Lists, position: int) -> int:
    """The first start of a listed window after `position`."""
    if listed is None:
        return NEVER
    place = first_beyond(listed.cuts, 0, listed.cuts.size, position)
    return listed.cuts[place] if place < listed.cuts.size else NEVER
