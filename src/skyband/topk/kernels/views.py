"""The state of the meta query: which views are live, which k each needs, and when the next window opens or ends.

A *view* is identified by its start and ranks all objects at or after it. It serves every query that has a window with
this start. Its k is the largest among those queries that are still unanswered. A view opens when the first object at or
after its start arrives, and closes when the last of its windows is answered; views need not close in the order of
opening.

Queries with the same slide whose windows start (or end) together form a *lattice*. They are scheduled as one item, so a
thousand queries with one slide cost one entry. Windows that contain no object are never created, however long the
stream is idle.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skyband.kernels._jit import kernel
from skyband.kernels.stream import Floats, Ints, Queries
from skyband.topk.kernels.agenda import Agenda, idle_agenda, schedule, sift_first, unschedule_first

BLOCK = 64  # views that share a lowest bar
GROUP = 16  # lowest bars that are compared at a time
NONE = -1
MOST_NUMBERS = 1 << 30  # views are renumbered then, because engines store numbers in 32 bits

# Views.registers
OLDEST = 0  # the oldest live view
NEWEST = 1  # the newest open view; below OLDEST: none is live
LIVE = 2
UNFILLED = 3  # live views with fewer objects than their k
NEWEST_POSITION = 4  # of the objects processed; undefined while no end is due
REGISTERS = 5


class Lattices(NamedTuple):
    """Positions ``phase + i * slide`` that several queries share, from `lowest` on."""

    slides: Ints
    phases: Ints  # 0 <= phase < slide
    lowest: Ints
    largest: Ints  # the largest size among the members
    begins: Ints  # the members of lattice l are members[begins[l] : begins[l + 1]]
    members: Ints  # queries


class ViewsPlan(NamedTuple):
    """Values derived from the queries alone."""

    queries: Queries
    starts: Lattices  # of window starts; members ordered by size, then index
    ends: Lattices  # of window ends; members ordered by index
    sizes: Ints  # per member of a start lattice: its size
    k_from: Ints  # per member of a start lattice: the largest k among it and the members after it
    lattice_of: Ints  # per query: its start lattice
    place_of: Ints  # per query: its index among the members of start lattices


class Views(NamedTuple):
    """The views, numbered by start. View w is at ``w % capacity``, a power of two and a multiple of BLOCK."""

    starts: Ints
    ks: Ints  # the largest k among the unanswered windows; 0: closed
    counts: Ints  # objects in its top k
    bars: Floats  # the lowest key that may enter: -inf until there are k objects, then the worst key; closed: +inf
    lowest_bars: Floats  # per block of views: lower bound of its bars; +inf for unused blocks
    floor: Floats  # one number: lower bound of all bars
    registers: Ints


class ViewProgress(NamedTuple):
    """The unanswered windows: one record for each view and each lattice it serves, chained by view."""

    first_records: Ints  # per view, in the same ring
    lattices: Ints  # per record
    unanswered: Ints  # per record: the first member of the lattice whose window is unanswered
    following: Ints  # per record: the view's next one, NONE after the last
    cursors: Ints  # per end lattice: how many of its members have been answered at its due position
    guesses: Ints  # per query: the view of its last window; the search for the next one starts beside it
    free: Ints  # one number: the first free record, NONE if there is none


class SharedViews(NamedTuple):
    """The meta query: the views, and one agenda each for the lattices of their starts and ends."""

    plan: ViewsPlan
    views: Views
    progress: ViewProgress
    starts: Agenda
    ends: Agenda


def plan_of(queries: Queries) -> ViewsPlan:
    """Group the queries by lattice."""
    places = np.arange(queries.ks.size, dtype=np.int64)
    starts = _lattices(queries, queries.origins - queries.sizes, np.lexsort((places, queries.sizes)), queries.since)
    smallest: dict[tuple[int, ...], int] = {}
    ends_key = _keys(queries, queries.origins)
    for place, key in enumerate(ends_key):
        smallest[key] = min(smallest.get(key, 2**62), int(queries.sizes[place]))
    first_ends = queries.since + np.array([smallest[key] for key in ends_key], np.int64)
    ends = _lattices(queries, queries.origins, places, first_ends)
    k_from = queries.ks[starts.members]
    lattice_of, place_of = np.zeros_like(places), np.zeros_like(places)
    for lattice, (low, high) in enumerate(zip(starts.begins[:-1], starts.begins[1:], strict=True)):
        k_from[low:high] = np.maximum.accumulate(k_from[low:high][::-1])[::-1]
        lattice_of[starts.members[low:high]] = lattice
        place_of[starts.members[low:high]] = np.arange(low, high)
    return ViewsPlan(queries, starts, ends, queries.sizes[starts.members], k_from, lattice_of, place_of)


def _keys(queries: Queries, moments: Ints) -> list[tuple[int, ...]]:
    return list(zip(queries.slides.tolist(), (moments % queries.slides).tolist(), queries.since.tolist(), strict=True))


def _lattices(queries: Queries, moments: Ints, order: Ints, lowest: Ints) -> Lattices:
    keys = _keys(queries, moments)
    found: dict[tuple[int, ...], list[int]] = {}
    for place in order.tolist():
        found.setdefault(keys[place], []).append(place)
    columns = [
        (slide, phase, int(lowest[members[0]]), int(queries.sizes[members].max()))
        for (slide, phase, _), members in found.items()
    ]
    numbers: list[Any] = [np.array(column, np.int64) for column in zip(*columns, strict=True)]
    numbers.append(np.cumsum([0, *map(len, found.values())], dtype=np.int64))
    numbers.append(np.concatenate([np.array(members, np.int64) for members in found.values()]))
    return Lattices(*numbers)


def most_views(plan: ViewsPlan) -> int:
    """Maximum number of views that are live at once."""
    return int((-(-plan.starts.largest // plan.starts.slides)).sum())


def empty_views() -> Views:
    """Return a state without open views."""
    capacity = BLOCK
    registers = np.zeros(REGISTERS, np.int64)
    registers[NEWEST] = -1
    return Views(
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.int64),
        np.full(capacity, np.inf),
        np.full(GROUP, np.inf),
        np.full(1, np.inf),
        registers,
    )


def empty_progress(plan: ViewsPlan) -> ViewProgress:
    """Return a state without unanswered windows."""
    records = 64
    return ViewProgress(
        np.zeros(BLOCK, np.int64),
        np.zeros(records, np.int64),
        np.zeros(records, np.int64),
        _free_records(0, records),
        np.zeros(plan.ends.slides.size, np.int64),
        np.zeros(plan.queries.ks.size, np.int64),
        np.zeros(1, np.int64),
    )


def empty_agendas(plan: ViewsPlan) -> tuple[Agenda, Agenda]:
    """Schedule the first start of every lattice; no end is due before the first object."""
    starts, ends = idle_agenda(plan.starts.slides.size), idle_agenda(plan.ends.slides.size)
    for lattice in range(starts.heap.size):
        slide, phase, low = plan.starts.slides[lattice], plan.starts.phases[lattice], plan.starts.lowest[lattice]
        schedule(starts, first_moment(slide, phase, low), lattice)
    return starts, ends


def _free_records(low: int, high: int) -> Ints:
    following = np.arange(low + 1, high + 1, dtype=np.int64)
    following[-1] = NONE
    return following


def lacks_records(progress: ViewProgress) -> bool:
    """Whether no record is free."""
    return int(progress.free[0]) == NONE


def lacks_views(views: Views) -> bool:
    """Whether the ring of views is full, including closed views, or numbers must begin at 0 again."""
    newest, oldest = int(views.registers[NEWEST]), int(views.registers[OLDEST])
    return newest + 1 - oldest == views.starts.size or newest >= MOST_NUMBERS


def with_more_records(progress: ViewProgress) -> ViewProgress:
    """Return a copy with twice as many records. Call it only if no record is free."""
    n = progress.lattices.size
    return progress._replace(
        lattices=np.concatenate([progress.lattices, np.zeros(n, np.int64)]),
        unanswered=np.concatenate([progress.unanswered, np.zeros(n, np.int64)]),
        following=np.concatenate([progress.following, _free_records(n, 2 * n)]),
        free=np.full(1, n, np.int64),
    )


def live_numbers(views: Views) -> Ints:
    """The numbers of the live views."""
    numbers = np.arange(views.registers[OLDEST], views.registers[NEWEST] + 1)
    live: Ints = numbers[views.ks[numbers % views.ks.size] > 0]
    return live


def moved(ring: NDArray[Any], live: Ints, capacity: int, *, empty: float = 0) -> NDArray[Any]:
    """Return a ring of `capacity` entries with the entries of the views `live` from index 0 on."""
    found = np.full(capacity, empty, ring.dtype)
    found[: live.size] = ring[live % ring.size]
    return found


def without_closed(views: Views) -> Views:
    """Keep only the live views, renumbered from 0 in the same order, in a ring that is at most half full."""
    live, old = live_numbers(views), views.starts.size
    capacity = old if 2 * live.size <= old else 2 * old
    bars = moved(views.bars, live, capacity, empty=np.inf)
    lowest_bars = np.full(max(GROUP, capacity // BLOCK), np.inf)
    lowest_bars[: capacity // BLOCK] = bars.reshape(-1, BLOCK).min(axis=1)
    registers = views.registers.copy()
    registers[OLDEST], registers[NEWEST] = 0, live.size - 1
    return Views(
        moved(views.starts, live, capacity),
        moved(views.ks, live, capacity),
        moved(views.counts, live, capacity),
        bars,
        lowest_bars,
        views.floor,
        registers,
    )


@kernel
def first_moment(slide: int, phase: int, low: int) -> int:
    """The smallest ``phase + i * slide`` at or after `low`."""
    return low + (phase - low % slide) % slide


@kernel
def open_views(meta: SharedViews, position: int) -> bool:
    """Open all views that start at or before `position` and have a window ending after it; False: no room."""
    lattices, views, progress, agenda = meta.plan.starts, meta.views, meta.progress, meta.starts
    r, mask = views.registers, views.starts.size - 1
    while agenda.due[agenda.heap[0]] <= position:
        lattice = agenda.heap[0]
        start, largest = agenda.due[lattice], lattices.largest[lattice]
        if start + largest <= position:
            # After a gap in the stream: the windows in the gap contain no object.
            agenda.due[lattice] = first_moment(
                lattices.slides[lattice], lattices.phases[lattice], position - largest + 1
            )
            sift_first(agenda)
            continue
        is_new = r[NEWEST] < r[OLDEST] or views.starts[r[NEWEST] & mask] != start
        if progress.free[0] == NONE or (is_new and (r[NEWEST] + 1 - r[OLDEST] > mask or r[NEWEST] >= MOST_NUMBERS)):
            return False
        if is_new:
            r[NEWEST] += 1
            r[LIVE] += 1
            r[UNFILLED] += 1
            at = r[NEWEST] & mask
            views.starts[at], views.ks[at], views.counts[at], progress.first_records[at] = start, 0, 0, NONE
            views.bars[at] = views.lowest_bars[at // BLOCK] = views.floor[0] = -np.inf
        at = r[NEWEST] & mask
        record = progress.free[0]
        progress.free[0] = progress.following[record]
        progress.following[record] = progress.first_records[at]
        progress.first_records[at] = record
        member = lattices.begins[lattice]
        while meta.plan.sizes[member] <= position - start:
            member += 1
        progress.lattices[record], progress.unanswered[record] = lattice, member
        views.ks[at] = max(views.ks[at], meta.plan.k_from[member])
        agenda.due[lattice] = start + lattices.slides[lattice]
        sift_first(agenda)
    return True


@kernel
def schedule_ends(meta: SharedViews, position: int) -> None:
    """Schedule the idle end lattices after an object at `position`: their next windows contain it."""
    lattices, agenda = meta.plan.ends, meta.ends
    while agenda.busy[0] < agenda.heap.size:
        lattice = agenda.heap[agenda.busy[0]]
        low = max(position + 1, lattices.lowest[lattice])
        end = first_moment(lattices.slides[lattice], lattices.phases[lattice], low)
        meta.progress.cursors[lattice] = 0
        schedule(agenda, end, lattices.members[lattices.begins[lattice]])


@kernel
def is_due(meta: SharedViews, moment: int) -> bool:
    """Whether a window ends at or before `moment`."""
    return bool(meta.ends.busy[0] > 0 and meta.ends.due[meta.ends.heap[0]] <= moment)


@kernel
def boundary(meta: SharedViews) -> int:
    """The position up to which no view opens and no window ends. Call it only after an object has arrived."""
    return int(min(meta.starts.due[meta.starts.heap[0]], meta.ends.due[meta.ends.heap[0]]))


@kernel
def query_due(meta: SharedViews) -> int:
    """The query whose window ends next; of those that end together, the first in the workload."""
    lattice = meta.ends.heap[0]
    at: int = meta.plan.ends.begins[lattice] + meta.progress.cursors[lattice]
    query: int = meta.plan.ends.members[at]
    return query


@kernel
def view_due(meta: SharedViews, query: int) -> int:
    """The view of the window of `query` that ends next; NONE if it is empty or before the query joined."""
    views, r, mask = meta.views, meta.views.registers, meta.views.starts.size - 1
    start = meta.ends.due[meta.ends.heap[0]] - meta.plan.queries.sizes[query]
    if start < meta.plan.queries.since[query] or r[NEWEST_POSITION] < start:
        return NONE
    found = meta.progress.guesses[query] + 1
    if found < r[OLDEST] or found > r[NEWEST] or views.starts[found & mask] != start:
        found, high = r[OLDEST], r[NEWEST]
        while found < high:
            middle = (found + high) >> 1
            if views.starts[middle & mask] < start:
                found = middle + 1
            else:
                high = middle
    meta.progress.guesses[query] = found
    return int(found)


@kernel
def k_without(meta: SharedViews, w: int, query: int) -> int:
    """Mark the window of `query` on view `w` as answered; return the largest unanswered k there, 0 for none."""
    plan, progress, at = meta.plan, meta.progress, w & (meta.views.starts.size - 1)
    largest, before, record = 0, NONE, progress.first_records[at]
    while record != NONE:
        follower = progress.following[record]
        lattice = progress.lattices[record]
        if lattice == plan.lattice_of[query]:
            progress.unanswered[record] = plan.place_of[query] + 1
        if progress.unanswered[record] < plan.starts.begins[lattice + 1]:
            largest = max(largest, plan.k_from[progress.unanswered[record]])
            before = record
        else:
            if before == NONE:
                progress.first_records[at] = follower
            else:
                progress.following[before] = follower
            progress.following[record] = progress.free[0]
            progress.free[0] = record
        record = follower
    return int(largest)


@kernel
def pass_query(meta: SharedViews) -> None:
    """Advance to the next query of the due lattice, or, after the last, reschedule the lattice one slide later."""
    lattices, agenda = meta.plan.ends, meta.ends
    lattice = agenda.heap[0]
    begin, cursor = lattices.begins[lattice], meta.progress.cursors[lattice] + 1
    if begin + cursor == lattices.begins[lattice + 1]:
        cursor = 0
        agenda.due[lattice] += lattices.slides[lattice]
    meta.progress.cursors[lattice] = cursor
    agenda.ranks[lattice] = lattices.members[begin + cursor]
    if agenda.due[lattice] - lattices.largest[lattice] > meta.views.registers[NEWEST_POSITION]:
        unschedule_first(agenda)
    else:
        sift_first(agenda)


@kernel
def close_view(views: Views, w: int) -> None:
    """Close view `w`, which has k = 0 and no object. Its number is freed when all older views are closed, too."""
    r, mask = views.registers, views.starts.size - 1
    at = w & mask
    r[LIVE] -= 1
    views.bars[at] = np.inf
    while r[OLDEST] <= r[NEWEST] and views.ks[r[OLDEST] & mask] == 0:
        r[OLDEST] += 1


@kernel
def find_lowest_bar(bars: Floats, lowest_bars: Floats, block: int) -> None:
    """Recompute the block's lowest bar after bars have risen."""
    mine = bars[block * BLOCK : (block + 1) * BLOCK]  # in a slice, Numba need not handle negative indexes
    # Four independent minima, so that comparisons do not wait for each other.
    a = b = c = d = np.inf
    for at in range(0, BLOCK, 4):
        a = mine[at] if mine[at] < a else a
        b = mine[at + 1] if mine[at + 1] < b else b
        c = mine[at + 2] if mine[at + 2] < c else c
        d = mine[at + 3] if mine[at + 3] < d else d
    lowest_bars[block] = min(a, b, c, d)


@kernel
def find_floor(views: Views) -> None:
    """Recompute the lowest bar of all; nothing to do while a view accepts every object."""
    if views.registers[UNFILLED] == 0:
        floor = np.inf
        for block in range(views.lowest_bars.size):
            floor = min(floor, views.lowest_bars[block])
        views.floor[0] = floor


@kernel
def next_block(lowest_bars: Floats, block: int, key: float) -> int:
    """The first block at or after `block` with a view that may accept this key; the block count if none."""
    n = lowest_bars.size
    while block < n:
        if block & (GROUP - 1) == 0:
            hopeful, group = 0, lowest_bars[block : block + GROUP]
            for i in range(GROUP):  # no branch on a key: compiles to vector instructions
                hopeful += key >= group[i]
            if not hopeful:
                block += GROUP
                continue
        if key >= lowest_bars[block]:
            break
        block += 1
    return block


@kernel
def accepting_views(bars: Floats, block: int, key: float, picked: Ints) -> int:
    """Write to `picked` the indexes of the views in `block` that may accept this key; return how many."""
    found, low = 0, block * BLOCK
    mine = bars[low : low + BLOCK]
    for at in range(BLOCK):
        picked[found] = low + at
        found += key >= mine[at]
    return found
