"""A ranked list in few bytes: a linked list, best first, and a sorted index of some of its objects.

Objects are in numbered slots, and links have 32 bits. Slot 0 is the head and holds no object; the list is a ring
through it. The index contains *anchors*: about one object in a dozen. It is a tree of two levels, pages of up to 32
anchors and the order of the pages, and it grows with use: a search that walks far from its anchor adds another one. The
keys of a page are adjacent in memory, so a search compares many keys with few cache misses, unlike one that follows
links. All of this is part of the list, so that a resumed list continues exactly like the original.

An object takes 24 bytes of data, 9 of links, and about one for the index.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.order import beats
from skyband.kernels.stream import Floats, Ints

HEAD = 0
PAGE = 32  # most anchors in a page
FAR = 12  # objects passed by a search before it adds an anchor

# RankedList.around
NEXT = 0
BEFORE = 1

# RankedList.registers
LENGTH = 0
FREE = 1  # the first free slot of the chain through around[:, NEXT], 0 if none is left
PAGES = 2  # pages in use
REGISTERS = 3

Int32s = NDArray[np.int32]


class RankedList(NamedTuple):
    """Slots with one object each, the links between them, and the index."""

    keys: Floats
    positions: Ints
    ids: Ints
    around: Int32s  # (capacity, 2): the next slot and the previous one
    is_anchor: NDArray[np.int8]
    anchor_keys: Floats  # (pages, PAGE): of the anchors, best first
    anchors: Int32s  # (pages, PAGE): their slots
    sizes: Int32s  # per page: its anchors
    order: Int32s  # the pages, best first; those from PAGES on are free
    registers: Ints


def empty_ranked_list(capacity: int = 16) -> RankedList:
    """Return an empty list with room for ``capacity - 1`` objects."""
    pages = 1 + capacity // (FAR * PAGE // 3)
    made = RankedList(
        np.zeros(capacity),
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.int64),
        np.zeros((capacity, 2), np.int32),
        np.zeros(capacity, np.int8),
        np.zeros((pages, PAGE)),
        np.zeros((pages, PAGE), np.int32),
        np.zeros(pages, np.int32),
        np.arange(pages, dtype=np.int32),
        np.zeros(REGISTERS, np.int64),
    )
    made.around[1:-1, NEXT] = np.arange(2, capacity)  # the chain of free slots
    made.registers[FREE] = 1
    return made


def with_more_slots(old: RankedList) -> RankedList:
    """Return the same list with an eighth more capacity; slots keep their numbers."""
    capacity = old.keys.size
    new = empty_ranked_list(capacity + max(16, capacity // 8))
    for name in RankedList._fields[:-1]:
        source = getattr(old, name)
        getattr(new, name)[: source.shape[0]] = source
    new.registers[:] = old.registers
    new.around[-1, NEXT] = old.registers[FREE]
    new.registers[FREE] = capacity
    return new


def slots_in_order(chain: RankedList) -> list[int]:
    """Return the slots of the list's objects, best first."""
    found, slot = [], int(chain.around[HEAD, NEXT])
    while slot:
        found.append(slot)
        slot = int(chain.around[slot, NEXT])
    return found


def from_skip_list(saved: Mapping[str, Any]) -> RankedList:
    """Convert a stored skip list with links of full height. Objects keep their slots; the index is empty."""
    links = saved["links"]
    chain = empty_ranked_list(saved["keys"].size)
    slots, slot = [], int(links[0, HEAD])
    while slot:
        slots.append(slot)
        slot = int(links[0, slot])
    for name in ("keys", "positions", "ids"):
        getattr(chain, name)[:] = saved[name]
    ring = [HEAD, *slots]
    chain.around[ring, NEXT] = [*slots, HEAD]
    chain.around[[*slots, HEAD], BEFORE] = ring
    free = np.setdiff1d(np.arange(1, chain.keys.size), slots)
    chain.around[free, NEXT] = [*free[1:], HEAD][: free.size]
    chain.registers[LENGTH], chain.registers[FREE] = len(slots), free[0] if free.size else 0
    return chain


@inner_kernel
def lacks_room(chain: RankedList, count: int) -> bool:
    """Whether there is no room for so many more objects."""
    return chain.registers[LENGTH] + count >= chain.keys.size


@inner_kernel
def is_ahead(chain: RankedList, slot: int, key: float, position: int, id_: int) -> bool:
    """Whether the object in `slot` ranks before the given one."""
    return beats(chain.keys[slot], chain.positions[slot], chain.ids[slot], key, position, id_)


@inner_kernel
def page_of(chain: RankedList, key: float, position: int, id_: int) -> int:
    """Index in `order` of the last page whose first anchor ranks before the object; 0 if there is none."""
    low, high = 0, chain.registers[PAGES] - 1
    while low < high:
        middle = (low + high + 1) >> 1
        page = chain.order[middle]
        ahead = chain.anchor_keys[page, 0] > key or (
            chain.anchor_keys[page, 0] == key and is_ahead(chain, chain.anchors[page, 0], key, position, id_)
        )
        if ahead:
            low = middle
        else:
            high = middle - 1
    return low


@inner_kernel
def anchors_ahead(chain: RankedList, page: int, key: float, position: int, id_: int) -> int:
    """Number of anchors in the page that rank before the object."""
    size, found, mine = chain.sizes[page], 0, chain.anchor_keys[page]
    for i in range(size):  # no branch on a key: compiles to vector instructions
        found += mine[i] > key
    while found < size and mine[found] == key and is_ahead(chain, chain.anchors[page, found], key, position, id_):
        found += 1
    return found


