"""All tuples of a window, the objects they belong to, a sorted list a stream, and the best objects kept at hand.

Tuples are numbered as they come and stand in a ring; those of one object in one stream are chained, so that their
values can be added up again in the order of arrival when the first of them leaves. Objects have slots, found by
hashing, with a value a stream: random access is one look into an array. The view holds the best objects; nobody outside
it beats its floor. It is drawn up anew, by the threshold algorithm, only when an answer finds fewer than k in it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import kernel
from skyband.kernels.attributes import score_of
from skyband.kernels.order import beats
from skyband.kernels.skiplist import SkipList, insert, remove
from skyband.kernels.stream import DONE, STATE_FULL, Floats, Ints

NONE = -1
NO_NODE = 0  # slot 0 of the lists is a head, so no object is there
NEVER = np.iinfo(np.int64).min

# Registers
HEAD = 0  # the number of the oldest tuple held
TAIL = 1  # the number that the next one gets
UNUSED = 2  # the first free slot of an object, chained through Objects.lasts
OBJECTS = 3
VIEW = 4  # how many objects are in the view
NEXT_END = 5  # where the window of the newest tuple ends; NEVER before the first
RUN = 6  # the number of the run of the threshold algorithm: marks the objects it has met
RECOMPUTED = 7
SORTED = 8  # sorted accesses
RANDOM = 9  # random accesses
REGISTERS = 10


class Asked(NamedTuple):
    """A query as these kernels see it; see `skyband.incomplete.shape.Shape`."""

    k: int
    size: int
    every: int
    origin: int
    aggregate: int
    low: float
    weights: Floats


class Tuples(NamedTuple):
    """The ring of all valid tuples: number n stands at n modulo the length."""

    positions: Ints
    owners: Ints  # the slot of the object
    streams: Ints
    values: Floats
    following: Ints  # the number of the object's next tuple in the stream


class Objects(NamedTuple):
    """Slots of objects with at least one valid tuple."""

    keys: Ints
    hashes: Ints
    lasts: Ints  # the number of the newest tuple; the next free slot where there is no object
    scores: Floats
    tuples: Ints  # how many are valid
    met: Ints  # the last run of the threshold algorithm that came upon it
    viewed: Ints  # 1: in the view
    values: Floats  # (slots, streams): the sum of the valid ones, the lower bound where there are none
    nodes: Ints  # (slots, streams): where in the sorted list
    firsts: Ints  # (slots, streams): the number of the oldest valid tuple
    newest: Ints  # (slots, streams): of the newest


class View(NamedTuple):
    """The best objects, best first, and whom nobody outside beats."""

    slots: Ints  # one more than it may hold in the end
    floor: Floats  # the score
    floor_order: Ints  # and what decides among equal ones: last tuple, key


class Lists(NamedTuple):
    """The whole state."""

    tuples: Tuples
    objects: Objects
    table: Ints  # slots of objects by hash, NONE where free: open addressing, a power of two long
    chain: SkipList  # a list for each stream: its head is the slot of that number
    ranked: View
    cursors: Ints  # where the threshold algorithm stands in each list
    highest: Floats  # and the best value that is still to come in each
    registers: Ints


@kernel
def place_of(lists: Lists, key: int, bits: int) -> int:
    """Where in the table the object stands, or would."""
    mask = lists.table.size - 1
    at = bits & mask
    while lists.table[at] != NONE and lists.objects.keys[lists.table[at]] != key:
        at = (at + 1) & mask
    return at


@kernel
def drop_place(lists: Lists, at: int) -> None:
    """Free a place of the table; whoever stands behind it only because it was taken moves up."""
    mask = lists.table.size - 1
    hole = at
    lists.table[hole] = NONE
    while True:
        at = (at + 1) & mask
        slot = lists.table[at]
        if slot == NONE:
            return
        home = lists.objects.hashes[slot] & mask
        if (at - home) & mask >= (at - hole) & mask:
            lists.table[hole] = slot
            lists.table[at] = NONE
            hole = at


@kernel
def fill_table(lists: Lists) -> None:
    """Enter all objects into an empty table."""
    for slot in range(lists.objects.keys.size):
        if lists.objects.tuples[slot]:
            lists.table[place_of(lists, lists.objects.keys[slot], lists.objects.hashes[slot])] = slot


@kernel
def ahead(objects: Objects, a: int, b: int) -> bool:
    """Whether the object in slot a ranks before that in slot b."""
    return beats(
        objects.scores[a], objects.lasts[a], objects.keys[a], objects.scores[b], objects.lasts[b], objects.keys[b]
    )


@kernel
def rank_in_view(lists: Lists, slot: int) -> int:
    """How many objects of the view rank before this one."""
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
    """Take an object out of the view, if it is there; to be called while its score is the one it came in with."""
    if not lists.objects.viewed[slot]:
        return
    lists.objects.viewed[slot] = 0
    slots, size = lists.ranked.slots, lists.registers[VIEW] - 1
    for at in range(rank_in_view(lists, slot), size):
        slots[at] = slots[at + 1]
    lists.registers[VIEW] = size


@kernel
def enter_view(lists: Lists, slot: int) -> None:
    """Put an object into the view, unless it ranks below the floor. Who falls out of a full view is the new floor."""
    objects, view, size = lists.objects, lists.ranked, lists.registers[VIEW]
    if beats(
        view.floor[0],
        view.floor_order[0],
        view.floor_order[1],
        objects.scores[slot],
        objects.lasts[slot],
        objects.keys[slot],
    ):
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
    """Nobody outside the view beats this object."""
    lists.ranked.floor[0] = lists.objects.scores[slot]
    lists.ranked.floor_order[0] = lists.objects.lasts[slot]
    lists.ranked.floor_order[1] = lists.objects.keys[slot]


@kernel
def clear_floor(lists: Lists) -> None:
    """There is nobody outside the view."""
    lists.ranked.floor[0] = -np.inf
    lists.ranked.floor_order[:] = NEVER


@kernel
def rescore(lists: Lists, asked: Asked, slot: int) -> None:
    """An object's values have changed, and it is in no view: score it and see whether it belongs there."""
    lists.objects.scores[slot] = score_of(lists.objects.values[slot], asked.weights, asked.aggregate)
    enter_view(lists, slot)


