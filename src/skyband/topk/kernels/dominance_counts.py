"""Count for each object of a list how many better objects outlive it, with a merge sort."""

from __future__ import annotations

from skyband.kernels._jit import kernel
from skyband.kernels.stream import Ints


@kernel
def count_dominators(places: Ints, size: int, source: Ints, target: Ints, dominated: Ints) -> None:
    """For each of the first `size` objects, sorted best first, count the better ones whose place is not smaller.

    A merge sort by place in descending order counts the inversions. `source` and `target` are scratch space for `size`
    numbers each.
    """
    for i in range(size):
        source[i], dominated[i] = i, 0
    width = 1
    while width < size:
        for low in range(0, size, 2 * width):
            middle, high = min(low + width, size), min(low + 2 * width, size)
            i, j = low, middle  # i: the better half, j: the worse half
            for at in range(low, high):
                if j == high or (i < middle and places[source[i]] >= places[source[j]]):
                    target[at] = source[i]
                    i += 1
                else:
                    dominated[source[j]] += i - low
                    target[at] = source[j]
                    j += 1
        source, target = target, source
        width *= 2
