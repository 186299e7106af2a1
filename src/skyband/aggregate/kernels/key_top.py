"""The top-k keys of a window: select with one pass and a heap."""

from __future__ import annotations

import numpy as np

from skyband.aggregate.kernels.key_scores import KeyScratch
from skyband.aggregate.kernels.partials import State
from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.keys import Keys
from skyband.kernels.select import BLOCK, skip_hopeless
from skyband.kernels.stream import Floats, Ints


@kernel
def follows(keys: Keys, a: int, b: int) -> bool:
    """Return whether the key in slot a is larger than the key in slot b."""
    if keys.prefix[a] != keys.prefix[b]:
        return keys.prefix[a] > keys.prefix[b]
    common = min(keys.lengths[a], keys.lengths[b])
    for i in range(min(8, common), common):
        one, other = keys.letters[keys.begins[a] + i], keys.letters[keys.begins[b] + i]
        if one != other:
            return one > other
    return keys.lengths[a] > keys.lengths[b]


@inner_kernel
def outranks(last: Ints, keys: Keys, scores: Floats, a: int, b: int) -> bool:
    """Return whether key a ranks before key b: higher score, then seen last, then larger key."""
    if scores[a] != scores[b]:
        return scores[a] > scores[b]
    if last[a] != last[b]:
        return last[a] > last[b]
    return follows(keys, a, b)


@kernel
def sink(last: Ints, keys: Keys, scores: Floats, heap: Ints, size: int, at: int) -> None:
    """Sift the key at heap index `at` down. The worst key is on top."""
    slot = heap[at]
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and outranks(last, keys, scores, heap[child], heap[child + 1]):
            child += 1
        if not outranks(last, keys, scores, slot, heap[child]):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = slot


@kernel
def admit(last: Ints, keys: Keys, scores: Floats, heap: Ints, size: int, k: int, slot: int) -> int:
    """Insert a key into the heap of the k best if it qualifies. Return the size of the heap."""
    if size < k:
        heap[size] = slot
        if size + 1 == k:
            for at in range(k // 2 - 1, -1, -1):
                sink(last, keys, scores, heap, k, at)
        return size + 1
    if outranks(last, keys, scores, slot, heap[0]):
        heap[0] = slot
        sink(last, keys, scores, heap, k, 0)
    return size


@kernel
def in_order(last: Ints, keys: Keys, scores: Floats, heap: Ints, size: int, k: int) -> None:
    """Sort the keys of the heap, best first."""
    if size < k:
        for at in range(size // 2 - 1, -1, -1):
            sink(last, keys, scores, heap, size, at)
    for left in range(size - 1, 0, -1):
        heap[0], heap[left] = heap[left], heap[0]
        sink(last, keys, scores, heap, left, 0)


@kernel
def best_of_all(last: Ints, keys: Keys, scores: Floats, heap: Ints, k: int) -> int:
    """Write the k best keys to the heap, best first. Return their number."""
    size, i, floor = 0, 0, -np.inf
    while i < scores.size:
        if size == k:
            # Most keys are worse than the k-th: skip them in blocks.
            i = skip_hopeless(scores, i, scores.size, floor)
        stop = min(i + BLOCK, scores.size)
        for slot in range(i, stop):
            if scores[slot] >= floor:  # False for NaN
                size = admit(last, keys, scores, heap, size, k, slot)
                floor = scores[heap[0]] if size == k else -np.inf
        i = stop
    in_order(last, keys, scores, heap, size, k)
    return size


@kernel
def best_of_group(last: Ints, keys: Keys, scores: Floats, room: KeyScratch, group: int, k: int) -> int:
    """Like `best_of_all`, for the keys of one group, after `sort_by_group`."""
    size = 0
    for i in range(room.begins[group - 1] if group else 0, room.begins[group]):
        size = admit(last, keys, scores, room.heap, size, k, room.sorted[i])
    in_order(last, keys, scores, room.heap, size, k)
    return size


@inner_kernel
def count_from(scores: Floats, floor: float, room: KeyScratch, group: int) -> int:
    """Return the number of keys of a group with a score of at least `floor`."""
    found = 0
    if room.begins.size > 1:
        for i in range(room.begins[group - 1] if group else 0, room.begins[group]):
            found += scores[room.sorted[i]] >= floor
    else:
        for slot in range(scores.size):
            found += scores[slot] >= floor
    return found


@inner_kernel
def tied_end(scores: Floats, heap: Ints, found: int, k: int) -> int:
    """Return how many of the first `found` keys of the heap, best first, have at least the k-th score."""
    end = min(k, found)
    while 0 < end < found and scores[heap[end]] == scores[heap[end - 1]]:
        end += 1
    return end


@kernel
def sort_by_group(state: State, keys: Keys, track: int, scores: Floats, room: KeyScratch) -> None:
    """Write the scored keys of a window to ``sorted`` by group. Those of group g end at ``begins[g]``."""
    begins = room.begins
    begins[:] = 0
    for i in range(state.alive[track]):
        slot = state.live[track, i]
        if not np.isnan(scores[slot]):
            begins[keys.groups[slot]] += 1
    found = 0
    for group in range(begins.size):
        found, begins[group] = found + begins[group], found
    for i in range(state.alive[track]):
        slot = state.live[track, i]
        if not np.isnan(scores[slot]):
            room.sorted[begins[keys.groups[slot]]] = slot
            begins[keys.groups[slot]] += 1


@kernel
def sum_by_group(state: State, keys: Keys, track: int, room: KeyScratch) -> None:
    """Write the sums of all keys of a window to ``sums``, by group."""
    sums = room.sums
    sums[:] = 0
    for i in range(state.alive[track]):
        slot = state.live[track, i]
        group = keys.groups[slot] if sums.shape[0] > 1 else 0
        for column in range(sums.shape[1]):
            sums[group, column] += state.added[slot, column] - state.left[track, slot, column]
