"""Which objects several streams report, if some of them are to be in common: constant work a tuple and stream."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skyband.kernels._jit import allocating_kernel, kernel
from skyband.kernels.stream import Floats, Ints

Bools = NDArray[np.bool_]


class _Pools(NamedTuple):
    """For each stream the objects it may report again: recent in another stream, and not yet reported to the full."""

    members: Ints  # (streams, objects): the first `sizes` of a row
    sizes: Ints
    places: Ints  # (objects, streams): where in its row an object stands, -1: not there
    windows: Ints  # (objects, streams): how often it is among a stream's recent ones
    sent: Ints  # (objects, streams): how often a stream has reported it


@kernel
def _settle(pools: _Pools, object_: int, occurrences: int) -> None:
    """Put the object into the pools it belongs to, and out of all others."""
    windows, d = pools.windows[object_], pools.sizes.size
    total = 0
    for stream in range(d):
        total += windows[stream]
    for stream in range(d):
        wanted = total > windows[stream] and pools.sent[object_, stream] < occurrences
        place = pools.places[object_, stream]
        if wanted and place < 0:
            pools.members[stream, pools.sizes[stream]] = object_
            pools.places[object_, stream] = pools.sizes[stream]
            pools.sizes[stream] += 1
        elif place >= 0 and not wanted:
            pools.sizes[stream] -= 1
            last = pools.members[stream, pools.sizes[stream]]
            pools.members[stream, place] = last
            pools.places[last, stream] = place
            pools.places[object_, stream] = -1


@allocating_kernel
def draw_objects(streams: Ints, again: Bools, choices: Floats, d: int, recent: int, occurrences: int) -> Ints:
    """The object of each tuple, given its stream, whether it is to be a known one, and a number in [0, 1) to choose."""
    n = streams.size
    # No pool has more than the recent objects of the other streams, and one that is about to leave.
    pools = _Pools(
        np.zeros((d, min(n, d * recent) + 1), np.int32),
        np.zeros(d, np.int64),
        np.full((n, d), -1, np.int32),
        np.zeros((n, d), np.int32),
        np.zeros((n, d), np.int32),
    )
    rings = np.full((d, recent), -1, np.int64)
    heads = np.zeros(d, np.int64)
    objects = np.zeros(n, np.int64)
    fresh = 0
    for i in range(n):
        stream = streams[i]
        size = pools.sizes[stream]
        if again[i] and size > 0:
            object_ = int(pools.members[stream, min(int(choices[i] * size), size - 1)])
        else:
            object_ = fresh
            fresh += 1
        objects[i] = object_
        left = rings[stream, heads[stream]]
        rings[stream, heads[stream]] = object_
        heads[stream] = (heads[stream] + 1) % recent
        pools.sent[object_, stream] += 1
        pools.windows[object_, stream] += 1
        if left >= 0:
            pools.windows[left, stream] -= 1
            _settle(pools, left, occurrences)
        _settle(pools, object_, occurrences)
    return objects