@kernel
def add_anchor(chain: RankedList, at: int, index: int, slot: int) -> None:
    """Add an anchor before the `index`-th one of the page at `at`; nothing changes if no page is free."""
    r, order, sizes = chain.registers, chain.order, chain.sizes
    if r[PAGES] == 0:
        r[PAGES] = 1
    page = order[at]
    if sizes[page] == PAGE:
        if r[PAGES] == order.size:
            return
        # The second half moves to a free page behind this one.
        fresh = order[r[PAGES]]
        for i in range(r[PAGES], at + 1, -1):
            order[i] = order[i - 1]
        order[at + 1] = fresh
        r[PAGES] += 1
        half = PAGE // 2
        for i in range(half):
            chain.anchor_keys[fresh, i] = chain.anchor_keys[page, half + i]
            chain.anchors[fresh, i] = chain.anchors[page, half + i]
        sizes[page] = sizes[fresh] = half
        if index > half:
            page, index = fresh, index - half
    for i in range(sizes[page], index, -1):
        chain.anchor_keys[page, i], chain.anchors[page, i] = chain.anchor_keys[page, i - 1], chain.anchors[page, i - 1]
    chain.anchor_keys[page, index], chain.anchors[page, index] = chain.keys[slot], slot
    sizes[page] += 1
    chain.is_anchor[slot] = 1


@kernel
def drop_anchor(chain: RankedList, slot: int) -> None:
    """Remove an object from the index."""
    r, order, sizes = chain.registers, chain.order, chain.sizes
    key, position, id_ = chain.keys[slot], chain.positions[slot], chain.ids[slot]
    chain.is_anchor[slot] = 0
    at = page_of(chain, key, position, id_)
    index = anchors_ahead(chain, order[at], key, position, id_)
    # Objects equal in all three (repeated ids) are adjacent: continue to the requested slot.
    while index == sizes[order[at]] or chain.anchors[order[at], index] != slot:
        index += 1
        if index >= sizes[order[at]]:
            at, index = at + 1, 0
    page = order[at]
    sizes[page] -= 1
    for i in range(index, sizes[page]):
        chain.anchor_keys[page, i], chain.anchors[page, i] = chain.anchor_keys[page, i + 1], chain.anchors[page, i + 1]
    if sizes[page] == 0:
        for i in range(at, r[PAGES] - 1):
            order[i] = order[i + 1]
        r[PAGES] -= 1
        order[r[PAGES]] = page


@inner_kernel
def insert(chain: RankedList, key: float, position: int, id_: int) -> int:
    """Insert an object, before any that is equal in all three, and return its slot. There must be room."""
    keys, around = chain.keys, chain.around
    place, index, front = 0, 0, HEAD
    if chain.registers[PAGES]:
        place = page_of(chain, key, position, id_)
        page = chain.order[place]
        index = anchors_ahead(chain, page, key, position, id_)
        if index:
            front = chain.anchors[page, index - 1]
    passed, following = 0, around[front, NEXT]
    while following != HEAD and (
        keys[following] > key or (keys[following] == key and is_ahead(chain, following, key, position, id_))
    ):
        front, following = following, around[following, NEXT]
        passed += 1
    slot = chain.registers[FREE]
    chain.registers[FREE] = around[slot, NEXT]
    chain.registers[LENGTH] += 1
    keys[slot], chain.positions[slot], chain.ids[slot] = key, position, id_
    around[slot, NEXT], around[slot, BEFORE] = following, front
    around[front, NEXT] = slot
    around[following, BEFORE] = slot
    if passed >= FAR:
        add_anchor(chain, place, index, slot)
    return slot


@inner_kernel
def remove(chain: RankedList, slot: int) -> None:
    """Remove the object in `slot` and free the slot."""
    if chain.is_anchor[slot]:
        drop_anchor(chain, slot)
    around, r = chain.around, chain.registers
    following, front = around[slot, NEXT], around[slot, BEFORE]
    around[front, NEXT] = following
    around[following, BEFORE] = front
    around[slot, NEXT] = r[FREE]
    r[FREE] = slot
    r[LENGTH] -= 1


@kernel
def relink(chain: RankedList, slots: Int32s, count: int) -> None:
    """Make the first `count` of `slots`, which are sorted best first, the whole list, and every `FAR`-th an anchor.

    The chain of free slots must not contain them.
    """
    around, r, pages = chain.around, chain.registers, 0
    before = HEAD
    for i in range(count):
        slot = slots[i]
        around[before, NEXT], around[slot, BEFORE] = slot, before
        before = slot
    around[before, NEXT], around[HEAD, BEFORE] = HEAD, before
    r[LENGTH] = count
    half = PAGE // 2
    chain.sizes[:] = 0
    chain.is_anchor[:] = 0
    for i in range(min(count // FAR, half * chain.order.size)):
        if i % half == 0:
            pages += 1
        page, slot = chain.order[i // half], slots[(i + 1) * FAR - 1]
        chain.anchors[page, i % half], chain.anchor_keys[page, i % half] = slot, chain.keys[slot]
        chain.sizes[page] = i % half + 1
        chain.is_anchor[slot] = 1
    r[PAGES] = pages
