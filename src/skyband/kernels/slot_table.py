"""A hash table from numbers, or the hashes of texts, to slots: small integers, which are used again.

Each number has an owner, for example the group of a key: the same number of another owner has another slot. An entry
is in one cache line: the number, and its owner with its slot. Linear probing; at most half of the places are used. The
place follows from the highest bits of a hash, so the entries of a larger table are in the same order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels._prefetch import prefetch
from skyband.kernels.stream import Ints

# SlotTable.counters
USED = 0  # number of slots ever used: those from here on are new
FREE = 1  # number of slots in `free`
TAKEN = 2  # rows processed so far
WRITTEN = 3  # bytes of texts in use

FULL = -1  # instead of a slot: there is none left
_AHEAD = 12  # how many rows before its use an entry is loaded
_OWNER = 32  # bits of an entry for the slot
_SLOT = 2**_OWNER - 1
# Products of a number below 2**32 and one of these do not overflow: the compiler assumes that signed numbers never do.
_FIRST, _SECOND, _THIRD, _FOURTH = 0x5BD1E995, 0x7ED55D17, 0x61C88647, 0x4F1BBCDD
_HALF, _LOW_32, _LOW_31 = 32, 2**32 - 1, 2**31 - 1


class SlotTable(NamedTuple):
    """The table, and the slots."""

    entries: Ints  # two per place: the number; then owner and slot, 0 if the place is free
    owners: Ints  # per slot
    used: Any  # per slot: bool
    free: Ints  # slots to use again
    counters: Ints


class Texts(NamedTuple):
    """The texts in slots."""

    letters: Any  # uint8: the bytes of all texts
    begins: Ints  # per slot: where its bytes begin
    lengths: Ints  # per slot
    prefix: Ints  # per slot: its first eight bytes, as an integer in the same order


def empty_entries(slots: int) -> Ints:
    """Return the entries of a table for this number of slots, a power of two."""
    return np.zeros(4 * slots, np.int64)


@inner_kernel
def _shift_of(entries: Ints) -> int:
    """Return how far a hash is shifted to give a place."""
    shift, places = 63, entries.size >> 1
    while places > 1:
        shift, places = shift - 1, places >> 1
    return shift


@inner_kernel
def _home(number: int, owner: int, shift: int) -> int:
    """Return the place where a number of an owner belongs, if it is free."""
    mixed = ((number & _LOW_32) * _FIRST) ^ (((number >> _HALF) & _LOW_32) * _SECOND) ^ (owner * _THIRD)
    return (((mixed ^ (mixed >> _HALF)) & _LOW_32) * _FOURTH) >> shift


@inner_kernel
def _code(owner: int, slot: int) -> int:
    return (int(owner) << _OWNER) | (int(slot) + 1)


@inner_kernel
def _next_slot(table: SlotTable) -> int:
    """Return a slot that is not used, or FULL."""
    counters = table.counters
    if counters[FREE]:
        counters[FREE] -= 1
        return int(table.free[counters[FREE]])
    if counters[USED] < table.owners.size:
        counters[USED] += 1
        return int(counters[USED]) - 1
    return FULL


@kernel
def enter_numbers(table: SlotTable, numbers: Ints, owners: Ints, values: Ints, found: Ints) -> None:
    """Write the slot of each row to `found`, until all rows are processed or there is no slot for a new number.

    `numbers` has the number in each slot, `values` that of each row. `owners` is empty if all rows have the owner 0.
    """
    entries, counters = table.entries, table.counters
    shift, last = _shift_of(entries), (entries.size >> 1) - 1
    for i in range(counters[TAKEN], values.size):
        later = min(i + _AHEAD, values.size - 1)
        prefetch(entries, 2 * _home(values[later], owners[later] if owners.size else 0, shift))
        owner = owners[i] if owners.size else 0
        at = _home(values[i], owner, shift)
        code = entries[2 * at + 1]
        while code and (entries[2 * at] != values[i] or code >> _OWNER != owner):
            at = (at + 1) & last
            code = entries[2 * at + 1]
        if code == 0:
            slot = _next_slot(table)
            if slot == FULL:
                counters[TAKEN] = i
                return
            code = _code(owner, slot)
            entries[2 * at], entries[2 * at + 1] = values[i], code
            numbers[slot], table.owners[slot], table.used[slot] = values[i], owner, True
        found[i] = (code & _SLOT) - 1
    counters[TAKEN] = values.size


@inner_kernel
def _read(letters: Any, begin: int, size: int) -> int:
    """Return up to eight bytes as a number."""
    word = 0
    for at in range(begin, begin + size):
        word = (word << 8) | int(letters[at])
    return word


@inner_kernel
def hash_of(letters: Any, begin: int, length: int, seed: int) -> int:
    """Return a hash of the bytes of a text, of 63 bits. `seed` is below 2**62."""
    found, end = int(seed) ^ int(length), begin + length
    while begin < end:
        size = min(7, end - begin)
        found ^= _read(letters, begin, size)
        found = ((found & _LOW_32) * _FIRST) ^ ((found >> _HALF) * _SECOND)
        found = (found >> 31) | ((found & _LOW_31) << _HALF)
        begin += size
    return found


@inner_kernel
def _is_text(texts: Texts, slot: int, letters: Any, begin: int, length: int) -> bool:
    """Return whether the text in a slot has these bytes."""
    if texts.lengths[slot] != length:
        return False
    own = texts.begins[slot]
    for i in range(length):  # noqa: SIM110 - kernels have no generators
        if texts.letters[own + i] != letters[begin + i]:
            return False
    return True


@inner_kernel
def prefix_of(letters: Any, begin: int, length: int) -> int:
    """Return the first eight bytes of a text as an int64 in the same order."""
    first = int(letters[begin]) if length else 0
    rest = _read(letters, begin + 1, min(7, length - 1)) << (8 * (7 - min(7, length - 1))) if length > 1 else 0
    return ((first - 128) << 56) | rest


@kernel
def enter_texts(
    table: SlotTable, texts: Texts, owners: Ints, letters: Any, begins: Ints, lengths: Ints, seed: int, found: Ints
) -> None:
    """Write the slot of each row to `found`, until all rows are processed or there is no space for a new text."""
    entries, counters = table.entries, table.counters
    shift, last = _shift_of(entries), (entries.size >> 1) - 1
    for i in range(counters[TAKEN], begins.size):
        owner = owners[i] if owners.size else 0
        number = hash_of(letters, begins[i], lengths[i], seed)
        at = _home(number, owner, shift)
        code = entries[2 * at + 1]
        while code and (
            entries[2 * at] != number
            or code >> _OWNER != owner
            or not _is_text(texts, (code & _SLOT) - 1, letters, begins[i], lengths[i])
        ):
            at = (at + 1) & last
            code = entries[2 * at + 1]
        if code == 0:
            written = counters[WRITTEN]
            slot = _next_slot(table) if written + lengths[i] <= texts.letters.size else FULL
            if slot == FULL:
                counters[TAKEN] = i
                return
            code = _code(owner, slot)
            entries[2 * at], entries[2 * at + 1] = number, code
            table.owners[slot], table.used[slot] = owner, True
            texts.begins[slot], texts.lengths[slot] = written, lengths[i]
            texts.prefix[slot] = prefix_of(letters, begins[i], lengths[i])
            for byte in range(lengths[i]):
                texts.letters[written + byte] = letters[begins[i] + byte]
            counters[WRITTEN] += lengths[i]
        found[i] = (code & _SLOT) - 1
    counters[TAKEN] = begins.size


@kernel
def hash_texts(texts: Texts, slots: Ints, seed: int, hashes: Ints) -> None:
    """Write the hashes of the texts in these slots, and set their prefixes."""
    for i in range(slots.size):
        begin, length = texts.begins[slots[i]], texts.lengths[slots[i]]
        hashes[i] = hash_of(texts.letters, begin, length, seed)
        texts.prefix[slots[i]] = prefix_of(texts.letters, begin, length)


@kernel
def copy_texts(texts: Texts, slots: Ints, letters: Any, ends: Ints) -> None:
    """Copy the texts in these slots to `letters`, one after another; none for negative slots. `ends` are their ends."""
    end = 0
    for i in range(slots.size):
        if slots[i] >= 0:
            begin = texts.begins[slots[i]]
            for byte in range(texts.lengths[slots[i]]):
                letters[end + byte] = texts.letters[begin + byte]
            end += texts.lengths[slots[i]]
        ends[i] = end


@inner_kernel
def _put(entries: Ints, shift: int, number: int, code: int) -> None:
    """Add an entry that the table does not contain."""
    last = (entries.size >> 1) - 1
    at = _home(number, code >> _OWNER, shift)
    while entries[2 * at + 1]:
        at = (at + 1) & last
    entries[2 * at], entries[2 * at + 1] = number, code


@kernel
def put_slots(table: SlotTable, slots: Ints, numbers: Ints) -> None:
    """Add the entries of slots with these numbers; the table does not contain them."""
    shift = _shift_of(table.entries)
    for i in range(slots.size):
        _put(table.entries, shift, numbers[i], _code(table.owners[slots[i]], slots[i]))


@kernel
def move_entries(entries: Ints, used: Any, to: Ints) -> None:
    """Add the entries of used slots to an empty table."""
    shift = _shift_of(to)
    for at in range(entries.size >> 1):
        code = entries[2 * at + 1]
        if code and used[(code & _SLOT) - 1]:
            _put(to, shift, entries[2 * at], code)
