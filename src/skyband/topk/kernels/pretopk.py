"""PreTopk's kernel: a separate predicted top-k set for every open window.

The paper's symbols: W_i window i, ``C_nw`` the number of windows alive at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.order import beats
from skyband.kernels.stream import (
    ANSWERS_FULL,
    DONE,
    STATE_FULL,
    Answers,
    Floats,
    Ints,
    KernelQuery,
    Rows,
    close_window,
    end_after,
    has_room,
    id_at,
    is_reported,
    position_at,
    write_row,
)

# Pool.registers
OBJECTS = 0  # number of distinct objects
FREE = 1  # the first free slot, NO_SLOT if there is none
# Predictions.registers
OLDEST = 0  # the oldest unanswered window
NEWEST = 1  # the newest open window; below OLDEST: none
REGISTERS = 2

NO_SLOT = -1


class Pool(NamedTuple):
    """The objects, each stored once, in numbered slots."""

    keys: Floats
    positions: Ints
    ids: Ints
    references: Ints  # number of windows whose set contains the object; in a free slot: -2 minus the next free one
    registers: Ints


class Predictions(NamedTuple):
    """The predicted top-k sets. Windows are stored in a ring: window w at ``w % C_nw``."""

    heaps: NDArray[np.int32]  # (C_nw, width): per window the slots of its objects, a heap with the worst at the root
    sizes: Ints  # per window: number of objects in its set; does not increase with the window's number
    registers: Ints


@inner_kernel
def is_better(pool: Pool, a: int, b: int) -> bool:
    """Whether the object in slot `a` ranks before the one in slot `b`."""
    return beats(pool.keys[a], pool.positions[a], pool.ids[a], pool.keys[b], pool.positions[b], pool.ids[b])


@inner_kernel
def is_wanted(pool: Pool, sets: Predictions, k: int, ring: int, key: float, position: int, id_: int) -> bool:
    """Whether the object belongs to the predicted top-k of the window at `ring`."""
    worst = sets.heaps[ring, 0]
    return sets.sizes[ring] < k or beats(key, position, id_, pool.keys[worst], pool.positions[worst], pool.ids[worst])


@inner_kernel
def sift_up(pool: Pool, sets: Predictions, ring: int, at: int, slot: int) -> None:
    """Insert `slot` into the heap from the free index `at`, moving it up past better objects."""
    heaps = sets.heaps
    while at > 0:
        parent = (at - 1) >> 1
        if not is_better(pool, heaps[ring, parent], slot):
            break
        heaps[ring, at] = heaps[ring, parent]
        at = parent
    heaps[ring, at] = slot


@inner_kernel
def sift_down(pool: Pool, sets: Predictions, ring: int, size: int, slot: int) -> None:
    """Insert `slot` into the heap from the free root, moving it down past worse objects."""
    heaps, at = sets.heaps, 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and is_better(pool, heaps[ring, child], heaps[ring, child + 1]):
            child += 1
        if not is_better(pool, slot, heaps[ring, child]):
            break
        heaps[ring, at] = heaps[ring, child]
        at = child
    heaps[ring, at] = slot


@inner_kernel
def release(pool: Pool, slot: int) -> None:
    """Decrement the object's reference count; free its slot at 0."""
    pool.references[slot] -= 1
    if pool.references[slot] == 0:
        pool.references[slot] = -2 - pool.registers[FREE]
        pool.registers[FREE] = slot
        pool.registers[OBJECTS] -= 1


@kernel
def offer(pool: Pool, sets: Predictions, k: int, key: float, position: int, id_: int) -> None:
    """Add an object that the newest window's set accepts to that set and to all others that accept it."""
    slot = pool.registers[FREE]
    pool.registers[FREE] = -2 - pool.references[slot]
    pool.registers[OBJECTS] += 1
    pool.keys[slot], pool.positions[slot], pool.ids[slot] = key, position, id_
    pool.references[slot] = 0
    # The worst object of a window gets worse as the window's number grows (Lemma 4.2): stop at the first window that
    # rejects the new object.
    for w in range(sets.registers[NEWEST], sets.registers[OLDEST] - 1, -1):
        ring = w % sets.sizes.size
        if not is_wanted(pool, sets, k, ring, key, position, id_):
            break
        pool.references[slot] += 1
        size = sets.sizes[ring]
        if size < k:
            sets.sizes[ring] = size + 1
            sift_up(pool, sets, ring, size, slot)
        else:
            release(pool, sets.heaps[ring, 0])
            sift_down(pool, sets, ring, size, slot)


