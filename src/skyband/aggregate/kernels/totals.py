"""Aggregate ranking: process rows or partials and write an answer at each window end."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.aggregate.kernels.items import Items, score_keys, sort_keys_by_group
from skyband.aggregate.kernels.key_scores import EXTREME, KeyScratch, count_unrankable, score_again
from skyband.aggregate.kernels.key_top import (
    best_of_all,
    best_of_group,
    count_from,
    sort_by_group,
    sum_by_group,
    tied_end,
)
from skyband.aggregate.kernels.partials import (
    AHEAD,
    COUNT,
    FIRST_PANE,
    HAS_INFINITE,
    HEAD,
    INFINITE,
    IS_OPEN,
    LAST_PANE,
    NEVER,
    NEXT,
    NONE,
    OPEN_AT,
    TAIL,
    UNRANKABLE,
    AggregateQueries,
    State,
    add_value,
    begin_partial,
    close_pane,
    is_better,
    open_pane,
    release_panes,
)
from skyband.aggregate.kernels.window_ends import first_end_after, is_outside, start_of
from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels._prefetch import prefetch
from skyband.kernels.keys import Keys
from skyband.kernels.stream import ANSWERS_FULL, DONE, ROWS, STATE_FULL, WINDOWS, Floats, Ints

# Progress
TAKEN = 0  # rows processed so far
WANTED = 1  # number of answer rows or partials that need space, the pane that must be in memory, or the position
#             in the page; 0 partials if a pane needs space

# TotalAnswers.more: additional columns of an answer
LAST = 0  # position at which the key was seen last
ROW = 1  # id of the row with the score, or its number; NONE if the score is not that of a row
MORE = ("last", "row")  # names of these columns; users see those in the family's AnswerSchema

RUN = 1 << 16  # rows that are sorted together
LONG_RUN = 1 << 12  # fewer rows are not sorted
FEW_SLOTS = 1 << 15  # their totals are in the cache
BUCKETS = 2048

PANE_MISSING = 3  # return code: a pane must be removed, but its partials are not in memory
PAGE_MISSING = 4  # return code: the page of irregular windows must contain a position


class KeyArrivals(NamedTuple):
    """Rows in stream order."""

    slots: Ints
    positions: Ints  # empty: the position of row i is first_position + i
    values: Floats  # empty if all queries only count
    bits: Ints  # the same memory as int64
    ids: Ints  # empty if not identified
    first_position: int


class Partials(NamedTuple):
    """Partials sorted by pane. Several partials of a key in one pane are added."""

    slots: Ints
    positions: Ints  # of the newest row
    lows: Ints  # start of the pane
    adds: Any  # (partials, width)
    extremes: Any  # (partials, extremes)
    ats: Any  # (partials, extremes); without columns if not identified
    ids: Any


class TotalAnswers(NamedTuple):
    """Flat output buffers: windows in order, best key first."""

    queries: Ints  # per window: index of the query in the workload
    groups: Ints  # per window
    ends: Ints  # per window
    stops: Ints  # per window: end of its rows
    scores: Floats  # per row; negated if lower scores rank first
    slots: Ints  # per row
    more: Any  # (MORE, rows)
    held: Any  # (rows, width): the additive columns of the key, if a query needs totals
    cursor: Ints  # WINDOWS and ROWS written so far


@kernel
def answer(
    state: State,
    query_set: AggregateQueries,
    keys: Keys,
    room: KeyScratch,
    items: Items | None,
    out: TotalAnswers,
    end: int,
    first: int,
) -> None:
    """Answer all windows that end at `end`. There must be space for them. Partials are those of `items`, if any."""
    q, queries = 0, query_set.ks.size
    while q < queries:
        # Queries of one ranking differ only in k: compute the largest k, the others are prefixes of it.
        ranking, track, behind, k, totals = query_set.rankings[q], query_set.tracks[q], q, 0, 0
        tied = 0  # the largest k of queries that share ranks
        while behind < queries and query_set.rankings[behind] == ranking:
            if is_due(state, query_set, behind, end, first):
                k = max(k, query_set.ks[behind])
                totals |= query_set.totals[behind]
                if query_set.ties[behind]:
                    tied = max(tied, query_set.ks[behind])
            behind += 1
        if k > 0:
            if items is None:
                score_again(state, query_set, track, room)
                scores, last = state.scores[ranking], state.last
                if state.clock[HAS_INFINITE]:
                    state.clock[UNRANKABLE] += count_unrankable(state, query_set, ranking, room)
                if totals:
                    sum_by_group(state, keys, track, room)
                if room.begins.size > 1:
                    sort_by_group(state, keys, track, scores, room)
            else:
                score_keys(state, query_set, track, items)
                scores, last = items.scores[ranking], items.last
                if room.begins.size > 1:
                    sort_keys_by_group(keys.groups, scores, room.begins, room.sorted)
            for group in range(room.begins.size):
                found = best(last, keys, scores, room, group, k)
                if 0 < tied <= found:
                    more = count_from(scores, scores[room.heap[tied - 1]], room, group)
                    if more > found:  # keys beyond the k-th have its score
                        found = best(last, keys, scores, room, group, more)
                for mine in range(q, behind):
                    # Another shard may have the keys that are ranked.
                    wanted = found or (query_set.totals[mine] and room.sums[group, COUNT])
                    if wanted and is_due(state, query_set, mine, end, first):
                        rows = min(found, query_set.ks[mine])
                        if query_set.ties[mine]:
                            rows = tied_end(scores, room.heap, found, rows)
                        write(state, query_set, room, scores, last, out, mine, group, end, rows)
        q = behind


@inner_kernel
def best(last: Ints, keys: Keys, scores: Floats, room: KeyScratch, group: int, k: int) -> int:
    """Write the k best keys of a group to the heap, best first. Return their number."""
    if room.begins.size > 1:
        return int(best_of_group(last, keys, scores, room, group, k))
    return int(best_of_all(last, keys, scores, room.heap, k))


@kernel
def is_due(state: State, query_set: AggregateQueries, q: int, end: int, first: int) -> bool:
    """Return whether query `q` reports the window that ends at `end`."""
    if state.next_end[q] != end:
        return False
    start = start_of(query_set, q, end)
    return start >= query_set.since[q] and (query_set.full_only[q] == 0 or start >= first)


@kernel
def write(
    state: State,
    query_set: AggregateQueries,
    room: KeyScratch,
    scores: Floats,
    last: Ints,
    out: TotalAnswers,
    q: int,
    group: int,
    end: int,
    rows: int,
) -> None:
    """Write the answer of one window of query `q`: the first `rows` keys of the heap, then the sums of all."""
    window, row = out.cursor[WINDOWS], out.cursor[ROWS]
    e = query_set.whats[query_set.rankings[q]] - EXTREME
    for i in range(rows):
        slot = room.heap[i]
        out.slots[row + i] = slot
        out.scores[row + i] = scores[slot]
        out.more[LAST, row + i] = last[slot]
        out.more[ROW, row + i] = NONE
        if query_set.identified and e >= 0:
            g = query_set.grows[query_set.tracks[q]]
            head = state.heads[query_set.tracks[q], slot, e] & (state.slots.size - 1)
            out.more[ROW, row + i] = state.ids[head, e] if g == NONE else state.peak_ids[g, slot, e]
    if query_set.totals[q]:
        for i in range(rows):
            slot = room.heap[i]
            for column in range(out.held.shape[1]):
                out.held[row + i, column] = state.added[slot, column] - state.left[query_set.tracks[q], slot, column]
        for column in range(out.held.shape[1]):
            out.held[row + rows, column] = room.sums[group, column]
        out.slots[row + rows], out.scores[row + rows] = NONE, np.nan
        out.more[LAST, row + rows] = out.more[ROW, row + rows] = NONE
        rows += 1
    out.queries[window], out.groups[window], out.ends[window] = query_set.places[q], group, end
    out.stops[window] = row + rows
    out.cursor[WINDOWS], out.cursor[ROWS] = window + 1, row + rows


@kernel
def advance(
    state: State,
    query_set: AggregateQueries,
    keys: Keys,
    room: KeyScratch,
    items: Items | None,
    out: TotalAnswers,
    progress: Ints,
    to: int,
    first: int,
) -> int:
    """Advance time to `to`: close the open pane if it ends by then, and answer the windows that end by then."""
    clock, ring = state.clock, state.lows.size - 1
    if clock[IS_OPEN] and to >= clock[NEXT]:
        low = state.lows[(clock[LAST_PANE] - 1) & ring]
        if is_outside(query_set, low):
            progress[WANTED] = low
            return PAGE_MISSING
        close_pane(state, query_set)
    while True:
        end = NEVER
        for q in range(query_set.ks.size):
            end = min(end, state.next_end[q])
        if end < NEVER and (is_outside(query_set, end - 1) or is_outside(query_set, end)):
            progress[WANTED] = end - 1
            return PAGE_MISSING
        # Remove the panes that the next windows do not contain before answering them.
        missing = release_panes(state, query_set)
        if missing != NONE:
            progress[WANTED] = missing
            return PANE_MISSING
        if end > to or end == NEVER:
            break
        rows, windows = 0, 0
        for q in range(query_set.ks.size):
            if state.next_end[q] == end:
                alive = state.alive[query_set.tracks[q]]
                rows += alive if query_set.ties[q] else min(alive, query_set.ks[q] * room.begins.size)
                windows += min(alive, room.begins.size)
                if query_set.totals[q]:
                    rows += min(alive, room.begins.size)
        if out.cursor[ROWS] + rows > out.scores.size or out.cursor[WINDOWS] + windows > out.ends.size:
            progress[WANTED] = max(rows, windows)
            return ANSWERS_FULL
        answer(state, query_set, keys, room, items, out, end, first)
        newest = state.lows[(clock[LAST_PANE] - 1 - clock[IS_OPEN]) & ring]
        if state.newest.size:  # panes of growing windows are not stored
            newest = state.newest[0]
        for q in range(query_set.ks.size):
            if state.next_end[q] == end:
                state.next_end[q] = first_end_after(query_set, q, end)
                if newest < start_of(query_set, q, state.next_end[q]):
                    state.next_end[q] = NEVER  # later windows are empty until more rows arrive
    if not clock[IS_OPEN]:
        clock[NEXT] = end
    return DONE


@inner_kernel
def free_partials(state: State) -> int:
    """Return the number of partials that there is space for."""
    return int(state.slots.size - (state.clock[TAIL] - state.clock[HEAD]))


@kernel
def sort_by_slot(slots: Ints, low: int, high: int, shift: int, room: KeyScratch) -> None:
    """Write the rows from `low` to `high` to ``sorted``, by the highest bits of their slots.

    Keys are in the order of memory then, but for those that share a bucket. Rows of a key keep their order.
    """
    begins = room.buckets
    begins[:] = 0
    for row in range(low, high):
        begins[slots[row] >> shift] += 1
    found = 0
    for bucket in range(begins.size):
        found, begins[bucket] = found + begins[bucket], found
    for row in range(low, high):
        bucket = slots[row] >> shift
        room.sorted[begins[bucket]] = row
        begins[bucket] += 1


@inner_kernel
def bucket_shift(slots: int) -> int:
    """Return how far slots are shifted to give a bucket; 0 for few slots, whose order does not matter."""
    if slots <= FEW_SLOTS:
        return 0
    shift = 1
    while (slots - 1) >> shift >= BUCKETS:
        shift += 1
    return shift


@inner_kernel
def reach(
    state: State,
    query_set: AggregateQueries,
    keys: Keys,
    room: KeyScratch,
    items: Items | None,
    out: TotalAnswers,
    progress: Ints,
    position: int,
    first: int,
) -> int:
    """Advance time to `position`, and open the pane that contains it unless it is open."""
    clock = state.clock
    if position >= clock[NEXT]:
        reason = advance(state, query_set, keys, room, items, out, progress, position, first)
        if reason != DONE:
            return int(reason)
    if clock[IS_OPEN] == 0:
        if clock[LAST_PANE] - clock[FIRST_PANE] == state.lows.size:
            progress[WANTED] = 0
            return STATE_FULL
        if is_outside(query_set, position):
            progress[WANTED] = position
            return PAGE_MISSING
        open_pane(state, query_set, position)
    return DONE


@kernel
def take_rows(
    state: State,
    query_set: AggregateQueries,
    keys: Keys,
    room: KeyScratch,
    items: Items | None,
    rows: KeyArrivals,
    out: TotalAnswers,
    progress: Ints,
    first: int,
) -> int:
    """Process rows and answer every window that ends at or before the position of a row."""
    clock = state.clock
    begin, shift = progress[TAKEN], bucket_shift(state.last.size)
    while begin < rows.slots.size:
        progress[TAKEN] = begin
        position = rows.positions[begin] if rows.positions.size else rows.first_position + begin
        reason = reach(state, query_set, keys, room, items, out, progress, position, first)
        if reason != DONE:
            return reason
        end, stop = begin + 1, min(begin + RUN, rows.slots.size)
        if rows.positions.size:
            while end < stop and rows.positions[end] < clock[NEXT]:
                end += 1
        else:
            end = min(stop, clock[NEXT] - rows.first_position)
        if free_partials(state) < end - begin:
            progress[WANTED] = end - begin
            return STATE_FULL
        is_sorted = shift and end - begin >= LONG_RUN
        if is_sorted:
            sort_by_slot(rows.slots, begin, end, shift, room)
        for i in range(end - begin):
            if is_sorted:
                later = rows.slots[room.sorted[min(i + AHEAD, end - begin - 1)]]
                prefetch(state.open, later)
                prefetch(state.last, later)
            row = room.sorted[i] if is_sorted else begin + i
            slot = rows.slots[row]
            if state.open[slot] >= clock[OPEN_AT]:
                at = state.open[slot] & (state.slots.size - 1)
            else:
                at = begin_partial(state, slot)
            position = rows.positions[row] if rows.positions.size else rows.first_position + row
            state.last[slot] = position
            state.adds[at, COUNT] += 1
            if rows.values.size:
                if query_set.identified:
                    identify(state, query_set, at, rows.values[row], position, rows.ids[row])
                take_value(state, query_set, at, rows.values[row], rows.bits[row])
        begin = end
    progress[TAKEN] = rows.slots.size
    return DONE


@inner_kernel
def identify(state: State, query_set: AggregateQueries, at: int, value: float, position: int, name: int) -> None:
    """Make a row the extreme of a partial where it is the best so far. The partial's count includes the row."""
    for e in range(query_set.signs.size):
        signed = query_set.signs[e] * value
        if state.adds[at, COUNT] == 1 or is_better(
            query_set.compared[e], signed, position, name, state.extremes[at, e], state.ats[at, e], state.ids[at, e]
        ):
            state.extremes[at, e], state.ats[at, e], state.ids[at, e] = signed, position, name


