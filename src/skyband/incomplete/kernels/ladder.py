"""A bucketed order of slots by value. Each rung (bucket) contains the values of one interval, unsorted.

Inserting or removing a slot does not move other slots. A range of values is scanned rung by rung. The interval bounds
(steps) are chosen from the values, and chosen again when most values have changed, so any distribution works. A rung
also has bounds of its values and of the expiry of its slots, so most rungs are skipped. All fields of a slot except its
value are in one row, so a scan of a rung needs one memory access per slot.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.stream import Floats, Ints

NONE = -1
FOREVER = 2**63 - 1
PER_RUNG = 12  # slots per rung when the steps are chosen

# Columns of Ladder.nodes
AFTER = 0  # the next slot on the same rung
BEFORE = 1
RUNG = 2
UNTIL = 3  # expiry of the slot

# Ladder.registers
RUNGS = 0
PUT = 1  # inserts since the steps were chosen
HELD = 2


class Ladder(NamedTuple):
    """Rungs from low to high. The values of rung r are in ``[steps[r], steps[r + 1])``."""

    steps: Floats  # steps[0] is minus infinity
    heads: Ints  # per rung: its first slot
    least: Floats  # per rung: lower bound of its values; infinity if empty
    most: Floats  # per rung: upper bound of its values
    soonest: Ints  # per rung: lower bound of the expiry of its slots
    latest: Ints  # per rung: upper bound of the expiry of its slots
    values: Floats  # per slot
    nodes: Ints  # (slots, 4)
    registers: Ints


def empty_ladder(room: int) -> Ladder:
    """Return an empty ladder for `room` slots, with one rung."""
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
    """Return whether enough slots have changed that the steps should be chosen again."""
    return bool(ladder.registers[PUT] > 256 + 4 * ladder.registers[HELD])


def rebuilt(ladder: Ladder, slots: Ints, room: int) -> Ladder:
    """Return a ladder for `room` slots with the values of `slots`, and steps chosen from these values."""
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
    """Return the rung of a value."""
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
    """Insert a slot."""
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
    """Remove a slot."""
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
    """Reset the bounds of a rung that is empty or is about to be recomputed."""
    ladder.least[rung] = np.inf
    ladder.most[rung] = -np.inf
    ladder.soonest[rung] = FOREVER
    ladder.latest[rung] = -FOREVER


@inner_kernel
def tighten(ladder: Ladder, rung: int, slot: int) -> None:
    """Extend the bounds of a rung by one of its slots."""
    value = ladder.values[slot]
    until = ladder.nodes[slot, UNTIL]
    ladder.least[rung] = min(ladder.least[rung], value)
    ladder.most[rung] = max(ladder.most[rung], value)
    ladder.soonest[rung] = min(ladder.soonest[rung], until)
    ladder.latest[rung] = max(ladder.latest[rung], until)


@kernel
def put_all(ladder: Ladder, slots: Ints) -> None:
    """Insert slots with their stored values and expiry."""
    for slot in slots:
        put(ladder, slot, ladder.values[slot], ladder.nodes[slot, UNTIL])
