"""Draw the objects that several streams report, some of them shared; constant work per tuple."""

from __future__ import annotations

import numpy as np

from skyband.kernels._jit import allocating_kernel
from skyband.kernels.stream import Bools, Floats, Ints


@allocating_kernel
def draw_objects(streams: Ints, again: Bools, choices: Floats, d: int, recent: int, occurrences: int) -> Ints:
    """Return the object of each tuple, given its stream, whether it may be known, and a random number in [0, 1)."""
    n = streams.size
    objects = np.zeros(n, np.int64)
    sent = np.zeros((n, d), np.int32)  # how often a stream has reported an object
    rings = np.zeros((d, recent), np.int64)  # the last objects of each stream
    counts = np.zeros(d, np.int64)
    fresh = 0
    for i in range(n):
        stream = streams[i]
        total = 0
        for other in range(d):
            if other != stream:
                total += min(counts[other], recent)
        object_ = -1
        if again[i] and total > 0:
            place = min(int(choices[i] * total), total - 1)
            other = 0
            while other == stream or place >= min(counts[other], recent):
                place -= 0 if other == stream else min(counts[other], recent)
                other += 1
            object_ = rings[other, place]
            if sent[object_, stream] >= occurrences:
                object_ = -1
        if object_ < 0:
            object_ = fresh
            fresh += 1
        objects[i] = object_
        sent[object_, stream] += 1
        rings[stream, counts[stream] % recent] = object_
        counts[stream] += 1
    return objects
