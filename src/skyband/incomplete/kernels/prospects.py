"""How long it is worth waiting for further reports of an object: from observed delays and recent values.

An object that n streams have reported waits for the next report. `follows` counts how often it came, and how long
objects waited for it, by n and by the time since the last report (its age). The quotient is a rate. Scores are compared
with the *hurdle*, the lowest score of recent answers: an instance that reaches it is worth the time that remains of its
lifetime.

While an instance waits, it costs `price` per unit of time, and it can be dropped at any moment. So how long to wait is
a problem of optimal stopping, which `gains_of` solves backwards: from the last possible report to the first, and from
the end of the lifetime to the last report. Waiting is compared with dropping: then the reports to come count alone.

If the object has an older instance with a higher score, the instance serves only after that one has expired. Its worth
is the share of its lifetime after that, so this is the same problem with a higher price.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import allocating_kernel
from skyband.kernels.stream import Floats

CELLS = 64  # cells of a score between nothing and the hurdle
LIVES = 16  # lengths of a lifetime, counted from the last report
LEVELS = 3  # prices of instances that serve for all, half and at most a quarter of their lifetime


class Prospects(NamedTuple):
    """Estimates by number of streams that have reported an object, lifetime and age."""

    follows: Floats  # (2, streams + 1, ages): further reports, and the time waited for them
    gains: Floats  # (levels, streams + 1, lives, ages): the highest rise that is worth waiting for; empty: not used
    then: int  # position of the last update, up to which the time of waiting objects is counted


def no_prospects(streams: int, ages: int) -> Prospects:
    """Return empty estimates; without counters if there are no ages."""
    many = streams + 1 if ages else 0
    return Prospects(np.zeros((2, many, ages)), np.empty((0, 0, 0, 0)), -(2**62))


def tails_of(contributions: Floats) -> tuple[Floats, float]:
    """Return the probabilities that no value, and that one value, is at least some cells, and the width of a cell."""
    highest = float(contributions.max())
    cell = highest / (CELLS - 1) if highest > 0 else 1.0
    counts = np.bincount(np.rint(contributions.ravel() / cell).astype(np.int64), minlength=CELLS)
    tails = np.zeros((2, CELLS))
    tails[0, 0] = 1.0
    tails[1] = np.cumsum(counts[::-1])[::-1] / counts.sum()
    return tails, cell


def highest_gains(rates: Floats, edges: Floats, tails: Floats, cell: float, rise: float, price: float) -> Floats:
    """Return `Prospects.gains`, see `gains_of`. Without a hurdle above the floor, every rise is worth waiting for."""
    if not 0 < rise < np.inf:
        further = np.arange(rates.shape[0] - 1, -1, -1.0)
        shape = LEVELS, rates.shape[0], LIVES, rates.shape[1]
        return np.ascontiguousarray(np.broadcast_to(further[:, None, None] * cell * (CELLS - 1), shape))
    share = -np.diff(tails[1, :CELLS], append=0.0)
    places = np.minimum(np.rint(np.arange(CELLS) * (cell * (CELLS - 1) / rise)), CELLS - 1).astype(np.int64)
    return gains_of(rates, edges, np.bincount(places, share, CELLS).astype(np.float64), rise, price)


@allocating_kernel
def gains_of(rates: Floats, edges: Floats, density: Floats, rise: float, price: float) -> Floats:
    """Return the highest rise of a score that is worth waiting for, by number of streams, lifetime and age.

    `rates` are reports per missing stream and unit of time, by number of streams and age; `edges` are the limits of the
    ages, from 0 to the window size; `density` is the probability of a value by cell, where all cells together are as
    long as `rise`, the distance of the hurdle from the score of an object without reports.
    """
    streams = rates.shape[0] - 1
    ages = rates.shape[1]
    size = edges[-1]
    gains = np.zeros((LEVELS, streams + 1, LIVES, ages))
    after = np.zeros((LIVES, CELLS))  # worth when the next report has come, by lifetime and cells that are missing
    values = np.zeros((LIVES, CELLS))  # the same when it comes: its value is not known
    now = np.zeros(CELLS)
    exceeded = np.zeros(CELLS)  # probability of a value of at least so many cells
    exceeded[CELLS - 1] = density[CELLS - 1]
    for value in range(CELLS - 2, -1, -1):
        exceeded[value] = exceeded[value + 1] + density[value]
    highest = CELLS
    while highest > 1 and density[highest - 1] == 0.0:
        highest -= 1
    for level in range(LEVELS):
        cost = price * 2.0**level
        for life in range(LIVES):
            after[life, :] = 0.0
            after[life, 0] = (life + 0.5) / LIVES
        for number in range(streams - 1, 0, -1):
            for life in range(LIVES):
                for missing in range(CELLS):
                    worth = exceeded[missing] * after[life, 0]
                    for value in range(min(missing, highest)):
                        worth += density[value] * after[life, missing - value]
                    values[life, missing] = worth
            for life in range(LIVES):
                whole = (life + 0.5) / LIVES * size
                now[:] = 0.0
                dropped = 0.0
                for age in range(ages - 1, -1, -1):
                    begin = edges[age]
                    end = min(edges[age + 1], whole)
                    if end <= begin:
                        continue
                    came = 1.0 - math.exp(-(streams - number) * rates[number, age] * (end - begin))
                    rest = min(max(int((whole - (begin + end) / 2) / size * LIVES), 0), LIVES - 1)
                    spent = cost * (end - begin) / size * (1.0 - came / 2)
                    dropped = came * values[rest, CELLS - 1] + (1.0 - came) * dropped
                    most = 0
                    for missing in range(1, CELLS):
                        waiting = came * values[rest, missing] + (1.0 - came) * now[missing] - spent
                        if waiting > dropped:
                            most = missing
                            now[missing] = waiting
                        else:
                            now[missing] = dropped
                    gains[level, number, life, age] = most * rise / (CELLS - 1)
                for missing in range(1, CELLS):
                    after[life, missing] = now[missing]
    return gains
