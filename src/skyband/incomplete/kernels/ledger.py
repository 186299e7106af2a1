"""A ledger of occurrences: it limits the tuples per object and stream in a window to the declared number.

The ledger stores every tuple of the window, including those of objects that no answer needs any more. This is
necessary: two inputs that differ only in whether an already dropped tuple is repeated have different answers. So exact
answers without a guarantee about repetitions cost a few words per tuple, for any query.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import kernel
from skyband.kernels.lookup import EMPTY, Lookup, drop, empty_lookup, place_of, put
from skyband.kernels.stream import Ints

# Ledger.registers
FIRST = 0  # number of the oldest tuple in the ledger; it only grows
NEXT = 1  # number of the next tuple


class OccurrenceLedger(NamedTuple):
    """A ring of the tuples in the window, oldest first, and their number per object and stream."""

    objects: Ints
    streams: Ints
    positions: Ints
    counts: Lookup
    registers: Ints


def empty_ledger(room: int) -> OccurrenceLedger:
    """Return an empty ledger for `room` tuples, a power of two."""
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
    """Write the admitted rows to `taken` and return their number. There must be space for all of them.

    A tuple is admitted unless its oldest window already contains `occurrences` tuples of its object and stream. That
    window reaches back furthest of all windows with the tuple. Without `positions` (count windows), the position is the
    number of tuples admitted before, starting with `first`.
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
    """Fill an empty ledger with tuples, sorted oldest first."""
    for row in range(objects.size):
        ledger.objects[row] = objects[row]
        ledger.streams[row] = streams[row]
        ledger.positions[row] = positions[row]
        at = place_of(ledger.counts, objects[row], streams[row])
        count = ledger.counts.found[at]
        put(ledger.counts, at, objects[row], streams[row], 1 if count == EMPTY else count + 1)
    ledger.registers[NEXT] = objects.size
