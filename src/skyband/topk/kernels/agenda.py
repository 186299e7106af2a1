"""What happens next? A heap of things to do, by the moment they are due, some of them idle."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import kernel
from skyband.kernels.stream import Ints


class Agenda(NamedTuple):
    """Heap order: by moment, then by rank, so that what is due together comes in a set order."""

    heap: Ints  # the things that have a moment, the first due at 0, and behind them the idle ones
    due: Ints  # per thing: its moment; meaningless while it is idle
    ranks: Ints  # per thing: its rank among those due together
    busy: Ints  # one number: how many are not idle


def idle_agenda(things: int) -> Agenda:
    """An agenda on which nothing is due."""
    numbers = np.arange(things, dtype=np.int64)
    return Agenda(numbers.copy(), np.zeros(things, np.int64), numbers.copy(), np.zeros(1, np.int64))


@kernel
def sooner(agenda: Agenda, a: int, b: int) -> bool:
    """Whether `a` is due before `b`."""
    if agenda.due[a] != agenda.due[b]:
        return bool(agenda.due[a] < agenda.due[b])
    return bool(agenda.ranks[a] < agenda.ranks[b])


@kernel
def settle_first(agenda: Agenda) -> None:
    """What was due first has a later moment or rank now: restore the heap."""
    heap, n, at = agenda.heap, agenda.busy[0], 0
    thing = heap[0]
    while True:
        child = 2 * at + 1
        if child >= n:
            break
        if child + 1 < n and sooner(agenda, heap[child + 1], heap[child]):
            child += 1
        if not sooner(agenda, heap[child], thing):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = thing


@kernel
def put_off_first(agenda: Agenda) -> None:
    """What was due first becomes idle."""
    heap = agenda.heap
    last = agenda.busy[0] - 1
    heap[0], heap[last] = heap[last], heap[0]
    agenda.busy[0] = last
    settle_first(agenda)


@kernel
def call_up(agenda: Agenda, moment: int, rank: int) -> None:
    """The first of the idle things, ``heap[busy]``, gets a moment and a rank."""
    heap, at = agenda.heap, agenda.busy[0]
    thing = heap[at]
    agenda.due[thing], agenda.ranks[thing] = moment, rank
    agenda.busy[0] = at + 1
    while at > 0:
        parent = (at - 1) >> 1
        if not sooner(agenda, thing, heap[parent]):
            break
        heap[at] = heap[parent]
        at = parent
    heap[at] = thing