@kernel
def write_answer(pool: Pool, sets: Predictions, end: int, answers: Answers) -> None:
    """Write the oldest window's set, best first. This sorts its heap."""
    ring = sets.registers[OLDEST] % sets.sizes.size
    heaps, size = sets.heaps, sets.sizes[ring]
    for last in range(size - 1, 0, -1):
        slot = heaps[ring, last]
        heaps[ring, last] = heaps[ring, 0]
        sift_down(pool, sets, ring, last, slot)
    for i in range(size):
        write_row(answers, pool.keys[heaps[ring, i]], pool.ids[heaps[ring, i]])
    close_window(answers, 0, end)


@kernel
def purge_oldest(pool: Pool, sets: Predictions) -> None:
    """Drop the oldest window and all its references."""
    ring = sets.registers[OLDEST] % sets.sizes.size
    for i in range(sets.sizes[ring]):
        release(pool, sets.heaps[ring, i])
    sets.sizes[ring] = 0
    sets.registers[OLDEST] += 1


@kernel
def open_windows(pool: Pool, sets: Predictions, query: KernelQuery, position: int) -> None:
    """Open every window that begins at or before `position` and is not open yet."""
    r = sets.registers
    if pool.registers[OBJECTS] == 0:
        # The pool is empty: windows that ended or began since the last object contain no object.
        r[OLDEST] = (end_after(query, position) - query.origin) // query.slide
        r[NEWEST] = r[OLDEST] - 1
    newest = (position + query.size - query.origin) // query.slide
    for w in range(r[NEWEST] + 1, newest + 1):
        sets.sizes[w % sets.sizes.size] = 0
    r[NEWEST] = newest


@kernel
def lacks_room(pool: Pool, sets: Predictions, k: int) -> bool:
    """Whether one more object may not fit: no slot is free, or the oldest set, the largest, has filled its heap."""
    width: int = sets.heaps.shape[1]
    fullest: int = sets.sizes[sets.registers[OLDEST] % sets.sizes.size]
    return bool(pool.registers[FREE] == NO_SLOT or (width < k and fullest == width))


@kernel
def advance(
    pool: Pool,
    sets: Predictions,
    query: KernelQuery,
    rows: Rows,
    at: int,
    watermark: int,
    first: int,
    answers: Answers,
) -> tuple[int, int]:
    """Process the rows from index `at` on and answer all windows that end at or before the watermark."""
    r, n, k, i = sets.registers, rows.keys.size, query.k, at
    while True:
        due = position_at(rows, i) if i < n else watermark
        while pool.registers[OBJECTS] > 0:
            end = query.origin + r[OLDEST] * query.slide
            if end > due:
                break
            if is_reported(query, end, first):
                if not has_room(answers, sets.sizes[r[OLDEST] % sets.sizes.size]):
                    return ANSWERS_FULL, i
                write_answer(pool, sets, end, answers)
            purge_oldest(pool, sets)
        if i == n:
            return DONE, n
        open_windows(pool, sets, query, due)
        # The newest window does not change before the boundary, so a new object has to enter the same set until then.
        boundary = min(
            query.origin + r[OLDEST] * query.slide,
            query.origin + (r[NEWEST] + 1) * query.slide - query.size,
        )
        ring = r[NEWEST] % sets.sizes.size
        bar = pool.keys[sets.heaps[ring, 0]] if sets.sizes[ring] == k else -np.inf
        while i < n:
            position = position_at(rows, i)
            if position >= boundary:
                break
            key = rows.keys[i]
            if key >= bar:
                id_ = id_at(rows, i)
                if is_wanted(pool, sets, k, ring, key, position, id_):
                    if lacks_room(pool, sets, k):
                        return STATE_FULL, i
                    offer(pool, sets, k, key, position, id_)
                    if sets.sizes[ring] == k:
                        bar = pool.keys[sets.heaps[ring, 0]]
            i += 1
