"""The k best entities of windows, each with its best row; rows of a group are in stream order.

A row is better than another if its key is higher, or equal and it is later in the stream. A row at position p is needed
iff a window that is not answered contains it in which no row of its entity is better and fewer than k other entities
have a better row. Both are most likely in the window with the latest start s <= p, so that start decides alone. Rows
are visited best first, with the newest position of each entity so far: the row is dropped if its own entity, or the
k-th newest of all entities, has been seen at or after s. What remains is exactly the union of the answers of all open
windows.
"""

from __future__ import annotations

import numpy as np

from skyband.kernels._jit import allocating_kernel
from skyband.kernels.stream import Floats, Ints

_NOTHING = -(2**63) + 1


@allocating_kernel
def needed_rows(
    rows: Ints, positions: Ints, entities: Ints, starts: Ints, window: int, k: int, newest: Ints, kept: Ints
) -> int:
    """Write the rows (best first) that windows from `window` on need to `kept`; return how many.

    `newest` has an entry for each entity, which must be `_NOTHING`; it is restored.
    """
    size, held, lowest = 0, 0, 0
    heap, owners = np.empty(k, np.int64), np.empty(k, np.int64)  # the k newest entities
    for row in rows:
        at, entity = positions[row], entities[row]
        if window >= starts.size or at < starts[window]:
            continue
        start = starts[np.searchsorted(starts, at, side="right") - 1]
        if newest[entity] >= start or (held == k and heap[lowest] >= start):
            continue
        kept[size] = row
        size += 1
        newest[entity] = at
        place = -1
        for slot in range(held):
            if owners[slot] == entity:
                place = slot
        if place < 0 and held < k:
            place = held
            held += 1
        elif place < 0 and heap[lowest] < at:
            place = lowest
        if place >= 0:
            heap[place], owners[place] = at, entity
            lowest = 0
            for slot in range(1, held):
                if heap[slot] < heap[lowest]:
                    lowest = slot
    for i in range(size):
        newest[entities[kept[i]]] = _NOTHING
    return size


@allocating_kernel
def rank_windows(
    keys: Floats,
    positions: Ints,
    entities: Ints,
    begins: Ints,
    starts: Ints,
    ends: Ints,
    k: int,
    answered: Ints,
    until: Ints,
) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Return group, window and number of rows of each answer, all rows of answers, and the rows that are still needed.

    Windows that end in ``(answered, until]`` of their group are answered.
    """
    groups, rows_of, needed_of = begins.size - 1, 0, 0
    answers = 0
    owners, windows, counts = np.empty(64, np.int64), np.empty(64, np.int64), np.empty(64, np.int64)
    rows, needed = np.empty(256, np.int64), np.empty(positions.size, np.int64)
    newest = np.full(entities.max() + 1 if entities.size else 1, _NOTHING)
    stamps = np.full(newest.size, -1)
    stamp = 0
    for group in range(groups):
        at, stop = begins[group], begins[group + 1]
        held = np.empty(0, np.int64)
        window = np.searchsorted(ends, answered[group], side="right")
        while True:
            if not held.size:
                if at == stop:
                    break
                window = max(window, np.searchsorted(ends, positions[at], side="right"))
            last = window >= ends.size or ends[window] > until[group]
            upto = at
            while upto < stop and (last or positions[upto] < ends[window]):
                upto += 1
            fresh = np.argsort(keys[at:upto], kind="mergesort")[::-1] + at
            merged = np.empty(held.size + fresh.size, np.int64)
            i, j = 0, 0
            for place in range(merged.size):
                if j == fresh.size or (i < held.size and keys[held[i]] > keys[fresh[j]]):
                    merged[place] = held[i]
                    i += 1
                else:
                    merged[place] = fresh[j]
                    j += 1
            at = upto
            kept = np.empty(merged.size, np.int64)
            size = needed_rows(merged, positions, entities, starts, window, k, newest, kept)
            held = kept[:size]
            if last:
                needed[needed_of : needed_of + size] = held
                needed_of += size
                break
            if rows_of + k > rows.size:
                more = np.empty(2 * rows.size + k, np.int64)
                more[:rows_of] = rows[:rows_of]
                rows = more
            if answers == owners.size:
                owners, windows, counts = (
                    np.append(owners, owners),
                    np.append(windows, windows),
                    np.append(counts, counts),
                )
            found = 0
            for row in held:
                if positions[row] >= starts[window] and stamps[entities[row]] != stamp:
                    stamps[entities[row]] = stamp
                    rows[rows_of + found] = row
                    found += 1
                    if found == k:
                        break
            stamp += 1
            if found:
                owners[answers], windows[answers], counts[answers] = group, window, found
                answers += 1
                rows_of += found
            window += 1
    return owners[:answers], windows[:answers], counts[:answers], rows[:rows_of], needed[:needed_of]


@allocating_kernel
def mark_unbeaten(keys: Floats, entities: Ints, begins: Ints, k: int, kept: Ints) -> None:
    """Mark rows of a batch that neither a later row of their entity nor later rows of k entities beat.

    Rows are in the order of time, and no window ends inside a range of `begins`. Only higher keys beat a row: of equal
    ones the order may depend on ids.
    """
    best = np.full(entities.max() + 1 if entities.size else 1, -np.inf)
    seen = np.full(best.size, -1)
    heap, owners = np.empty(k), np.empty(k, np.int64)
    for part in range(begins.size - 1):
        held, lowest = 0, 0
        for row in range(begins[part + 1] - 1, begins[part] - 1, -1):
            key, entity = keys[row], entities[row]
            own = seen[entity] == part
            if (own and key < best[entity]) or (held == k and key < heap[lowest]):
                continue
            kept[row] = 1
            seen[entity], best[entity] = part, key
            place = -1
            for slot in range(held):
                if owners[slot] == entity:
                    place = slot
            if place < 0 and held < k:
                place = held
                held += 1
            elif place < 0 and heap[lowest] < key:
                place = lowest
            if place >= 0:
                heap[place], owners[place] = key, entity
                lowest = 0
                for slot in range(1, held):
                    if heap[slot] < heap[lowest]:
                        lowest = slot
