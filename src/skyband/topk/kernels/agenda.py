"""A heap of scheduled items, ordered by due position; items that are not scheduled are idle."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import kernel
from skyband.kernels.stream import Ints


class Agenda(NamedTuple):
    """Heap order: by due position, then by rank, so that items due at the same position have a fixed order."""

    heap: Ints  # the scheduled items, the first due at 0, followed by the idle items
    due: Ints  # per item: its due position; undefined while it is idle
    ranks: Ints  # per item: its rank among items due at the same position
    busy: Ints  # one number: how many items are scheduled


def idle_agenda(things: int) -> Agenda:
    """Return an agenda in which every item is idle."""
    numbers = np.arange(things, dtype=np.int64)
    return Agenda(numbers.copy(), np.zeros(things, np.int64), numbers.copy(), np.zeros(1, np.int64))


@kernel
def is_earlier(agenda: Agenda, a: int, b: int) -> bool:
    """Whether `a` is due before `b`."""
    if agenda.due[a] != agenda.due[b]:
        return bool(agenda.due[a] < agenda.due[b])
    return bool(agenda.ranks[a] < agenda.ranks[b])


@kernel
def sift_first(agenda: Agenda) -> None:
    """Restore the heap after the due position or rank of the first item has increased."""
    heap, n, at = agenda.heap, agenda.busy[0], 0
    thing = heap[0]
    while True:
        child = 2 * at + 1
        if child >= n:
            break
        if child + 1 < n and is_earlier(agenda, heap[child + 1], heap[child]):
            child += 1
        if not is_earlier(agenda, heap[child], thing):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = thing


@kernel
def unschedule_first(agenda: Agenda) -> None:
    """Make the first item idle."""
    heap = agenda.heap
    last = agenda.busy[0] - 1
    heap[0], heap[last] = heap[last], heap[0]
    agenda.busy[0] = last
    sift_first(agenda)


@kernel
def schedule(agenda: Agenda, moment: int, rank: int) -> None:
    """Schedule the first idle item, ``heap[busy]``, at a due position with a rank."""
    heap, at = agenda.heap, agenda.busy[0]
    thing = heap[at]
    agenda.due[thing], agenda.ranks[thing] = moment, rank
    agenda.busy[0] = at + 1
    while at > 0:
        parent = (at - 1) >> 1
        if not is_earlier(agenda, thing, heap[parent]):
            break
        heap[at] = heap[parent]
        at = parent
    heap[at] = thing