@kernel
def list_value(lists: Lists, slot: int, stream: int, value: float) -> None:
    """An object has a new value in a stream: give it its place in the sorted list."""
    objects = lists.objects
    if objects.nodes[slot, stream] != NO_NODE:
        remove(lists.chain, objects.nodes[slot, stream], stream)
    objects.values[slot, stream] = value
    objects.nodes[slot, stream] = insert(lists.chain, value, 0, slot, stream)


@kernel
def expire(lists: Lists, asked: Asked, start: int) -> None:
    """Let go of all tuples before `start`."""
    tuples, objects, registers = lists.tuples, lists.objects, lists.registers
    room = tuples.positions.size
    while registers[HEAD] < registers[TAIL] and tuples.positions[registers[HEAD] % room] < start:
        at = registers[HEAD] % room
        slot, stream = tuples.owners[at], tuples.streams[at]
        leave_view(lists, slot)
        if objects.newest[slot, stream] == registers[HEAD]:
            remove(lists.chain, objects.nodes[slot, stream], stream)
            objects.nodes[slot, stream] = NO_NODE
            objects.values[slot, stream] = asked.low
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
            rescore(lists, asked, slot)
        else:
            drop_place(lists, place_of(lists, objects.keys[slot], objects.hashes[slot]))
            objects.lasts[slot] = registers[UNUSED]
            registers[UNUSED] = slot
            registers[OBJECTS] -= 1


@kernel
def slot_for(lists: Lists, asked: Asked, key: int, bits: int) -> int:
    """The slot of an object; a new one if no tuple of it is valid."""
    at = place_of(lists, key, bits)
    if lists.table[at] != NONE:
        return lists.table[at]
    objects, slot = lists.objects, lists.registers[UNUSED]
    lists.registers[UNUSED] = objects.lasts[slot]
    lists.registers[OBJECTS] += 1
    lists.table[at] = slot
    objects.keys[slot], objects.hashes[slot], objects.tuples[slot] = key, bits, 0
    objects.values[slot] = asked.low
    objects.nodes[slot] = NO_NODE
    return slot


@kernel
def take(
    lists: Lists,
    asked: Asked,
    at: int,
    positions: Ints,
    keys: Ints,
    hashes: Ints,
    streams: Ints,
    values: Floats,
) -> tuple[int, int]:
    """Take in tuples from number `at` on, letting go of those that no window to come holds; why it ended, and where."""
    tuples, objects, registers = lists.tuples, lists.objects, lists.registers
    room = tuples.positions.size
    for i in range(at, positions.size):
        position, stream = positions[i], streams[i]
        if position >= registers[NEXT_END]:
            registers[NEXT_END] = asked.origin + ((position - asked.origin) // asked.every + 1) * asked.every
            expire(lists, asked, registers[NEXT_END] - asked.size)
        number = registers[TAIL]
        if number - registers[HEAD] == room:
            return STATE_FULL, i
        slot = slot_for(lists, asked, keys[i], hashes[i])
        leave_view(lists, slot)
        here = number % room
        tuples.positions[here], tuples.owners[here] = position, slot
        tuples.streams[here], tuples.values[here] = stream, values[i]
        value = values[i]
        if objects.nodes[slot, stream] == NO_NODE:
            objects.firsts[slot, stream] = number
        else:
            tuples.following[objects.newest[slot, stream] % room] = number
            value = objects.values[slot, stream] + value
        objects.newest[slot, stream] = number
        objects.lasts[slot] = number
        objects.tuples[slot] += 1
        registers[TAIL] += 1
        list_value(lists, slot, stream, value)
        rescore(lists, asked, slot)
    return DONE, positions.size


@kernel
def look_up(lists: Lists, asked: Asked) -> None:
    """The threshold algorithm: fill the view with the best of all objects.

    The lists are read side by side from their best values on; whoever comes up in one is scored by random access to the
    others. An object that has not come up scores no more than the values last read together. Equal is not enough to
    stop: it may have been seen later.
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
                lists.highest[stream] = asked.low
                continue
            lists.cursors[stream] = node
            # Who has no tuple in the stream has the lower bound there, which sums of negative values go below.
            lists.highest[stream] = max(chain.keys[node], asked.low)
            registers[SORTED] += 1
            slot = chain.ids[node]
            if objects.met[slot] != registers[RUN]:
                objects.met[slot] = registers[RUN]
                met += 1
                registers[RANDOM] += d - 1
                enter_view(lists, slot)
        if registers[VIEW] == most:
            worst = objects.scores[lists.ranked.slots[most - 1]]
            if worst > score_of(lists.highest, asked.weights, asked.aggregate):
                break
    if registers[VIEW] < registers[OBJECTS]:
        set_floor(lists, lists.ranked.slots[registers[VIEW] - 1])


@kernel
def settle(lists: Lists, asked: Asked, end: int) -> int:
    """Make the view right for the window that ends at `end`; how many of its first objects are the answer."""
    expire(lists, asked, end - asked.size)
    wanted = min(asked.k, lists.registers[OBJECTS])
    if lists.registers[VIEW] < wanted:
        look_up(lists, asked)
    return wanted
