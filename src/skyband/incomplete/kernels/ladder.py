"""Slots in the order of a value, by rungs: each rung holds the values from one step to the next, in no order.

A slot is put in or taken out without touching others; a range of values is walked rung by rung. The steps are chosen
from the values themselves, and chosen anew when most of these have changed, so that it does not matter how values are
distributed. A rung also knows bounds of its values, and of how long its slots stay: most rungs are passed over without
a look inside. What a slot has besides its value stands in one row, so that walking along a rung fetches it at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.stream import Floats, Ints

NONE = -1
FOREVER = 2**63 - 1
PER_RUNG = 12  # slots, when the steps are chosen

# Columns of Ladder.nodes
AFTER = 0  # the next slot on the same rung
BEFORE = 1
RUNG = 2
UNTIL = 3  # how long the slot stays

# Ladder.registers
RUNGS = 0
PUT = 1  # since the steps were chosen
HELD = 2


class Ladder(NamedTuple):
    """Rungs from low to high; the values of rung r lie in ``[steps[r], steps[r + 1])``."""

    steps: Floats  # steps[0] is minus infinity
    heads: Ints  # by rung: its first slot
    least: Floats  # by rung: no value of it is lower; infinity where it is empty
    most: Floats  # by rung: no value of it is higher
    soonest: Ints  # by rung: no slot of it stays shorter
    latest: Ints  # by rung: no slot of it stays longer
    values: Floats  # by slot
    nodes: Ints  # (slots, 4)
    registers: Ints


def empty_ladder(room: int) -> Ladder:
    """A ladder for `room` slots, with one rung."""
    rungs = room // PER_RUNG + 2
    ladder = Ladder(
        np.full(rungs, np.inf),
        np.full(rungs, NONE, np.int64),
        np.full(rungs, np.inf),
        np.full(rungs, -np.inf),
        np.full(rungs, FOREVER),
        np.full(rungs, -FOREVER),
        np.zeros(room),
        np.full((room, 4), NONE, np.int64),
        np.array([1, 0, 0], np.int64),
    )
    ladder.steps[0] = -np.inf
    return ladder


def is_worn(ladder: Ladder) -> bool:
    """Whether so much has come and gone that other steps would serve better."""
    return bool(ladder.registers[PUT] > 256 + 4 * ladder.registers[HELD])


def laid_anew(ladder: Ladder, slots: Ints, room: int) -> Ladder:
    """A ladder for `room` slots that holds what `slots` hold in this one, with steps chosen from their values."""
    new = empty_ladder(room)
    new.values[: ladder.values.size] = ladder.values
    new.nodes[: ladder.values.size] = ladder.nodes
    ordered = np.sort(ladder.values[slots])
    steps = np.unique(ordered[PER_RUNG::PER_RUNG])[: new.steps.size - 1]
    new.steps[1 : steps.size + 1] = steps
    new.registers[RUNGS] = steps.size + 1
    put_all(new, slots)
    new.registers[PUT] = 0
    return new


@inner_kernel
def rung_of(ladder: Ladder, value: float) -> int:
    """The rung that a value belongs to."""
    low = 0
    high = ladder.registers[RUNGS]
    while high - low > 1:
        middle = (low + high) >> 1
        if ladder.steps[middle] <= value:
            low = middle
        else:
            high = middle
    return low


@inner_kernel
def put(ladder: Ladder, slot: int, value: float, until: int) -> None:
    """Put a slot in."""
    rung = rung_of(ladder, value)
    first = ladder.heads[rung]
    ladder.values[slot] = value
    node = ladder.nodes[slot]
    node[AFTER] = first
    node[BEFORE] = NONE
    node[RUNG] = rung
    node[UNTIL] = until
    if first != NONE:
        ladder.nodes[first, BEFORE] = slot
    ladder.heads[rung] = slot
    ladder.least[rung] = min(ladder.least[rung], value)
    ladder.most[rung] = max(ladder.most[rung], value)
    ladder.soonest[rung] = min(ladder.soonest[rung], until)
    ladder.latest[rung] = max(ladder.latest[rung], until)
    ladder.registers[PUT] += 1
    ladder.registers[HELD] += 1


@inner_kernel
def take(ladder: Ladder, slot: int) -> None:
    """Take a slot out."""
    node = ladder.nodes[slot]
    if node[BEFORE] == NONE:
        ladder.heads[node[RUNG]] = node[AFTER]
        if node[AFTER] == NONE:
            loosen(ladder, node[RUNG])
    else:
        ladder.nodes[node[BEFORE], AFTER] = node[AFTER]
    if node[AFTER] != NONE:
        ladder.nodes[node[AFTER], BEFORE] = node[BEFORE]
    ladder.registers[HELD] -= 1


@inner_kernel
def loosen(ladder: Ladder, rung: int) -> None:
    """Forget the bounds of a rung: it is empty, or they are about to be found anew."""
    ladder.least[rung] = np.inf
    ladder.most[rung] = -np.inf
    ladder.soonest[rung] = FOREVER
    ladder.latest[rung] = -FOREVER


@inner_kernel
def tighten(ladder: Ladder, rung: int, slot: int) -> None:
    """Let the bounds of a rung take in one of its slots."""
    value = ladder.values[slot]
    until = ladder.nodes[slot, UNTIL]
    ladder.least[rung] = min(ladder.least[rung], value)
    ladder.most[rung] = max(ladder.most[rung], value)
    ladder.soonest[rung] = min(ladder.soonest[rung], until)
    ladder.latest[rung] = max(ladder.latest[rung], until)


@kernel
def put_all(ladder: Ladder, slots: Ints) -> None:
    """Put in many, each with what is noted for it."""
    for slot in slots:
        put(ladder, slot, ladder.values[slot], ladder.nodes[slot, UNTIL])
