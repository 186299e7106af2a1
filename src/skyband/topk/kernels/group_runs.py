"""Many groups in one pane executor: their candidates are stored one after another and loaded group by group.

A separate executor for each group would cost about ten kilobytes and a call from Python. Here a group is a segment of
four long arrays. To process rows or answer windows, the segment is copied into the executor's standing candidates,
`advance` runs as for a single group, and the remaining candidates are appended behind the last segment. All of this is
compiled code, so a group with a few objects costs about a microsecond.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import allocating_kernel, kernel
from skyband.kernels.stream import DONE, GROUP, STATE_FULL, Answers, Floats, Ints, Queries, Rows
from skyband.topk.kernels.candidates import (
    ANSWERED,
    BLOCK,
    BLOCK_SIDE,
    NEWEST,
    NO_PANE,
    PANE_END,
    SIDE,
    STANDING,
    CandidateStore,
    PanesPlan,
    PanesScratch,
    close_pane,
    has_space,
    k_at_age,
    sweep,
)
from skyband.topk.kernels.listed import REGULAR, Lists, listed_due
from skyband.topk.kernels.minimal import live_views, needed
from skyband.topk.kernels.moments import Moments, reset
from skyband.topk.kernels.open_pane import SIZE, OpenPane
from skyband.topk.kernels.panes import advance

SEGMENTS_FULL = 3  # return status: there is no room behind the last segment

# Segments.registers
TAIL = 0  # where the last segment ends
AT = 1  # the group that is currently processed
ROW = 2  # the first of its rows that has not been processed
LOADED = 3  # 1 while that group is in the executor
REGISTERS = 4


class GroupSegments(NamedTuple):
    """The candidates of all groups, each group's best first."""

    keys: Floats
    positions: Ints
    ids: Ints
    dominated: Ints
    begins: Ints  # per group
    counts: Ints  # per group; 0: the group has no candidates
    registers: Ints


class JoinStarts(NamedTuple):
    """First window start that each query answers. Groups of a count axis can differ in it after a query has joined."""

    since: Ints  # (n, queries)
    row: Ints  # per group: its row of `since`


class ArrivedRows(NamedTuple):
    """Rows by group, in stream order inside a group."""

    keys: Floats
    positions: Ints  # empty on a count axis
    ids: Ints
    groups: Ints  # the groups to run, with rows or without
    begins: Ints  # (groups + 1): where each group's rows begin
    before: Ints  # per group: windows that end here or earlier are answered; on a count axis also its next position
    watermarks: Ints  # per group: answer windows up to here


@kernel
def load_group(
    segments: GroupSegments,
    store: CandidateStore,
    pane: OpenPane,
    moments: Moments,
    listed: Lists,
    group: int,
    answered: int,
) -> None:
    """Load a group's candidates into the executor. All windows that end at or before `answered` have been answered."""
    r, low, count = store.registers, segments.begins[group], segments.counts[group]
    newest = NO_PANE
    for i in range(count):
        store.keys[0, i] = segments.keys[low + i]
        store.positions[0, i] = segments.positions[low + i]
        store.ids[0, i] = segments.ids[low + i]
        store.dominated[0, i] = segments.dominated[low + i]
        newest = max(newest, segments.positions[low + i])
    # The newest object overall need not be a candidate, but every window that contains it also contains a candidate.
    r[STANDING], r[BLOCK], r[SIDE], r[BLOCK_SIDE] = count, 0, 0, 0
    r[NEWEST], r[PANE_END], r[ANSWERED] = newest, NO_PANE, 0
    pane.registers[:] = 0
    pane.hint[0] = np.nan
    if count:
        reset(moments, listed, answered)
    segments.counts[group] = 0


@kernel
def store_group(
    segments: GroupSegments,
    store: CandidateStore,
    pane: OpenPane,
    plan: PanesPlan,
    work: PanesScratch,
    group: int,
    watermark: int,
) -> int:
    """Append the loaded group's candidates for windows after the watermark; return a status if there is no room."""
    r = store.registers
    if not has_space(store, pane):
        return STATE_FULL
    if pane.registers[SIZE]:
        close_pane(store, pane, plan, work, watermark)
    if r[BLOCK]:
        sweep(store, plan, work, watermark)
    tail, side = segments.registers[TAIL], r[SIDE]
    if tail + r[STANDING] > segments.keys.size:
        return SEGMENTS_FULL
    at = tail
    for i in range(r[STANDING]):
        if store.dominated[side, i] < k_at_age(plan, watermark - store.positions[side, i]):
            segments.keys[at] = store.keys[side, i]
            segments.positions[at] = store.positions[side, i]
            segments.ids[at] = store.ids[side, i]
            segments.dominated[at] = store.dominated[side, i]
            at += 1
    segments.begins[group], segments.counts[group] = tail, at - tail
    segments.registers[TAIL] = at
    return DONE


