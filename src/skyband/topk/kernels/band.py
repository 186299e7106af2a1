"""The k-skyband of a stretch of the stream in one backward pass, against a heap of the k best met so far."""

from __future__ import annotations

from skyband.kernels._jit import kernel
from skyband.kernels.order import beats
from skyband.kernels.stream import Ints, Ties
from skyband.topk.kernels.open_pane import SIZE, OpenPane


@kernel
def worse(pane: OpenPane, a: int, b: int) -> bool:
    """Whether the pane's object `a` ranks after `b`."""
    return beats(pane.keys[b], pane.positions[b], pane.ids[b], pane.keys[a], pane.positions[a], pane.ids[a])


@kernel
def push_or_replace(pane: OpenPane, heap: Ints, size: int, k: int, place: int) -> int:
    """Put `place` into the heap of the k best, worst at the root; return its size. A full heap loses its root."""
    if size < k:
        at = size
        while at > 0 and worse(pane, place, heap[(at - 1) // 2]):
            heap[at] = heap[(at - 1) // 2]
            at = (at - 1) // 2
        heap[at] = place
        return size + 1
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and worse(pane, heap[child + 1], heap[child]):
            child += 1
        if not worse(pane, heap[child], place):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = place
    return size


@kernel
def keep_band(pane: OpenPane, k: int, ties: Ties, heap: Ints) -> None:
    """Of an open pane in stream order keep what fewer than k later objects beat."""
    # Backwards, against the k best met so far: whoever beats their worst is beaten by fewer than k. Where ties are in,
    # so is whoever equals it; but then the k best need not change for it.
    n = pane.registers[SIZE]
    keys, positions, ids = pane.keys, pane.positions, pane.ids
    size, to = 0, n
    for i in range(n - 1, -1, -1):
        tie = False
        if size == k:
            worst = heap[0]
            tie = ties is not None and keys[i] == keys[worst]
            if not tie and not beats(keys[i], positions[i], ids[i], keys[worst], positions[worst], ids[worst]):
                continue
        # Kept objects move to the back as they are met, so that the heap can name them by place.
        to -= 1
        keys[to], positions[to], ids[to] = keys[i], positions[i], ids[i]
        if not tie:
            size = push_or_replace(pane, heap, size, k, to)
    for i in range(to, n):
        keys[i - to], positions[i - to], ids[i - to] = keys[i], positions[i], ids[i]
    pane.registers[SIZE] = n - to
