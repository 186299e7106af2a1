"""The k best keys of a window: one pass over the keys in it, with a heap of the best so far."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.limbs import rounded
from skyband.kernels.partials import COUNT, FIRST_LIMB, INFINITE, LOOKED_AT, MINUS, UNRANKABLE, Asked, State
from skyband.kernels.stream import Floats, Ints

# Asked.scores
SUM = 0
AVG = 1
TALLY = 2
EXTREME = 3  # and on: the extremes, in their order


class Keys(NamedTuple):
    """What the order of keys follows from, per slot."""

    prefix: Ints  # the number itself, or the first eight letters of a text as one
    begins: Ints  # where its letters begin
    lengths: Ints  # how many they are; 0 where the prefix says everything
    letters: Any  # uint8: of all keys
    groups: Ints  # the group it is of


class Room(NamedTuple):
    """What extraction needs beside the state."""

    scores: Floats  # per slot
    sorted: Ints  # per slot: the keys of a window, group after group
    heap: Ints  # per slot
    begins: Ints  # per group
    total: Ints  # for rounding


@kernel
def follows(keys: Keys, a: int, b: int) -> bool:
    """Whether the key in slot a is the larger one."""
    if keys.prefix[a] != keys.prefix[b]:
        return keys.prefix[a] > keys.prefix[b]
    common = min(keys.lengths[a], keys.lengths[b])
    for i in range(min(8, common), common):
        one, other = keys.letters[keys.begins[a] + i], keys.letters[keys.begins[b] + i]
        if one != other:
            return one > other
    return keys.lengths[a] > keys.lengths[b]


@inner_kernel
def outranks(state: State, keys: Keys, scores: Floats, a: int, b: int) -> bool:
    """Whether key a comes before key b: the higher score, then the one seen last, then the larger key."""
    if scores[a] != scores[b]:
        return scores[a] > scores[b]
    if state.last[a] != state.last[b]:
        return state.last[a] > state.last[b]
    return follows(keys, a, b)


@kernel
def total_of(state: State, asked: Asked, track: int, slot: int, room: Room) -> float:
    """The sum of the key's values in the window, rounded once; NaN where both infinities are among them."""
    infinite = state.added[slot, INFINITE] - state.left[track, slot, INFINITE]
    if infinite != 0:
        minus = infinite // MINUS
        return np.inf if minus == 0 else -np.inf if infinite == minus * MINUS else np.nan
    limbs = state.added.shape[1] - FIRST_LIMB
    for i in range(limbs):
        room.total[i] = state.added[slot, FIRST_LIMB + i] - state.left[track, slot, FIRST_LIMB + i]
    return rounded(room.total, limbs, asked.low)


@kernel
def score_of(state: State, asked: Asked, track: int, what: int, slot: int, room: Room) -> float:
    """What the key is ranked by."""
    if what >= EXTREME:
        e = what - EXTREME
        head = state.heads[track, slot, e] & (state.slots.size - 1)
        return asked.signs[e] * state.extremes[head, e] + 0.0
    count = np.float64(state.added[slot, COUNT] - state.left[track, slot, COUNT])
    if what == TALLY:
        return count
    total = total_of(state, asked, track, slot, room)
    return total / count if what == AVG else total


@kernel
def sink(state: State, keys: Keys, scores: Floats, heap: Ints, size: int, at: int) -> None:
    """Move the key at a place of the heap down until it is worse than those below: the worst is on top."""
    slot = heap[at]
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and outranks(state, keys, scores, heap[child], heap[child + 1]):
            child += 1
        if not outranks(state, keys, scores, slot, heap[child]):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = slot


@kernel
def best_keys(state: State, keys: Keys, room: Room, low: int, high: int, k: int) -> int:
    """Put the k best of ``sorted[low:high]`` into the heap, best first; return how many they are."""
    heap, scores, size = room.heap, room.scores, 0
    for i in range(low, high):
        slot = room.sorted[i]
        if size < k:
            heap[size] = slot
            size += 1
            if size == k or i == high - 1:
                for at in range(size // 2 - 1, -1, -1):
                    sink(state, keys, scores, heap, size, at)
        elif scores[slot] >= scores[heap[0]] and outranks(state, keys, scores, slot, heap[0]):
            heap[0] = slot
            sink(state, keys, scores, heap, size, 0)
    for left in range(size - 1, 0, -1):
        heap[0], heap[left] = heap[left], heap[0]
        sink(state, keys, scores, heap, left, 0)
    return size


@kernel
def score_window(state: State, asked: Asked, keys: Keys, track: int, what: int, room: Room) -> int:
    """Score the keys of a window and line them up in ``sorted``, group after group; return how many can be ranked.

    Group g's keys end at ``begins[g]``; they begin where those of the group before end.
    """
    alive, begins = state.alive[track], room.begins
    state.clock[LOOKED_AT] += alive
    begins[:] = 0
    for i in range(alive):
        slot = state.live[track, i]
        score = score_of(state, asked, track, what, slot, room)
        room.scores[slot] = score
        if np.isnan(score):
            state.clock[UNRANKABLE] += 1
        else:
            begins[keys.groups[slot]] += 1
    found = 0
    for group in range(begins.size):
        found, begins[group] = found + begins[group], found
    for i in range(alive):
        slot = state.live[track, i]
        if not np.isnan(room.scores[slot]):
            room.sorted[begins[keys.groups[slot]]] = slot
            begins[keys.groups[slot]] += 1
    return found