@kernel
def advance_groups(
    segments: GroupSegments,
    store: CandidateStore,
    pane: OpenPane,
    queries: Queries,
    joined: JoinStarts,
    moments: Moments,
    plan: PanesPlan,
    work: PanesScratch,
    arrived: ArrivedRows,
    first: int,
    answers: Answers,
) -> int:
    """Process one group after another: add its rows and answer its windows up to its watermark."""
    s = segments.registers
    while s[AT] < arrived.groups.size:
        at = s[AT]
        group, low, high = arrived.groups[at], arrived.begins[at], arrived.begins[at + 1]
        if s[LOADED] == 0:
            load_group(segments, store, pane, moments, plan.listed, group, arrived.before[at])
            s[ROW], s[LOADED] = 0, 1
        answers.cursor[GROUP] = group
        positions = arrived.positions[low:high] if arrived.positions.size else arrived.positions[0:0]
        rows = Rows(arrived.keys[low:high], positions, arrived.ids[low:high], arrived.before[at], 0)
        mine = Queries(
            queries.ks,
            queries.sizes,
            queries.slides,
            queries.origins,
            queries.full_only,
            joined.since[joined.row[group]],
        )
        why, s[ROW] = advance(
            store, pane, mine, moments, plan, work, rows, s[ROW], arrived.watermarks[at], first, answers
        )
        if why == DONE:
            why = store_group(segments, store, pane, plan, work, group, arrived.watermarks[at])
        if why != DONE:
            return why
        s[AT], s[LOADED] = at + 1, 0
    s[AT] = 0
    return DONE


@kernel
def compact(segments: GroupSegments, into: GroupSegments) -> None:
    """Copy all segments, one group after another, to the beginning of other arrays, and update the groups' offsets."""
    tail = 0
    for group in range(segments.counts.size):
        low, count = segments.begins[group], segments.counts[group]
        for i in range(count):
            into.keys[tail + i] = segments.keys[low + i]
            into.positions[tail + i] = segments.positions[low + i]
            into.ids[tail + i] = segments.ids[low + i]
            into.dominated[tail + i] = segments.dominated[low + i]
        into.begins[group] = tail
        tail += count
    into.registers[TAIL] = tail


@kernel
def first_due(queries: Queries, listed: Lists, query: int, due: int, since: int) -> int:
    """The end of the first window of `query` that ends at `due` or later and starts at `since` or later."""
    if listed is not None and listed.of_query[query] != REGULAR:
        return listed_due(listed, listed.of_query[query], due, since)
    late, slide = since + queries.sizes[query] - due, queries.slides[query]
    return due + max(0, -(-late // slide)) * slide


@allocating_kernel
def keep_minimal(
    segments: GroupSegments,
    queries: Queries,
    joined: JoinStarts,
    moments: Moments,
    plan: PanesPlan,
    groups: Ints,
    answered: Ints,
) -> None:
    """Keep exactly the minimal candidate set of each group; its windows up to `answered` have been answered."""
    due = np.empty(queries.ks.size, np.int64)
    for at in range(groups.size):
        group = groups[at]
        low, count = segments.begins[group], segments.counts[group]
        reset(moments, plan.listed, answered[at])
        since = joined.since[joined.row[group]]
        for lattice in range(moments.due.size):
            for place in range(moments.begins[lattice], moments.begins[lattice + 1]):
                query = moments.members[place]
                due[query] = first_due(queries, plan.listed, query, moments.due[lattice], since[query])
        positions = segments.positions[low : low + count]
        newest = positions[0]
        for i in range(count):
            newest = max(newest, positions[i])
        starts, ks = live_views(queries, plan.listed, due, newest)
        kept = needed(segments.keys[low : low + count], positions, starts, ks, plan.ties)
        for i in range(kept.size):
            place = low + kept[i]
            segments.keys[low + i] = segments.keys[place]
            segments.positions[low + i] = segments.positions[place]
            segments.ids[low + i] = segments.ids[place]
            segments.dominated[low + i] = segments.dominated[place]
        segments.counts[group] = kept.size
