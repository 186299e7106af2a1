"""How many better objects outlive each object of a list: counted by a merge sort."""

from __future__ import annotations

from skyband.kernels._jit import kernel
from skyband.kernels.stream import Ints


@kernel
def count_dominators(places: Ints, size: int, source: Ints, target: Ints, dominated: Ints) -> None:
    """For each of the first `size` objects, which come best first: how many better ones have no smaller place.

    A merge sort by place, from the last to the first, that counts who overtakes whom. `source` and `target` are room
    for as many numbers.
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
