"""Objects that were dropped while windows still contain tuples of them: Bloom filters with an expiry.

An object that returns after all its instances were dropped lacks its earlier tuples. An exact record of dropped objects
would be as large as what the approximate methods save. A Bloom filter has no false negatives: an object that is not
found has lost nothing, so its score is exact. One that is found by mistake is only flagged without need.

Each filter has the objects whose last window with a lost tuple is in one span of windows. A window covers about
`SPANS` spans. A filter is reused when its span is over.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.stream import Ints

SPANS = 4  # filters per window
FILTERS = SPANS + 2  # windows of dropped objects are not aligned with spans
BITS_PER_OBJECT = 12
_LEAST = 1 << 10  # bits of a filter at first
_HASHES = 3
_SHIFT = 20  # bits of a hash between two places; a filter with more bits uses them for two places
_NEVER = -(2**63) + 1

# Losses.registers
WINDOWS = 0  # windows per span
UNKNOWN = 1  # the last window of which losses are unknown, because an older version stored the state


class Losses(NamedTuple):
    """The filters, by span modulo their number."""

    bits: NDArray[np.uint8]  # (filters, bytes)
    spans: Ints  # the span of each filter, smaller than any other if it is empty
    counts: Ints  # the number of objects in it
    registers: Ints


def empty_losses(lossy: bool) -> Losses:
    """Return empty filters; without space if nothing is ever lost."""
    filters = FILTERS if lossy else 0
    return Losses(
        np.zeros((filters, _LEAST // 8), np.uint8),
        np.full(filters, _NEVER, np.int64),
        np.zeros(filters, np.int64),
        np.array([1, _NEVER], np.int64),
    )


def windows_per_span(size: int, every: int) -> int:
    """Return the number of windows per filter. A tuple is in at most ``size // every + 1`` windows."""
    return -(-(size // every + 1) // SPANS)


def doubled(losses: Losses) -> Losses:
    """Return filters with twice as many bits. Objects are found as before: a place is a hash modulo the size."""
    return losses._replace(bits=np.ascontiguousarray(np.tile(losses.bits, 2)))


def is_full(losses: Losses) -> bool:
    """Return whether more bits are needed."""
    return bool(losses.counts.size and BITS_PER_OBJECT * losses.counts.max() > 8 * losses.bits.shape[1])


@inner_kernel
def _place(losses: Losses, mark: int, number: int) -> int:
    return (mark >> (number * _SHIFT)) & (8 * losses.bits.shape[1] - 1)


@kernel
def note_lost(losses: Losses, mark: int, until: int) -> None:
    """Record that windows up to `until` lack a tuple of the object with the hash `mark`."""
    span = until // losses.registers[WINDOWS]
    at = span % losses.spans.size
    if losses.spans[at] != span:
        losses.spans[at] = span
        losses.counts[at] = 0
        losses.bits[at, :] = 0
    losses.counts[at] += 1
    for number in range(_HASHES):
        place = _place(losses, mark, number)
        losses.bits[at, place >> 3] |= np.uint8(1 << (place & 7))


@kernel
def lost_until(losses: Losses, mark: int, upcoming: int) -> int:
    """Return the last window, from `upcoming` on, that may lack a tuple of the object, or a window before it."""
    found = losses.registers[UNKNOWN]
    for at in range(losses.spans.size):
        last = (losses.spans[at] + 1) * losses.registers[WINDOWS] - 1
        if last < upcoming or last <= found or losses.counts[at] == 0:
            continue
        there = True
        for number in range(_HASHES):
            place = _place(losses, mark, number)
            there = there and (losses.bits[at, place >> 3] >> (place & 7)) & 1 != 0
        if there:
            found = last
    return found
