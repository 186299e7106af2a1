"""Pane partials, and the totals of a key in every window, updated by addition and subtraction.

Each key has a *slot*. The values of a key in one pane are aggregated into a *partial*: a row of additive integers
(number of values, number of infinities, limbs of their sum), and its extremes. All queries with the same window size
share one *track*, even with different slides: the oldest pane in the window depends only on the end and the size. A
partial is added once for all tracks, and subtracted once per track:

```text
added[slot]          sum of all partials that have entered
left[track, slot]    sum of those that have left the track's window          window total: added - left
```

Cumulative and landmark windows *grow*: all partials leave at once, when the next one begins. So a growing track needs
no partials, but the extremes of each key, its *peaks*.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.aggregate.kernels.exact_sum import add_double, add_square
from skyband.aggregate.kernels.window_ends import first_end_after, pane_end, start_of
from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels._prefetch import prefetch
from skyband.kernels.stream import Floats, Ints

NEVER = 2**62
NONE = -1
AHEAD = 16  # how many objects before its use memory is loaded

# Additive columns. The limbs of the sum follow, then the limbs of the sum of squares, twice as many.
COUNT = 0
INFINITE = 1  # number of positive infinities, plus MINUS times the number of negative ones
FIRST_LIMB = 2
MINUS = 2**32

# State.dirty
SUMS_CHANGED = 1
EXTREME_CHANGED = 2  # for the first extreme; shifted by one bit for each further one
EVERYTHING = 255

# AggregateQueries.compared: which row of a key is an extreme
BY_VALUE = 0  # the highest signed value, then the newest row, then the larger id
NEWEST = 1  # the newest row, then the larger id, then the higher value
OLDEST = 2  # the oldest row, then the smaller id, then the lower value

# State.clock
HEAD = 0  # number of the oldest partial held
TAIL = 1  # number of the next partial
OPEN_AT = 2  # number of the first partial of the open pane
FIRST_PANE = 3  # number of the oldest pane held
LAST_PANE = 4  # number of the next pane
IS_OPEN = 5  # whether the newest pane still accepts rows
NEXT = 6  # rows before this position close no pane and no window
ENTERED = 7  # counter: partials added
LEFT = 8  # counter: partials subtracted, over all tracks
SCORED = 9  # counter: keys scored
UNRANKABLE = 10  # counter: keys whose aggregate was NaN
HAS_INFINITE = 11  # whether any value was infinite
CLOCK = 12


class State(NamedTuple):
    """State of an engine. Partials and panes have increasing numbers and are stored in rings of a power of two."""

    # per slot
    added: Any  # (slots, width)
    last: Ints  # the newest position of the key
    open: Ints  # number of its newest partial; belongs to the open pane if >= OPEN_AT
    tails: Any  # (slots, extremes): the newest partial of its ladder
    # per track and slot
    left: Any  # (tracks, slots, width)
    place: Any  # (tracks, slots) int32: index of the key in `live`, NONE if it is not in the window
    live: Any  # (tracks, slots) int32: the keys in the window
    heads: Any  # (tracks, slots, extremes): the partial that holds the extreme
    dirty: Any  # (tracks, slots) uint8: what changed since the key was scored
    touched: Any  # (tracks, slots) int32: the keys that are dirty
    # per ranking and slot
    scores: Floats  # (rankings, slots): higher is better; NaN if the key is not in the window or is not ranked
    # per partial
    slots: Ints
    adds: Any  # (partials, width)
    extremes: Any  # (partials, extremes): signed values; NaN if the newest row deletes the key
    ats: Any  # (partials, extremes): position of the row with the value; without columns if not identified
    ids: Any  # (partials, extremes): id of this row, or its number in a `RowStore`; likewise
    older: Any  # (partials, extremes): ladders, see `push_to_ladder`
    younger: Any
    # per pane
    lows: Ints  # start of the pane
    firsts: Ints  # number of its first partial
    here: Any  # bool: whether its partials are in memory
    # per track
    gone: Ints  # the first pane that has not left the window
    alive: Ints  # number of keys in the window
    stale: Ints  # number of dirty keys
    # of growing tracks
    newest: Ints  # the mark of the newest pane that has entered; empty if no track grows
    peaks: Any  # (growing tracks, slots, extremes): signed values
    peak_ats: Any  # likewise, as `ats` of partials
    peak_ids: Any
    # per query
    next_end: Ints  # end of the next window to answer; NEVER if all later windows are empty
    clock: Ints


class AggregateQueries(NamedTuple):
    """The queries, sorted by ranking. Queries of one ranking differ only in their k, slide and origin."""

    rankings: Ints
    tracks: Ints
    ks: Ints
    sizes: Ints
    slides: Ints
    origins: Ints
    listed: Ints  # index of its windows in the page of irregular windows; NONE: sliding windows
    full_only: Ints
    since: Ints  # the smallest window start that the query answers
    places: Ints  # index in the workload
    ties: Ints  # whether answers contain all keys with the k-th score
    totals: Ints  # whether answers have the exact sums of their keys, and a last row with those of all keys
    # per ranking
    tracks_of: Ints
    whats: Ints  # code of the score, see `key_scores`
    directions: Floats  # 1: higher scores first, -1: lower scores first
    conditions_end: Ints  # end of its conditions
    # per condition of `having`
    condition_whats: Ints
    operators: Ints  # see `key_scores`
    bounds: Floats
    # per track
    spans: Ints  # its window size
    grows: Ints  # its number among the growing tracks; NONE: its windows slide
    # per extreme
    signs: Floats  # -1: the smallest value
    compared: Ints
    # irregular windows: see `WindowPage`
    list_begins: Ints
    list_starts: Ints
    list_ends: Ints
    cuts: Ints
    page_low: int
    page_high: int
    pane: int  # the length of the panes of sliding windows; 0 if all windows are irregular
    offset: int  # start of a pane
    low: int  # the first limb stored
    powers: int  # sums: 0 for none, 1 for the values, 2 for their squares too
    identified: int  # whether the rows of extremes have positions and ids


@inner_kernel
def limbs_of(width: int, powers: int) -> int:
    """Return the number of limbs of the sum in rows of this width."""
    return (width - FIRST_LIMB) // (2 * powers - 1)


@inner_kernel
def add_value(row: Ints, low: int, powers: int, value: float, bits: int) -> None:
    """Add a value to the sums of a row."""
    if not np.isfinite(value):
        row[INFINITE] += 1 if value > 0 else MINUS
        return
    add_double(row, FIRST_LIMB, low, bits)
    if powers > 1:
        add_square(row, FIRST_LIMB + limbs_of(row.size, powers), 2 * low, bits)


@inner_kernel
def enter(state: State, query_set: AggregateQueries, number: int) -> None:
    """Add a partial to the windows of all tracks."""
    at = number & (state.slots.size - 1)
    slot = state.slots[at]
    for column in range(state.added.shape[1]):
        state.added[slot, column] += state.adds[at, column]
    for track in range(query_set.spans.size):
        touch(state, track, slot, SUMS_CHANGED)
        if query_set.grows[track] != NONE and query_set.signs.size:
            raise_peaks(state, query_set, track, slot, at)
            if np.isnan(state.peaks[query_set.grows[track], slot, 0]):
                remove_deleted(state, track, slot)
                continue
        if state.place[track, slot] == NONE:
            state.place[track, slot] = state.alive[track]
            state.live[track, state.alive[track]] = slot
            state.alive[track] += 1
    if query_set.spans.size > state.peaks.shape[0]:
        for e in range(query_set.signs.size):
            push_to_ladder(state, query_set, slot, number, e)
    state.clock[ENTERED] += 1


@kernel
def enter_sums(state: State, first: int, behind: int) -> None:
    """Add partials without extremes to the windows of all tracks."""
    slots, adds, added, ring = state.slots, state.adds, state.added, state.slots.size - 1
    for number in range(first, behind):
        prefetch(added, slots[min(number + AHEAD, behind - 1) & ring])
        at = number & ring
        slot = slots[at]
        for column in range(adds.shape[1]):
            added[slot, column] += adds[at, column]
    for track in range(state.place.shape[0]):
        dirty, touched, place, live = state.dirty[track], state.touched[track], state.place[track], state.live[track]
        stale, alive = state.stale[track], state.alive[track]
        for number in range(first, behind):
            slot = slots[number & ring]
            if not dirty[slot]:
                touched[stale] = slot
                stale += 1
            dirty[slot] |= SUMS_CHANGED
            if place[slot] == NONE:
                place[slot] = alive
                live[alive] = slot
                alive += 1
        state.stale[track], state.alive[track] = stale, alive
    state.clock[ENTERED] += behind - first


@inner_kernel
def touch(state: State, track: int, slot: int, changed: int) -> None:
    """Mark a key as dirty, so that it is rescored."""
    if not state.dirty[track, slot]:
        state.touched[track, state.stale[track]] = slot
        state.stale[track] += 1
    state.dirty[track, slot] |= changed


@inner_kernel
def is_beaten(compared: int, older: float, newer: float) -> bool:
    """Return whether the extreme of an older pane is worse than that of a newer one."""
    return compared == NEWEST or (compared == BY_VALUE and older <= newer)


@inner_kernel
def is_better(compared: int, value: float, at: int, name: int, best: float, best_at: int, best_name: int) -> bool:
    """Return whether a row, with a signed value, a position and an id, is better than the best of its pane."""
    if compared == BY_VALUE and value != best:
        return value > best
    if at != best_at:
        return at < best_at if compared == OLDEST else at > best_at
    if name != best_name:
        return name < best_name if compared == OLDEST else name > best_name
    if np.isnan(value) or np.isnan(best):  # a delete follows all values
        return compared == NEWEST and not np.isnan(best)
    return value < best if compared == OLDEST else value > best


@kernel
def raise_peaks(state: State, query_set: AggregateQueries, track: int, slot: int, at: int) -> None:
    """Update the peaks of a key in a growing track by the partial with the ring index `at`."""
    g = query_set.grows[track]
    is_new = state.place[track, slot] == NONE
    for e in range(query_set.signs.size):
        value, peak = state.extremes[at, e], state.peaks[g, slot, e]
        if not query_set.identified:
            if is_new or value > peak:
                state.peaks[g, slot, e] = value
                touch(state, track, slot, EXTREME_CHANGED << e)
        elif is_new or is_better(
            query_set.compared[e],
            value,
            state.ats[at, e],
            state.ids[at, e],
            peak,
            state.peak_ats[g, slot, e],
            state.peak_ids[g, slot, e],
        ):
            state.peaks[g, slot, e] = value
            state.peak_ats[g, slot, e], state.peak_ids[g, slot, e] = state.ats[at, e], state.ids[at, e]
            touch(state, track, slot, EXTREME_CHANGED << e)


@inner_kernel
def remove_key(state: State, track: int, slot: int) -> None:
    """Remove a key from the keys in the window."""
    state.alive[track] -= 1
    other, hole = state.live[track, state.alive[track]], state.place[track, slot]
    state.live[track, hole], state.place[track, other] = other, hole
    state.place[track, slot] = NONE


@kernel
def remove_deleted(state: State, track: int, slot: int) -> None:
    """Remove a key whose newest row is a delete from a growing window.

    Its pane has closed and nothing leaves before the next window begins, so no older value can come back.
    """
    for column in range(state.added.shape[1]):
        state.left[track, slot, column] = state.added[slot, column]
    if state.place[track, slot] != NONE:
        remove_key(state, track, slot)


@inner_kernel
def push_to_ladder(state: State, query_set: AggregateQueries, slot: int, number: int, e: int) -> None:
    """Push a partial onto the ladder (monotonic queue) of its key.

    A ladder contains the partials that no newer one beats, so extremes decrease from the oldest to the newest. The
    extreme of a window is its oldest partial on the ladder: `heads` has it per track. Each partial is pushed once,
    popped once, and passed once by each track.
    """
    ring = state.slots.size - 1
    mine = state.extremes[number & ring, e]
    below = state.tails[slot, e]
    compared = query_set.compared[e]
    while below >= state.clock[HEAD] and is_beaten(compared, state.extremes[below & ring, e], mine):
        below = state.older[below & ring, e]
    state.older[number & ring, e] = below
    state.younger[number & ring, e] = NONE
    if below >= state.clock[HEAD]:
        state.younger[below & ring, e] = number
    state.tails[slot, e] = number
    for track in range(query_set.spans.size):
        head = state.heads[track, slot, e]
        if query_set.grows[track] == NONE and (
            head == NONE or is_beaten(compared, state.extremes[head & ring, e], mine)
        ):
            state.heads[track, slot, e] = number
            touch(state, track, slot, EXTREME_CHANGED << e)


@inner_kernel
def leave(state: State, query_set: AggregateQueries, track: int, number: int) -> None:
    """Subtract a partial from the window of a track."""
    at = number & (state.slots.size - 1)
    slot = state.slots[at]
    touch(state, track, slot, SUMS_CHANGED)
    for column in range(state.added.shape[1]):
        state.left[track, slot, column] += state.adds[at, column]
    for e in range(query_set.signs.size):
        if state.heads[track, slot, e] == number:
            state.heads[track, slot, e] = state.younger[at, e]
            touch(state, track, slot, EXTREME_CHANGED << e)
    if state.left[track, slot, COUNT] == state.added[slot, COUNT]:
        remove_key(state, track, slot)
    state.clock[LEFT] += 1


@kernel
def leave_sums(state: State, track: int, first: int, behind: int) -> None:
    """Subtract partials without extremes from the window of a track."""
    slots, adds, added, left = state.slots, state.adds, state.added, state.left[track]
    dirty, touched, stale, ring = state.dirty[track], state.touched[track], state.stale[track], state.slots.size - 1
    for number in range(first, behind):
        later = slots[min(number + AHEAD, behind - 1) & ring]
        prefetch(left, later)
        prefetch(added, later)
        at = number & ring
        slot = slots[at]
        if not dirty[slot]:
            touched[stale] = slot
            stale += 1
        dirty[slot] |= SUMS_CHANGED
        for column in range(adds.shape[1]):
            left[slot, column] += adds[at, column]
        if left[slot, COUNT] == added[slot, COUNT]:
            remove_key(state, track, slot)
    state.stale[track] = stale
    state.clock[LEFT] += behind - first


@kernel
def leave_all(state: State, track: int) -> None:
    """Subtract everything from the window of a growing track."""
    for i in range(state.alive[track]):
        slot = state.live[track, i]
        touch(state, track, slot, EVERYTHING)
        for column in range(state.added.shape[1]):
            state.left[track, slot, column] = state.added[slot, column]
        state.place[track, slot] = NONE
    state.alive[track] = 0


@kernel
def partials_end(state: State, pane: int) -> int:
    """Return the number after the last partial of a pane."""
    if pane + 1 == state.clock[LAST_PANE]:
        return state.clock[TAIL]
    return state.firsts[(pane + 1) & (state.firsts.size - 1)]


@kernel
def leave_before(state: State, query_set: AggregateQueries, track: int, start: int) -> int:
    """Remove the panes before `start` from the window of a track. Return the first one not in memory, or NONE."""
    ring = state.lows.size - 1
    closed = state.clock[LAST_PANE] - state.clock[IS_OPEN]
    while state.gone[track] < closed and state.lows[state.gone[track] & ring] < start:
        pane = state.gone[track]
        if not state.here[pane & ring]:
            return pane
        first, behind = state.firsts[pane & ring], partials_end(state, pane)
        if query_set.signs.size == 0:
            leave_sums(state, track, first, behind)
        else:
            for number in range(first, behind):
                leave(state, query_set, track, number)
        state.gone[track] += 1
    return NONE


@kernel
def close_pane(state: State, query_set: AggregateQueries) -> None:
    """Close the newest pane: add its partials, and set `next_end` of queries that had none."""
    clock = state.clock
    low = state.lows[(clock[LAST_PANE] - 1) & (state.lows.size - 1)]
    if query_set.signs.size == 0:
        enter_sums(state, clock[OPEN_AT], clock[TAIL])
    else:
        for number in range(clock[OPEN_AT], clock[TAIL]):
            enter(state, query_set, number)
    state.newest[:] = low
    clock[IS_OPEN] = 0
    for q in range(query_set.ks.size):
        if state.next_end[q] == NEVER:
            state.next_end[q] = first_end_after(query_set, q, low)


@kernel
def release_panes(state: State, query_set: AggregateQueries) -> int:
    """Remove from each track the panes that no later window needs, and release panes that no track needs.

    Returns a pane that must be removed but is not in memory, or NONE.
    """
    clock = state.clock
    oldest = clock[LAST_PANE]
    for track in range(query_set.spans.size):
        start = NEVER
        for q in range(query_set.ks.size):
            if query_set.tracks[q] == track:
                start = min(start, start_of(query_set, q, state.next_end[q]))
        if query_set.grows[track] != NONE:
            if state.alive[track] and state.newest[0] < start:
                leave_all(state, track)
            state.gone[track] = clock[LAST_PANE] - clock[IS_OPEN]
        else:
            missing = leave_before(state, query_set, track, start)
            if missing != NONE:
                return missing
        oldest = min(oldest, state.gone[track])
    clock[FIRST_PANE] = oldest
    if oldest == clock[LAST_PANE]:
        clock[HEAD] = clock[TAIL]
    else:
        clock[HEAD] = state.firsts[oldest & (state.firsts.size - 1)]
    return NONE


@kernel
def open_pane(state: State, query_set: AggregateQueries, position: int) -> None:
    """Open the pane that contains `position`. There must be space for it."""
    clock = state.clock
    at = clock[LAST_PANE] & (state.lows.size - 1)
    end = pane_end(query_set, position)
    # Any position of a pane can stand for its start, because no bound of a window is in between.
    state.lows[at] = end - query_set.pane if query_set.cuts.size == 0 else position
    state.firsts[at] = clock[OPEN_AT] = clock[TAIL]
    state.here[at] = True
    clock[LAST_PANE] += 1
    clock[IS_OPEN] = 1
    clock[NEXT] = end


@inner_kernel
def begin_partial(state: State, slot: int) -> int:
    """Create an empty partial for the key in the open pane. There must be space for it. Return its ring index."""
    number = state.clock[TAIL]
    at = number & (state.slots.size - 1)
    state.slots[at] = slot
    for column in range(state.adds.shape[1]):
        state.adds[at, column] = 0
    for e in range(state.extremes.shape[1]):
        state.extremes[at, e] = -np.inf
    state.open[slot] = number
    state.clock[TAIL] += 1
    return at


@kernel
def mark_ladders(state: State, slots: Ints, marks: Any) -> None:
    """Mark the ring indices of all partials on the ladders of these keys."""
    ring = state.slots.size - 1
    for i in range(slots.size):
        for e in range(state.extremes.shape[1]):
            number = state.tails[slots[i], e]
            while number >= state.clock[HEAD]:
                marks[number & ring] = True
                number = state.older[number & ring, e]
