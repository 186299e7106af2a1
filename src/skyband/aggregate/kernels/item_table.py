"""A hash table from a key's slot and a number to the slot of an item."""

from __future__ import annotations

from typing import Any

from skyband.aggregate.kernels.partials import NONE
from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.stream import Ints

# Counters
USED = 0  # number of slots ever used: those from here on are new
FREE = 1  # number of slots in `free`
TAKEN = 2  # rows processed so far


@inner_kernel
def place_of(table: Ints, owners: Ints, numbers: Ints, owner: int, number: int) -> int:
    """Return the place of an item in the table, or the empty place where it belongs."""
    mask = table.size - 1
    mixed = number * 0x1F3D5B79A1C2E4D7 + owner * 0x2545F4914F6CDD1D  # both odd; they wrap around
    mixed ^= (mixed >> 32) & 0xFFFFFFFF
    at = (mixed * 0x1E3779B97F4A7C15 >> 20) & mask
    while table[at] != NONE and (owners[table[at]] != owner or numbers[table[at]] != number):
        at = (at + 1) & mask
    return at


@kernel
def enter_items(
    table: Ints,
    owners: Ints,
    numbers: Ints,
    used: Any,
    free: Ints,
    counters: Ints,
    keys: Ints,
    values: Ints,
    found: Ints,
) -> None:
    """Write the slot of each item to `found` until all rows are processed or there is no slot left for a new item."""
    for i in range(counters[TAKEN], keys.size):
        counters[TAKEN] = i
        at = place_of(table, owners, numbers, keys[i], values[i])
        if table[at] == NONE:
            if counters[FREE]:
                counters[FREE] -= 1
                slot = free[counters[FREE]]
            elif counters[USED] < owners.size:
                slot = counters[USED]
                counters[USED] += 1
            else:
                return
            table[at], owners[slot], numbers[slot], used[slot] = slot, keys[i], values[i], True
        found[i] = table[at]
    counters[TAKEN] = keys.size


@kernel
def fill_table(table: Ints, owners: Ints, numbers: Ints, used: Any, slots: int) -> None:
    """Enter all used slots into an empty table."""
    table[:] = NONE
    for slot in range(slots):
        if used[slot]:
            table[place_of(table, owners, numbers, owners[slot], numbers[slot])] = slot
