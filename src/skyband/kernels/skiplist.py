"""A skip list of objects, best first: objects in numbered slots, linked at several levels.

Slot 0 is the head and holds no object; 0 as a link is the end of the list. Several lists may share the slots; then the
first slots are their heads, one each. Heights are drawn from a seeded generator. Its state is part of the list, so that
a resumed list continues exactly like the original.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import kernel
from skyband.kernels.order import beats
from skyband.kernels.stream import Floats, Ints

LEVELS = 16  # an object reaches the next level with probability 1/4: enough for 4**16 objects
HEAD = 0

# SkipList.registers
LENGTH = 0
FREE = 1  # the first free slot of the chain through links[0], 0 if none is left
RANDOM = 2
TALLEST = 3  # the greatest height so far


class SkipList(NamedTuple):
    """Slots with one object each, and the links between them."""

    keys: Floats
    positions: Ints
    ids: Ints
    links: Ints  # (LEVELS, capacity): the next slot at each level
    before: Ints  # the previous slot at level 0
    heights: Ints
    registers: Ints


def empty_list(capacity: int, lists: int = 1) -> SkipList:
    """Return one or several empty lists with room for ``capacity - lists`` objects."""
    links = np.zeros((LEVELS, capacity), np.int64)
    links[0, lists:-1] = np.arange(lists + 1, capacity)  # the chain of free slots
    return SkipList(
        np.zeros(capacity),
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.int64),
        links,
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.int64),
        np.array([0, lists, 20110321, 1], np.int64),
    )


def grown_list(old: SkipList) -> SkipList:
    """Return the same list with twice the capacity; slots keep their numbers."""
    capacity = old.keys.size
    new = empty_list(2 * capacity)
    for target, source in zip(new[:-1], old[:-1], strict=True):
        target[..., :capacity] = source
    new.registers[:] = old.registers
    new.registers[FREE] = capacity
    new.links[0, -1] = old.registers[FREE]
    return new


def slots_of(chain: SkipList) -> list[int]:
    """Return the slots of the list's objects, best first."""
    found, slot = [], int(chain.links[0, HEAD])
    while slot:
        found.append(slot)
        slot = int(chain.links[0, slot])
    return found


@kernel
def draw_height(chain: SkipList) -> int:
    """Draw a height: 1 with probability 3/4, 2 with probability 3/16, and so on."""
    # Park and Miller's generator: its products fit into int64, with and without compilation.
    x = chain.registers[RANDOM] * 48271 % 2147483647
    chain.registers[RANDOM] = x
    height = 1
    while height < LEVELS and x & 3 == 0:
        height += 1
        x >>= 2
    return height


@kernel
def insert(chain: SkipList, key: float, position: int, id_: int, head: int = HEAD) -> int:
    """Insert an object, before any that is equal in all three, and return its slot. A slot must be free."""
    slot = chain.registers[FREE]
    chain.registers[FREE] = chain.links[0, slot]
    height = draw_height(chain)
    tallest = max(height, chain.registers[TALLEST])
    chain.registers[TALLEST] = tallest
    chain.keys[slot], chain.positions[slot], chain.ids[slot] = key, position, id_
    chain.heights[slot] = height
    at = head
    for level in range(tallest - 1, -1, -1):
        follower = chain.links[level, at]
        while follower and beats(
            chain.keys[follower], chain.positions[follower], chain.ids[follower], key, position, id_
        ):
            at, follower = follower, chain.links[level, follower]
        if level < height:
            chain.links[level, slot] = follower
            chain.links[level, at] = slot
    chain.before[slot] = at
    chain.before[chain.links[0, slot]] = slot
    chain.registers[LENGTH] += 1
    return slot


@kernel
def remove(chain: SkipList, slot: int, head: int = HEAD) -> None:
    """Remove the object in `slot` from the list that begins at `head` and free the slot."""
    key, position, id_ = chain.keys[slot], chain.positions[slot], chain.ids[slot]
    height = chain.heights[slot]
    at = head
    # At level 0 the backward links make a search unnecessary, so an object of height 1 needs none.
    for level in range(chain.registers[TALLEST] - 1 if height > 1 else 0, 0, -1):
        follower = chain.links[level, at]
        while follower and beats(
            chain.keys[follower], chain.positions[follower], chain.ids[follower], key, position, id_
        ):
            at, follower = follower, chain.links[level, follower]
        if level < height:
            # Objects equal in all three (repeated ids) are adjacent: continue to the requested slot.
            near = at
            while chain.links[level, near] != slot:
                near = chain.links[level, near]
            chain.links[level, near] = chain.links[level, slot]
    previous, follower = chain.before[slot], chain.links[0, slot]
    chain.links[0, previous] = follower
    chain.before[follower] = previous
    chain.links[0, slot] = chain.registers[FREE]
    chain.registers[FREE] = slot
    chain.registers[LENGTH] -= 1
