"""Who was reported how often: no window may hold more tuples of one object in one stream than were declared.

To know that, every tuple of the window must be remembered, also those of objects that no answer needs any more: two
streams that differ only in whether a tuple long dropped is reported again have different answers. So this is what it
takes to be exact where nobody promises that objects are reported seldom enough: some words a tuple, whatever is asked.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import kernel
from skyband.kernels.lookup import EMPTY, Lookup, drop, empty_lookup, place_of, put
from skyband.kernels.stream import Ints

# Ledger.registers
FIRST = 0  # the oldest tuple that counts, a number that only grows
NEXT = 1  # the number of the next tuple


class OccurrenceLedger(NamedTuple):
    """The tuples of the window, oldest first, going round; and how many there are of each object and stream."""

    objects: Ints
    streams: Ints
    positions: Ints
    counts: Lookup
    registers: Ints


def empty_ledger(room: int) -> OccurrenceLedger:
    """A ledger for `room` tuples, a power of two."""
    objects, streams, positions = (np.zeros(room, np.int64) for _ in range(3))
    return OccurrenceLedger(objects, streams, positions, empty_lookup(room), np.zeros(2, np.int64))


@kernel
def admit(
    ledger: OccurrenceLedger,
    occurrences: int,
    size: int,
    every: int,
    origin: int,
    first: int,
    positions: Ints,
    objects: Ints,
    streams: Ints,
    taken: Ints,
) -> int:
    """Write the rows that count into `taken`, and return how many they are; there must be room for all of them.

    A tuple counts unless the oldest window that holds it, which of all its windows reaches back furthest, holds as many
    of its object and stream already as may be. Without `positions` (a count window) it stands at the number of tuples
    that counted before it, from `first` on.
    """
    room = ledger.objects.size
    count = 0
    for row in range(objects.size):
        position = positions[row] if positions.size else first + count
        start = origin + ((position - origin) // every + 1) * every - size
        while ledger.registers[FIRST] < ledger.registers[NEXT]:
            oldest = ledger.registers[FIRST] & (room - 1)
            if ledger.positions[oldest] >= start:
                break
            at = place_of(ledger.counts, ledger.objects[oldest], ledger.streams[oldest])
            ledger.counts.found[at] -= 1
            if ledger.counts.found[at] == 0:
                drop(ledger.counts, at)
            ledger.registers[FIRST] += 1
        at = place_of(ledger.counts, objects[row], streams[row])
        known = ledger.counts.found[at]
        if known == EMPTY:
            put(ledger.counts, at, objects[row], streams[row], 1)
        elif known < occurrences:
            ledger.counts.found[at] += 1
        else:
            continue
        slot = ledger.registers[NEXT] & (room - 1)
        ledger.objects[slot] = objects[row]
        ledger.streams[slot] = streams[row]
        ledger.positions[slot] = position
        ledger.registers[NEXT] += 1
        taken[count] = row
        count += 1
    return count


@kernel
def enter(ledger: OccurrenceLedger, objects: Ints, streams: Ints, positions: Ints) -> None:
    """Fill an empty ledger with tuples, oldest first."""
    for row in range(objects.size):
        ledger.objects[row] = objects[row]
        ledger.streams[row] = streams[row]
        ledger.positions[row] = positions[row]
        at = place_of(ledger.counts, objects[row], streams[row])
        count = ledger.counts.found[at]
        put(ledger.counts, at, objects[row], streams[row], 1 if count == EMPTY else count + 1)
    ledger.registers[NEXT] = objects.size
