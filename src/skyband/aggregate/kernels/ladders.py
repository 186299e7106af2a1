"""Stored partials of ladders are put back into the rings of an engine."""

from __future__ import annotations

from typing import Any

from skyband.aggregate.kernels.partials import NONE, State
from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.stream import Ints


@inner_kernel
def _number(stored: int, head: int) -> int:
    """Return the number of a partial that is stored as its distance from `head`, or NONE."""
    return NONE if stored == NONE else head + stored


@kernel
def put_ladders(
    state: State, head: int, ladder: Ints, older: Any, younger: Any, extremes: Any, ats: Any, ids: Any
) -> None:
    """Put partials into the rings: their numbers and links are stored as distances from `head`."""
    ring = state.slots.size - 1
    for i in range(ladder.size):
        at = (head + ladder[i]) & ring
        for e in range(older.shape[1]):
            state.older[at, e] = _number(older[i, e], head)
            state.younger[at, e] = _number(younger[i, e], head)
            state.extremes[at, e] = extremes[i, e]
        for e in range(ats.shape[1]):
            state.ats[at, e], state.ids[at, e] = ats[i, e], ids[i, e]
