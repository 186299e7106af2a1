"""S-AVL: objects in stacks, with the tops of the stacks sorted.

The objects of a range of the stream are inserted from the newest to the oldest. Within a stack they get better and
older from the bottom to the top, so expired objects are always on top. The paper keeps the tops in an AVL tree. Here
they are in an array, because of a property the paper itself notes: an object is pushed onto the stack with the best top
among those that it beats, and that does not change the order of the tops. So while an S-AVL is built, an array that is
sorted once, when all stacks exist, stays sorted: finding the stack is a bisection, O(log k). When objects are removed,
best first, the same array is used as a heap, because a sorted array is a heap: removing the best costs O(log k). No
node is allocated or rotated: stacks are chains through the ring of the window (`Ring.below`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.stream import Floats, Ints
from skyband.topk.kernels.ring import HEAD, Ring, ahead, how_many_ahead, sort_pairs

# Savl.registers: one entry per S-AVL from each of these indexes on
STACKS = 0
ORDERED = 4  # 1: the tops are sorted, and no new stack is created
PUSHED = 8  # objects that were pushed onto a stack
REGISTERS = 12

PLACES = 4  # number of S-AVLs: for the front partition, the next partition, and two units


class Savl(NamedTuple):
    """Several S-AVLs: row i contains the tops of the stacks of the i-th."""

    keys: Floats
    numbers: Ints
    registers: Ints


@kernel
def clear(savl: Savl, place: int) -> None:
    """Remove all objects."""
    r = savl.registers
    r[STACKS + place] = r[ORDERED + place] = r[PUSHED + place] = 0


@kernel
def order_tops(ring: Ring, savl: Savl, place: int, waiting: Ints) -> None:
    """Sort the tops; no new stack is created afterwards."""
    r = savl.registers
    if not r[ORDERED + place]:
        sort_pairs(ring, savl.keys[place], savl.numbers[place], 0, r[STACKS + place], waiting)
        r[ORDERED + place] = 1


@inner_kernel
def floor_of(savl: Savl, place: int, stacks: int) -> float:
    """The key that an object must reach so that the tops of `stacks` stacks do not prune it."""
    r = savl.registers
    if r[ORDERED + place] and 0 < stacks <= r[STACKS + place]:
        return savl.keys[place, stacks - 1]
    return -np.inf


@inner_kernel
def push(ring: Ring, savl: Savl, place: int, stacks: int, key: float, number: int, near: int, waiting: Ints) -> int:
    """Push an object not later than those inside; return its stack, or -1 if `stacks` tops are better.

    `stacks` may decrease from call to call. The first objects create one stack each. The search starts at the stack
    `near`: the caller knows that no stack before it fits.
    """
    r, keys, numbers, slot = savl.registers, savl.keys[place], savl.numbers[place], number & (ring.keys.size - 1)
    founded = r[STACKS + place]
    if not r[ORDERED + place]:
        if founded < stacks:
            keys[founded], numbers[founded] = key, number
            ring.below[slot] = -1
            r[STACKS + place] += 1
            r[PUSHED + place] += 1
            return 0
        order_tops(ring, savl, place, waiting)
        near = 0
    among = min(founded, stacks)
    at = near
    if at < among and not ahead(ring, key, number, keys[at], numbers[at]):
        at += 1 + how_many_ahead(ring, keys[at + 1 :], numbers[at + 1 :], among - at - 1, key, number)
    if at >= among:
        return -1
    ring.below[slot] = numbers[at]
    keys[at], numbers[at] = key, number
    r[PUSHED + place] += 1
    return at


@inner_kernel
def pop_best(ring: Ring, savl: Savl, place: int) -> None:
    """Remove the best object and the expired objects under it in its stack; the tops are a heap afterwards."""
    r, keys, numbers = savl.registers, savl.keys[place], savl.numbers[place]
    mask, head = ring.keys.size - 1, ring.span[HEAD]
    below = ring.below[numbers[0] & mask]
    while 0 <= below < head:
        below = ring.below[below & mask]
    stacks = r[STACKS + place]
    if below >= 0:
        key, number = ring.keys[below & mask], below
    else:
        stacks -= 1
        r[STACKS + place] = stacks
        key, number = keys[stacks], numbers[stacks]
    # The new top is usually worse than most tops: move the better child up to a leaf, then step back.
    at, child = 0, 1
    while child < stacks:
        if child + 1 < stacks and ahead(ring, keys[child + 1], numbers[child + 1], keys[child], numbers[child]):
            child += 1
        keys[at], numbers[at] = keys[child], numbers[child]
        at, child = child, 2 * child + 1
    while at > 0:
        parent = (at - 1) // 2
        if not ahead(ring, key, number, keys[parent], numbers[parent]):
            break
        keys[at], numbers[at] = keys[parent], numbers[parent]
        at = parent
    keys[at], numbers[at] = key, number


@inner_kernel
def best_of(ring: Ring, savl: Savl, place: int) -> int:
    """The number of the best object that has not expired, which is the first of the tops; -1 if there is none."""
    while savl.registers[STACKS + place] > 0:
        if savl.numbers[place, 0] >= ring.span[HEAD]:
            return savl.numbers[place, 0]
        pop_best(ring, savl, place)
    return -1


@kernel
def numbers_of(ring: Ring, savl: Savl, place: int, found: Ints, count: int) -> int:
    """Write the numbers of all objects that have not expired to `found`, from index `count` on."""
    mask, head = ring.keys.size - 1, ring.span[HEAD]
    for stack in range(savl.registers[STACKS + place]):
        number = savl.numbers[place, stack]
        while number >= 0:
            if number >= head:
                found[count] = number
                count += 1
            number = ring.below[number & mask]
    return count


@kernel
def drop_expired(ring: Ring, savl: Savl, place: int, waiting: Ints) -> None:
    """Remove all expired objects, so that no chain passes through reused ring slots."""
    r, keys, numbers = savl.registers, savl.keys[place], savl.numbers[place]
    mask, head, kept = ring.keys.size - 1, ring.span[HEAD], 0
    for stack in range(r[STACKS + place]):
        number = numbers[stack]
        while 0 <= number < head:
            number = ring.below[number & mask]
        if number >= 0:
            keys[kept], numbers[kept] = ring.keys[number & mask], number
            kept += 1
    r[STACKS + place] = kept
    if r[ORDERED + place]:
        sort_pairs(ring, keys, numbers, 0, kept, waiting)


@kernel
def unlink_expired(ring: Ring, savl: Savl, place: int) -> None:
    """Remove the expired objects of the only chain, which is sorted best first, so that they can be anywhere in it."""
    r, mask, head = savl.registers, ring.keys.size - 1, ring.span[HEAD]
    if r[STACKS + place] == 0:
        return
    number, kept = savl.numbers[place, 0], -1
    r[STACKS + place] = 0
    while number >= 0:
        follower = ring.below[number & mask]
        if number >= head:
            if kept < 0:
                savl.keys[place, 0], savl.numbers[place, 0] = ring.keys[number & mask], number
                r[STACKS + place] = 1
            else:
                ring.below[kept & mask] = number
            kept = number
        number = follower
    if kept >= 0:
        ring.below[kept & mask] = -1


@kernel
def take_chain(ring: Ring, savl: Savl, place: int, number: int) -> None:
    """Make the sorted chain that begins with object `number` the only one; -1: there is none."""
    clear(savl, place)
    savl.registers[ORDERED + place] = 1
    if number >= 0:
        savl.keys[place, 0], savl.numbers[place, 0] = ring.keys[number & (ring.keys.size - 1)], number
        savl.registers[STACKS + place] = 1
        unlink_expired(ring, savl, place)
