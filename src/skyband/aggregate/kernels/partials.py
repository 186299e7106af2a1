"""Pane partials, and what follows from them: a key's totals in every window, kept by adding and taking away.

Keys stand in *slots*. What a key has in one pane is a *partial*: a row of whole numbers that add up (how many values,
how many infinities, the limbs of their sum), and its extremes. Queries with one window size are on one *track*,
whatever their slides: the oldest pane in the window follows from the end and the size. A partial is added once for all
tracks, and taken away once for each:

```text
added[slot]          all partials that ever entered
left[track, slot]    of these, the ones that have left the track's window          in the window: added - left
```
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.aggregate.kernels.exact_sum import add_double, add_square
from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.stream import Floats, Ints

NEVER = 2**62
NONE = -1

# The columns that add up; limbs come behind: those of the sum, then those of the sum of squares, twice as many.
COUNT = 0
INFINITE = 1  # infinities, and in units of MINUS the negative ones
FIRST_LIMB = 2
MINUS = 2**32

# State.clock
HEAD = 0  # the oldest partial held, by its number
TAIL = 1  # the number that the next partial gets
OPEN_AT = 2  # the first partial of the open pane
FIRST_PANE = 3  # the oldest pane held, by its number
LAST_PANE = 4  # the number that the next pane gets
IS_OPEN = 5  # whether the newest pane still takes rows
NEXT = 6  # nothing is to be done for rows before this position
ENTERED = 7  # work so far: partials that were added,
LEFT = 8  # taken away, over all tracks,
SCORED = 9  # and keys that were scored
UNRANKABLE = 10  # keys whose aggregate was NaN
HAS_INFINITE = 11  # whether an infinity was ever among the values
CLOCK = 12


class State(NamedTuple):
    """Everything that is held. Partials and panes are numbered on and on, and stand in rings of a power of two."""

    # per slot
    added: Any  # (slots, width)
    last: Ints  # the newest position of the key
    open: Ints  # its partial in the open pane, if that is not from an older one
    tails: Any  # (slots, extremes): the youngest partial of its ladder
    # per track and slot
    left: Any  # (tracks, slots, width)
    place: Any  # (tracks, slots) int32: where the key stands in `live`, NONE if it is not in the window
    live: Any  # (tracks, slots) int32: the keys in the window
    heads: Any  # (tracks, slots, extremes): the partial that holds the extreme
    dirty: Any  # (tracks, slots) bool: whether something entered or left since the key was scored
    touched: Any  # (tracks, slots) int32: the keys that are dirty
    # per ranking and slot
    scores: Floats  # (rankings, slots): NaN where the key is not in the window, or has no score
    # per partial
    slots: Ints
    adds: Any  # (partials, width)
    extremes: Any  # (partials, extremes); higher wins
    older: Any  # (partials, extremes): ladders, see `climb`
    younger: Any
    # per pane
    lows: Ints  # where it begins
    firsts: Ints  # its first partial
    here: Any  # bool: whether its partials are in memory, not only what follows from them
    # per track
    gone: Ints  # the first pane that has not left it
    alive: Ints  # how many keys are in the window
    stale: Ints  # how many keys are dirty
    # per query
    next_end: Ints  # the next window to answer; NEVER where only rows can make one
    clock: Ints


class AggregateQueries(NamedTuple):
    """The queries, those with the same ranking side by side: the same score in the same windows, up to k."""

    rankings: Ints
    tracks: Ints
    ks: Ints
    sizes: Ints
    slides: Ints
    origins: Ints
    full_only: Ints
    since: Ints  # the smallest window start that the query answers for
    places: Ints  # in the workload
    # per ranking
    tracks_of: Ints
    whats: Ints  # what is ranked: see `key_top`
    # per track
    spans: Ints  # its window size
    # per extreme
    signs: Floats  # 1: the largest value, -1: the smallest
    pane: int
    offset: int  # where a pane begins
    low: int  # the limb that stands first
    powers: int  # of the values that are summed: 0 for none, 1 for the values, 2 for their squares too


@inner_kernel
def limbs_of(width: int, powers: int) -> int:
    """How many limbs the sum has in rows of this width."""
    return (width - FIRST_LIMB) // (2 * powers - 1)


@inner_kernel
def add_value(row: Ints, low: int, powers: int, value: float, bits: int) -> None:
    """Add a value to what adds up, where sums are asked for."""
    if not np.isfinite(value):
        row[INFINITE] += 1 if value > 0 else MINUS
        return
    add_double(row, FIRST_LIMB, low, bits)
    if powers > 1:
        add_square(row, FIRST_LIMB + limbs_of(row.size, powers), 2 * low, bits)


@kernel
def first_end_after(asked: AggregateQueries, q: int, position: int) -> int:
    """The end of the oldest window of query `q` that holds `position`."""
    slide, origin = asked.slides[q], asked.origins[q]
    return origin + ((position - origin) // slide + 1) * slide


@kernel
def enter(state: State, asked: AggregateQueries, number: int) -> None:
    """Let a partial into the windows of all tracks."""
    at = number & (state.slots.size - 1)
    slot = state.slots[at]
    for column in range(state.added.shape[1]):
        state.added[slot, column] += state.adds[at, column]
    for track in range(asked.spans.size):
        touch(state, track, slot)
        if state.place[track, slot] == NONE:
            state.place[track, slot] = state.alive[track]
            state.live[track, state.alive[track]] = slot
            state.alive[track] += 1
    for e in range(asked.signs.size):
        climb(state, asked, slot, number, e)
    state.clock[ENTERED] += 1


@inner_kernel
def touch(state: State, track: int, slot: int) -> None:
    """Note that a key must be scored again."""
    if not state.dirty[track, slot]:
        state.dirty[track, slot] = True
        state.touched[track, state.stale[track]] = slot
        state.stale[track] += 1


@kernel
def climb(state: State, asked: AggregateQueries, slot: int, number: int, e: int) -> None:
    """Put a partial on the ladder of its key.

    A ladder holds the partials that no younger one beats, so that extremes fall from the oldest to the youngest. A
    window's extreme is the oldest of them inside it: `heads` has it for each track. So a partial is put on once, taken
    off once, and passed once by each track.
    """
    ring = state.slots.size - 1
    mine = state.extremes[number & ring, e]
    below = state.tails[slot, e]
    while below >= state.clock[HEAD] and state.extremes[below & ring, e] <= mine:
        below = state.older[below & ring, e]
    state.older[number & ring, e] = below
    state.younger[number & ring, e] = NONE
    if below >= state.clock[HEAD]:
        state.younger[below & ring, e] = number
    state.tails[slot, e] = number
    for track in range(asked.spans.size):
        head = state.heads[track, slot, e]
        if head == NONE or state.extremes[head & ring, e] <= mine:
            state.heads[track, slot, e] = number


@kernel
def leave(state: State, asked: AggregateQueries, track: int, number: int) -> None:
    """Take a partial out of the window of a track."""
    at = number & (state.slots.size - 1)
    slot = state.slots[at]
    touch(state, track, slot)
    for column in range(state.added.shape[1]):
        state.left[track, slot, column] += state.adds[at, column]
    for e in range(asked.signs.size):
        if state.heads[track, slot, e] == number:
            state.heads[track, slot, e] = state.younger[at, e]
    if state.left[track, slot, COUNT] == state.added[slot, COUNT]:
        state.alive[track] -= 1
        other, hole = state.live[track, state.alive[track]], state.place[track, slot]
        state.live[track, hole], state.place[track, other] = other, hole
        state.place[track, slot] = NONE
    state.clock[LEFT] += 1


@kernel
def partials_end(state: State, pane: int) -> int:
    """The number behind the last partial of a pane."""
    if pane + 1 == state.clock[LAST_PANE]:
        return state.clock[TAIL]
    return state.firsts[(pane + 1) & (state.firsts.size - 1)]


@kernel
def leave_before(state: State, asked: AggregateQueries, track: int, start: int) -> int:
    """Take the panes before `start` out of the window of a track; return one that is not in memory, if one is not."""
    ring = state.lows.size - 1
    closed = state.clock[LAST_PANE] - state.clock[IS_OPEN]
    while state.gone[track] < closed and state.lows[state.gone[track] & ring] < start:
        pane = state.gone[track]
        if not state.here[pane & ring]:
            return pane
        for number in range(state.firsts[pane & ring], partials_end(state, pane)):
            leave(state, asked, track, number)
        state.gone[track] += 1
    return NONE


@kernel
def close_pane(state: State, asked: AggregateQueries) -> None:
    """The newest pane is complete: let its partials in, and say which windows end next for queries that had none."""
    clock = state.clock
    low = state.lows[(clock[LAST_PANE] - 1) & (state.lows.size - 1)]
    for number in range(clock[OPEN_AT], clock[TAIL]):
        enter(state, asked, number)
    clock[IS_OPEN] = 0
    for q in range(asked.ks.size):
        if state.next_end[q] == NEVER:
            state.next_end[q] = first_end_after(asked, q, low)


@kernel
def let_go(state: State, asked: AggregateQueries) -> int:
    """Take out of each track what none of its windows to come needs, and forget the panes that no track has.

    Returns a pane that should leave and is not in memory, NONE if there is no such pane.
    """
    clock = state.clock
    oldest = clock[LAST_PANE]
    for track in range(asked.spans.size):
        start = NEVER
        for q in range(asked.ks.size):
            if asked.tracks[q] == track:
                start = min(start, state.next_end[q] - asked.sizes[q])
        missing = leave_before(state, asked, track, start)
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
def open_pane(state: State, asked: AggregateQueries, position: int) -> None:
    """Begin the pane around `position`; there is room for it."""
    clock = state.clock
    at = clock[LAST_PANE] & (state.lows.size - 1)
    state.lows[at] = position - (position - asked.offset) % asked.pane
    state.firsts[at] = clock[OPEN_AT] = clock[TAIL]
    state.here[at] = True
    clock[LAST_PANE] += 1
    clock[IS_OPEN] = 1
    clock[NEXT] = state.lows[at] + asked.pane


@kernel
def begin_partial(state: State, slot: int) -> int:
    """An empty partial for the key in the open pane; there is room for it. Returns where it stands."""
    number = state.clock[TAIL]
    at = number & (state.slots.size - 1)
    state.slots[at] = slot
    state.adds[at, :] = 0
    for e in range(state.extremes.shape[1]):
        state.extremes[at, e] = -np.inf
    state.open[slot] = number
    state.clock[TAIL] += 1
    return at


@kernel
def mark_ladders(state: State, slots: Ints, marks: Any) -> None:
    """Mark the places in the ring of all partials that stand on the ladders of these keys."""
    ring = state.slots.size - 1
    for i in range(slots.size):
        for e in range(state.extremes.shape[1]):
            number = state.tails[slots[i], e]
            while number >= state.clock[HEAD]:
                marks[number & ring] = True
                number = state.older[number & ring, e]