@inner_kernel
def take_value(state: State, query_set: AggregateQueries, at: int, value: float, bits: int) -> None:
    """Add a value to a partial."""
    if not query_set.identified:
        for e in range(query_set.signs.size):
            state.extremes[at, e] = max(state.extremes[at, e], query_set.signs[e] * value)
    if query_set.powers:
        add_value(state.adds[at], query_set.low, query_set.powers, value, bits)
        if np.isinf(value):
            state.clock[HAS_INFINITE] = 1


@kernel
def take_partials(
    state: State,
    query_set: AggregateQueries,
    keys: Keys,
    room: KeyScratch,
    items: Items | None,
    rows: Partials,
    out: TotalAnswers,
    progress: Ints,
    first: int,
) -> int:
    """Process partials of complete panes and answer the windows that end between them."""
    clock = state.clock
    begin, shift = progress[TAKEN], bucket_shift(state.last.size)
    while begin < rows.slots.size:
        progress[TAKEN] = begin
        reason = reach(state, query_set, keys, room, items, out, progress, rows.lows[begin], first)
        if reason != DONE:
            return reason
        end, stop = begin + 1, min(begin + RUN, rows.slots.size)
        while end < stop and rows.lows[end] < clock[NEXT]:
            end += 1
        if free_partials(state) < end - begin:
            progress[WANTED] = end - begin
            return STATE_FULL
        is_sorted = shift and end - begin >= LONG_RUN
        if is_sorted:
            sort_by_slot(rows.slots, begin, end, shift, room)
        for i in range(end - begin):
            take_partial(state, query_set, rows, room.sorted[i] if is_sorted else begin + i)
        begin = end
    progress[TAKEN] = rows.slots.size
    return DONE


@inner_kernel
def take_partial(state: State, query_set: AggregateQueries, rows: Partials, i: int) -> None:
    """Add a partial to that of its key in the open pane."""
    slot = rows.slots[i]
    if state.open[slot] >= state.clock[OPEN_AT]:
        at = state.open[slot] & (state.slots.size - 1)
    else:
        at = begin_partial(state, slot)
    state.last[slot] = max(state.last[slot], rows.positions[i])
    is_first = state.adds[at, COUNT] == 0
    for column in range(state.adds.shape[1]):
        state.adds[at, column] += rows.adds[i, column]
    if query_set.powers and rows.adds[i, INFINITE]:
        state.clock[HAS_INFINITE] = 1
    for e in range(query_set.signs.size):
        if not query_set.identified:
            state.extremes[at, e] = max(state.extremes[at, e], rows.extremes[i, e])
        elif is_first or is_better(
            query_set.compared[e],
            rows.extremes[i, e],
            rows.ats[i, e],
            rows.ids[i, e],
            state.extremes[at, e],
            state.ats[at, e],
            state.ids[at, e],
        ):
            state.extremes[at, e] = rows.extremes[i, e]
            state.ats[at, e], state.ids[at, e] = rows.ats[i, e], rows.ids[i, e]
