"""All tuples of a window, their objects, one sorted list per stream, and a view of the best objects.

Tuples are numbered in order of arrival and stored in a ring. Those of one object in one stream are linked, so that
their values can be summed again in order of arrival when the first of them leaves. Objects have slots, found by
hashing, with one value per stream: a random access is one array access. The view contains the best objects. No object
outside the view ranks before its floor. The threshold algorithm rebuilds the view only when an answer needs more
objects than it contains.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.incomplete.kernels.attributes import Scoring, score_of
from skyband.incomplete.kernels.instances import InstanceAnswers
from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.lookup import EMPTY, Lookup, drop, place_of, put
from skyband.kernels.skiplist import SkipList, insert, remove
from skyband.kernels.stream import ANSWERS_FULL, DONE, STATE_FULL, Floats, Ints

NONE = -1
NO_NODE = 0  # slot 0 of the lists is a head, so no object is there
NEVER = np.iinfo(np.int64).min

# Registers
HEAD = 0  # number of the oldest tuple held
TAIL = 1  # number of the next tuple
UNUSED = 2  # first free object slot, linked by ListedObjects.touches
OBJECTS = 3
VIEW = 4  # number of objects in the view
NEXT = 5  # number of the next window: it ends at origin + NEXT * every
RUN = 6  # number of the current run of the threshold algorithm; marks visited objects
RECOMPUTED = 7
SORTED = 8  # sorted accesses
RANDOM = 9  # random accesses
REPEATED = 10  # dropped tuples of objects that their stream has reported, if it is declared to report them once
REGISTERS = 11


class ListQuery(NamedTuple):
    """A query in the form of these kernels, see `skyband.incomplete.engine.IncompleteShape`."""

    k: int
    size: int
    every: int
    origin: int
    scoring: Scoring
    lows: Floats
    once: bool
    ties: bool


class TupleRing(NamedTuple):
    """The ring of all valid tuples: tuple n is at index n modulo the length."""

    positions: Ints
    owners: Ints  # slot of the object
    streams: Ints
    values: Floats
    following: Ints  # number of the object's next tuple in the same stream


class ListedObjects(NamedTuple):
    """Slots of objects with at least one valid tuple."""

    keys: Ints
    touches: Ints  # number of the newest tuple; for free slots, the next free slot
    scores: Floats
    tuples: Ints  # number of valid tuples
    met: Ints  # last run of the threshold algorithm that visited it
    viewed: Ints  # 1: in the view
    values: Floats  # (slots, streams): sum of the valid tuples, or the lower bound if there are none
    nodes: Ints  # (slots, streams): node in the sorted list, or NO_NODE
    firsts: Ints  # (slots, streams): number of the oldest valid tuple
    newest: Ints  # (slots, streams): number of the newest valid tuple


class BestView(NamedTuple):
    """The best objects, best first, and the floor: no object outside the view ranks before it."""

    slots: Ints  # capacity plus one
    floor: Floats  # score of the floor
    floor_touch: Ints  # number of its newest tuple, which breaks ties


class Lists(NamedTuple):
    """State of the engine."""

    tuples: TupleRing
    objects: ListedObjects
    lookup: Lookup  # slots of objects by key
    chain: SkipList  # one list per stream; the head of stream s is node s
    ranked: BestView
    cursors: Ints  # per list: position of the threshold algorithm
    highest: Floats  # per list: upper bound of the values not read yet
    registers: Ints


@inner_kernel
def ahead(objects: ListedObjects, a: int, b: int) -> bool:
    """Return whether the object in slot a ranks before the one in slot b: higher score, then seen later."""
    if objects.scores[a] != objects.scores[b]:
        return objects.scores[a] > objects.scores[b]
    return objects.touches[a] > objects.touches[b]


@kernel
def rank_in_view(lists: Lists, slot: int) -> int:
    """Return the number of objects in the view that rank before this one."""
    low, high = 0, lists.registers[VIEW]
    while low < high:
        middle = (low + high) // 2
        if ahead(lists.objects, lists.ranked.slots[middle], slot):
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def leave_view(lists: Lists, slot: int) -> None:
    """Remove an object from the view, if present. Must be called before its score changes."""
    if not lists.objects.viewed[slot]:
        return
    lists.objects.viewed[slot] = 0
    slots, size = lists.ranked.slots, lists.registers[VIEW] - 1
    for at in range(rank_in_view(lists, slot), size):
        slots[at] = slots[at + 1]
    lists.registers[VIEW] = size


@kernel
def enter_view(lists: Lists, slot: int) -> None:
    """Insert an object into the view unless it ranks below the floor.

    If the view is full, the evicted object becomes the floor.
    """
    objects, view, size = lists.objects, lists.ranked, lists.registers[VIEW]
    if objects.scores[slot] < view.floor[0]:
        return
    if objects.scores[slot] == view.floor[0] and objects.touches[slot] < view.floor_touch[0]:
        return
    rank = rank_in_view(lists, slot)
    for at in range(size, rank, -1):
        view.slots[at] = view.slots[at - 1]
    view.slots[rank] = slot
    objects.viewed[slot] = 1
    if size + 1 < view.slots.size:
        lists.registers[VIEW] = size + 1
        return
    worst = view.slots[size]
    objects.viewed[worst] = 0
    set_floor(lists, worst)


@kernel
def set_floor(lists: Lists, slot: int) -> None:
    """Set the floor to this object: no object outside the view ranks before it."""
    lists.ranked.floor[0] = lists.objects.scores[slot]
    lists.ranked.floor_touch[0] = lists.objects.touches[slot]


@kernel
def clear_floor(lists: Lists) -> None:
    """Clear the floor: no object is outside the view."""
    lists.ranked.floor[0] = -np.inf
    lists.ranked.floor_touch[0] = NONE


@kernel
def rescore(lists: Lists, query: ListQuery, slot: int) -> None:
    """Rescore an object whose values changed and that is not in the view. Insert it into the view if it qualifies."""
    lists.objects.scores[slot] = score_of(lists.objects.values[slot], query.scoring, False)
    enter_view(lists, slot)


@kernel
def list_value(lists: Lists, slot: int, stream: int, value: float) -> None:
    """Set the value of an object in a stream and move it to its position in the sorted list."""
    objects = lists.objects
    if objects.nodes[slot, stream] != NO_NODE:
        remove(lists.chain, objects.nodes[slot, stream], stream)
    objects.values[slot, stream] = value
    objects.nodes[slot, stream] = insert(lists.chain, value, 0, slot, stream)


@kernel
def expire(lists: Lists, query: ListQuery, start: int) -> None:
    """Remove all tuples before `start`."""
    tuples, objects, registers = lists.tuples, lists.objects, lists.registers
    room = tuples.positions.size
    while registers[HEAD] < registers[TAIL] and tuples.positions[registers[HEAD] % room] < start:
        at = registers[HEAD] % room
        slot, stream = tuples.owners[at], tuples.streams[at]
        leave_view(lists, slot)
        if objects.newest[slot, stream] == registers[HEAD]:
            remove(lists.chain, objects.nodes[slot, stream], stream)
            objects.nodes[slot, stream] = NO_NODE
            objects.values[slot, stream] = query.lows[stream]
        else:
            number = tuples.following[at]
            objects.firsts[slot, stream] = number
            value = tuples.values[number % room]
            while number != objects.newest[slot, stream]:
                number = tuples.following[number % room]
                value += tuples.values[number % room]
            list_value(lists, slot, stream, value)
        registers[HEAD] += 1
        objects.tuples[slot] -= 1
        if objects.tuples[slot]:
            rescore(lists, query, slot)
        else:
            drop(lists.lookup, place_of(lists.lookup, objects.keys[slot], 0))
            objects.touches[slot] = registers[UNUSED]
            registers[UNUSED] = slot
            registers[OBJECTS] -= 1


@inner_kernel
def slot_for(lists: Lists, query: ListQuery, key: int) -> int:
    """Return the slot of an object. Allocate one if it has no valid tuple."""
    at = place_of(lists.lookup, key, 0)
    if lists.lookup.found[at] != EMPTY:
        return lists.lookup.found[at]
    objects, slot = lists.objects, lists.registers[UNUSED]
    lists.registers[UNUSED] = objects.touches[slot]
    lists.registers[OBJECTS] += 1
    put(lists.lookup, at, key, 0, slot)
    objects.keys[slot], objects.tuples[slot] = key, 0
    for stream in range(query.lows.size):
        objects.values[slot, stream] = query.lows[stream]
    objects.nodes[slot] = NO_NODE
    return slot


@kernel
def take_in(lists: Lists, query: ListQuery, position: int, key: int, stream: int, given: float) -> None:
    """Process one tuple. There must be space for it."""
    tuples, objects, registers = lists.tuples, lists.objects, lists.registers
    room = tuples.positions.size
    slot = slot_for(lists, query, key)
    if query.once and objects.nodes[slot, stream] != NO_NODE:
        registers[REPEATED] += 1
        return
    leave_view(lists, slot)
    number = registers[TAIL]
    registers[TAIL] += 1
    here = number % room
    tuples.positions[here], tuples.owners[here] = position, slot
    tuples.streams[here], tuples.values[here] = stream, given
    value = given
    if objects.nodes[slot, stream] == NO_NODE:
        objects.firsts[slot, stream] = number
    else:
        tuples.following[objects.newest[slot, stream] % room] = number
        value = objects.values[slot, stream] + given
    objects.newest[slot, stream] = number
    objects.touches[slot] = number
    objects.tuples[slot] += 1
    list_value(lists, slot, stream, value)
    rescore(lists, query, slot)


@kernel
def rebuild_view(lists: Lists, query: ListQuery) -> None:
    """Rebuild the view with the best objects, using the threshold algorithm.

    The lists are read in parallel, from their highest values down. Each object found in one list is scored by random
    access to the others. An object that was not found scores at most the aggregate of the values read last. If its
    score is equal to the last in the view, reading continues, because the object may have been seen later.
    """
    objects, registers, chain = lists.objects, lists.registers, lists.chain
    d, most = lists.cursors.size, lists.ranked.slots.size - 1
    registers[RUN] += 1
    registers[RECOMPUTED] += 1
    for at in range(registers[VIEW]):
        objects.viewed[lists.ranked.slots[at]] = 0
    registers[VIEW] = 0
    clear_floor(lists)
    for stream in range(d):
        lists.cursors[stream] = stream
        lists.highest[stream] = np.inf
    met = 0
    while met < registers[OBJECTS]:
        for stream in range(d):
            node = chain.links[0, lists.cursors[stream]] if lists.cursors[stream] != NONE else NO_NODE
            if node == NO_NODE:
                lists.cursors[stream] = NONE
                lists.highest[stream] = query.lows[stream]
                continue
            lists.cursors[stream] = node
            # Objects without a tuple in the stream have the lower bound, and sums of negative values may be below it.
            lists.highest[stream] = max(chain.keys[node], query.lows[stream])
            registers[SORTED] += 1
            slot = chain.ids[node]
            if objects.met[slot] != registers[RUN]:
                objects.met[slot] = registers[RUN]
                met += 1
                registers[RANDOM] += d - 1
                enter_view(lists, slot)
        if registers[VIEW] == most:
            worst = objects.scores[lists.ranked.slots[most - 1]]
            if worst > score_of(lists.highest, query.scoring, True):
                break
    if registers[VIEW] < registers[OBJECTS]:
        set_floor(lists, lists.ranked.slots[registers[VIEW] - 1])


@kernel
def add_ties(lists: Lists, found: InstanceAnswers, at: int, count: int) -> int:
    """Replace the objects with the score of the last by all objects with this score; return the number of rows."""
    objects, tuples = lists.objects, lists.tuples
    least = objects.scores[lists.ranked.slots[count - 1]]
    begin = 0
    while objects.scores[lists.ranked.slots[begin]] > least:
        begin += 1
    rows = begin
    for slot in range(objects.keys.size):
        if objects.tuples[slot] == 0 or objects.scores[slot] != least:
            continue
        row = rows
        while row > begin and found.lasts[at + row - 1] < objects.touches[slot]:
            found.objects[at + row] = found.objects[at + row - 1]
            found.lasts[at + row] = found.lasts[at + row - 1]
            row -= 1
        found.objects[at + row] = objects.keys[slot]
        found.lasts[at + row] = objects.touches[slot]
        rows += 1
    for row in range(begin, rows):
        found.scores[at + row] = least + 0.0
        found.lasts[at + row] = tuples.positions[found.lasts[at + row] % tuples.positions.size]
    return rows


@kernel
def answer(lists: Lists, query: ListQuery, found: InstanceAnswers, end: int) -> None:
    """Write the best objects of the window that ends at `end`. Older tuples must have been removed."""
    count = min(query.k, lists.registers[OBJECTS])
    if lists.registers[VIEW] < count:
        rebuild_view(lists, query)
    windows, at = found.cursor[0], found.cursor[1]
    found.asks[windows], found.ends[windows], found.counts[windows] = 0, end, count
    for rank in range(count):
        slot = lists.ranked.slots[rank]
        found.objects[at + rank] = lists.objects.keys[slot]
        found.scores[at + rank] = lists.objects.scores[slot] + 0.0
        found.lasts[at + rank] = lists.tuples.positions[lists.objects.touches[slot] % lists.tuples.positions.size]
    if query.ties and count:
        count = add_ties(lists, found, at, count)
        found.counts[windows] = count
    found.cursor[0] += 1
    found.cursor[1] += count


@kernel
def answer_until(lists: Lists, query: ListQuery, found: InstanceAnswers, position: int) -> bool:
    """Answer every non-empty window that ends at or before `position`. Return whether there was space for all."""
    registers = lists.registers
    upcoming = (position - query.origin) // query.every + 1
    while registers[HEAD] < registers[TAIL] and registers[NEXT] < upcoming:
        if (
            found.cursor[0] == found.ends.size
            or found.cursor[1] + (registers[OBJECTS] if query.ties else min(query.k, registers[OBJECTS]))
            > found.objects.size
        ):
            return False
        end = query.origin + registers[NEXT] * query.every
        answer(lists, query, found, end)
        expire(lists, query, end + query.every - query.size)
        registers[NEXT] += 1
    registers[NEXT] = max(registers[NEXT], upcoming)
    return True


@kernel
def advance(
    lists: Lists,
    query: ListQuery,
    found: InstanceAnswers,
    begin: int,
    positions: Ints,
    keys: Ints,
    streams: Ints,
    values: Floats,
    clock: int,
) -> tuple[int, int]:
    """Process tuples from `begin` on, answer windows as they end, then those that end at or before `clock`.

    Returns the index of the first unprocessed tuple, and a return code.
    """
    registers = lists.registers
    for i in range(begin, positions.size):
        if not answer_until(lists, query, found, positions[i]):
            return i, ANSWERS_FULL
        if registers[TAIL] - registers[HEAD] == lists.tuples.positions.size:
            return i, STATE_FULL
        take_in(lists, query, positions[i], keys[i], streams[i], values[i])
    if clock != NEVER and not answer_until(lists, query, found, clock):
        return positions.size, ANSWERS_FULL
    return positions.size, DONE
