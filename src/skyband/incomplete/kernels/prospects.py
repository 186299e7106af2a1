"""What an instance can be expected to gain: from the delays between reports of an object, and from recent values.

An object that n streams have reported waits for the next report. `follows` counts how often it came, and how long
objects waited for it, by n and by the time since the last report (its age). The quotient is a rate. From the rates
follows the probability of each number of further reports within the remaining lifetime of an instance, and with the
distribution of values, how likely its score rises by some amount. A report that comes late is worth less, so each
outcome counts with the share of a window that remains after it.

An instance is worth holding while what it adds to answers is at least `price` times what it costs: the share of a
window until its next report, or until none is to be expected. It adds nothing if the object would be in the answers
without the tuples of the instance, too.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import allocating_kernel, inner_kernel
from skyband.kernels.stream import Floats

CELLS = 64  # cells per stream of the distribution of values
_SILENT = 0.05  # a rate of so few reports per window counts as none


class Prospects(NamedTuple):
    """Estimates by number of streams that have reported an object, age and remaining lifetime."""

    follows: Floats  # (2, streams + 1, ages): further reports, and the time waited for them
    gains: Floats  # (streams + 1, ages, lives): the highest rise that is worth waiting for; empty: not used
    reach: Floats  # (streams + 1, ages, lives, streams + 1): worth of exactly so many further reports
    held: Floats  # (streams + 1, ages, lives): expected share of a window for which the instance is held
    tails: Floats  # (streams + 1, cells): probability that so many values add up to at least a number of cells
    cell: float  # width of a cell
    price: float
    floor: float  # the score of an object without tuples
    then: int  # position of the last update, up to which the time of waiting objects is counted


def no_prospects(streams: int, ages: int) -> Prospects:
    """Return empty estimates; without counters if there are no ages."""
    many = streams + 1 if ages else 0
    return Prospects(
        np.zeros((2, many, ages)),
        np.empty((0, 0, 0)),
        np.empty((0, 0, 0, 0)),
        np.empty((0, 0, 0)),
        np.empty((0, 0)),
        1.0,
        0.0,
        0.0,
        -(2**62),
    )


def sums_of(contributions: Floats) -> tuple[Floats, float]:
    """Return the probabilities that 0, 1, … values add up to at least some cells, and the width of a cell."""
    streams = contributions.shape[0]
    highest = float(contributions.max())
    cell = highest / (CELLS - 1) if highest > 0 else 1.0
    counts = np.bincount(np.rint(contributions.ravel() / cell).astype(np.int64), minlength=CELLS)
    density = counts / counts.sum()
    tails = np.zeros((streams + 1, streams * (CELLS - 1) + 1))
    together = np.ones(1)
    for number in range(streams + 1):
        tails[number, : together.size] = np.cumsum(together[::-1])[::-1]
        together = np.convolve(together, density)
    return tails, cell


@allocating_kernel
def reach_of(rates: Floats, edges: Floats) -> tuple[Floats, Floats]:
    """Return `reach` and `held` for the rates of reports per missing stream, by number of streams and age.

    `edges` are the limits of the ages, from 0 to the window size.
    """
    streams = rates.shape[0] - 1
    ages = rates.shape[1]
    size = edges[-1]
    reach = np.zeros((streams + 1, ages, ages, streams + 1))
    held = np.zeros((streams + 1, ages, ages))
    for life in range(ages):
        reach[streams, :, life, 0] = (edges[life] + edges[life + 1]) / 2 / size
    for number in range(streams - 1, -1, -1):
        for age in range(ages):
            for life in range(ages):
                left = (edges[life] + edges[life + 1]) / 2
                at = (edges[age] + edges[age + 1]) / 2
                end = at + left
                waiting = 1.0
                spent = 0.0
                later = age
                while later < ages and at < end:
                    until = min(edges[later + 1], end)
                    none = math.exp(-(streams - number) * rates[number, later] * (until - at))
                    came = waiting * (1.0 - none)
                    if rates[number, later:].max() * size > _SILENT:
                        spent += (waiting - came / 2) * (until - at)
                    waiting *= none
                    rest = 0
                    while rest < ages - 1 and edges[rest + 1] <= end - (at + until) / 2:
                        rest += 1
                    for more in range(streams - number):
                        reach[number, age, life, more + 1] += came * reach[number + 1, 0, rest, more]
                    at = until
                    later += 1
                reach[number, age, life, 0] += waiting * left / size
                held[number, age, life] = spent / size
    return reach, held


@allocating_kernel
def gains_of(reach: Floats, held: Floats, tails: Floats, cell: float, price: float) -> Floats:
    """Return the highest rise of a score that is worth waiting for."""
    gains = np.zeros(held.shape)
    for number in range(held.shape[0]):
        for age in range(held.shape[1]):
            for life in range(held.shape[2]):
                if held[number, age, life] == 0.0:
                    continue
                low = 0
                high = tails.shape[1] - 1
                while low < high:
                    middle = (low + high + 1) >> 1
                    worth = 0.0
                    for more in range(1, reach.shape[3]):
                        worth += reach[number, age, life, more] * tails[more, middle]
                    if worth >= price * held[number, age, life]:
                        low = middle
                    else:
                        high = middle - 1
                gains[number, age, life] = low * cell
    return gains


@inner_kernel
def is_worth_waiting(prospects: Prospects, number: int, age: int, life: int, current: float, hurdle: float) -> bool:
    """Return whether the instance adds enough to answers with scores from `hurdle` on, where its score is below."""
    last = prospects.tails.shape[1] - 1
    with_it = min(int((hurdle - current) / prospects.cell), last)
    without = min(int(max(hurdle - prospects.floor, 0.0) / prospects.cell), last)
    worth = 0.0
    for more in range(1, prospects.reach.shape[3]):
        gained = prospects.tails[more, with_it] - prospects.tails[more, without]
        worth += prospects.reach[number, age, life, more] * gained
    return worth >= prospects.price * prospects.held[number, age, life]
