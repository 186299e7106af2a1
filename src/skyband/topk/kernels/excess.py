"""Size of the k-skyband of a short sequence of scores."""

from __future__ import annotations

from skyband.kernels._jit import kernel
from skyband.kernels.reduce import put, sinks
from skyband.kernels.stream import Floats, Ints


@kernel
def skyband_size(keys: Floats, k: int, heap_keys: Floats, heap_positions: Ints) -> int:
    """Return the number of objects that fewer than k later ones beat. Of equal keys, the later one beats the other.

    The heaps have room for k entries.
    """
    size = kept = 0
    for i in range(keys.size - 1, -1, -1):
        if size == k and sinks(keys[i], i, heap_keys[0], heap_positions[0]):
            continue
        kept += 1
        size = put(heap_keys, heap_positions, size, k, keys[i], i)
    return kept
