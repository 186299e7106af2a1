"""How few objects a method over incomplete streams can hold if its answers are to have a given precision.

A method that holds less than everything drops objects before it knows what will become of them. While no further report
of an object arrives, all that distinguishes it from others is how many streams have reported it, the sum of the values,
how long ago the first report was, and the time since the last one. So a method can only choose, for each of these
classes, the age at which it drops the objects that are still waiting. `least_held` finds the best choice from the
stream itself: dynamic programming from the last report of an object to its first, where an answer is worth a price and
every moment costs one item. For every price, ``price * wanted - best value`` is a lower bound of the items by
Lagrangian duality; the result is the highest one.

It is a lower bound for every method that decides by these properties: choices are made with the whole stream at hand,
objects with several instances count as one item, and sketches, statistics and dominance count as nothing.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from benchmarks.workloads import Reports
from skyband import IncompleteTopK, incomplete
from skyband.kernels.stream import Floats, Ints

__all__ = ["Phase", "ages_up_to", "highest_bound", "highest_value", "least_held", "ranked"]

SCORES = 40  # classes by the sum of the values, of equal frequency
DELAYS = 4  # classes by the time since the first report
AGES = 512  # ages at which a class can be dropped, at most; a rule pays for a bin's begin and gets all of its answers
PRICES = np.geomspace(10, 100_000, 61)  # of an answer, in items times tuples
SPARE = 5  # an answer is assumed to miss at most one in so many objects


class Phase(NamedTuple):
    """For all objects with at least n + 1 reports: what follows the report n, until the next one."""

    classes: Ints  # of what is known when the phase begins
    lengths: Ints  # age bin of the next report, or of the moment when the last one leaves the window
    durations: Ints  # the same in tuples
    following: Ints  # place of the object in the next phase, -1 if there is none
    spared: Ints  # answers after the phase that contain the object even if its reports so far are lost
    answer_classes: Ints  # for each answer with one of the objects during the phase: the class
    answer_ages: Ints  # and the age bin


def least_held(reports: Reports, size: int, k: int, *, precision: float, every: int = 50) -> float:
    """Return a lower bound of the mean number of items that answers with this mean precision need.

    Windows are count windows of `size`, with an answer after every `every` tuples, and the score is the sum.
    """
    phases, answers, grid = _phases(reports, size, k, every)
    return highest_bound(phases, grid, precision * answers) / int(reports.objects.size)


def ages_up_to(size: int) -> Ints:
    """Return the ages at which a class can be dropped: all short ones, and longer ones at equal ratios."""
    found: Ints = np.unique(np.append(0, np.geomspace(1, size, AGES).astype(np.int64)))
    return found


def highest_bound(phases: list[Phase], grid: Ints, wanted: float) -> float:
    """Return the highest bound of all prices, in items times tuples, for so many answers.

    It is concave in the price.
    """

    @cache
    def bound(place: int) -> float:
        price = float(PRICES[place])
        return price * wanted - highest_value(phases, grid, price)

    low, high = 0, PRICES.size - 1
    while low < high:
        middle = (low + high) // 2
        if bound(middle) < bound(middle + 1):
            low = middle + 1
        else:
            high = middle
    return max(0.0, bound(low))


def _phases(reports: Reports, size: int, k: int, every: int) -> tuple[list[Phase], int, Ints]:
    n = reports.objects.size
    order = np.argsort(reports.objects, kind="stable")  # by object, then by time
    _, owners = np.unique(reports.objects[order], return_inverse=True)
    values = reports.values[order]
    first = np.flatnonzero(np.diff(owners, prepend=-1))
    numbers = np.arange(n) - first[owners]
    begin = np.append(0.0, np.cumsum(values))
    # What a report adds up to with those before it that are still in the window.
    oldest = np.searchsorted(owners * (2 * n) + order, owners * (2 * n) + np.maximum(order - size + 1, 0))
    sums = begin[1:] - begin[oldest]
    is_last = np.append(owners[1:] != owners[:-1], True)
    durations = np.where(is_last, size, np.minimum(np.append(order[1:], 0) - order, size))
    durations = np.minimum(durations, n - order)

    # The answers: each of the k best objects, the report before it, and the score that would not be enough.
    query = IncompleteTopK(k=k + 1 + k // SPARE, size=size, every=every, streams=reports.names)
    found = incomplete.replay(query, None, reports.objects, reports.streams, reports.values)
    times, ranks, scores = (found[name].to_numpy() for name in ("time", "rank", "score"))
    owner_of = owners[first][np.searchsorted(reports.objects[order][first], found["object"].to_numpy())]
    rivals = np.full(np.unique(times).size, -np.inf)
    at = np.unique(times, return_inverse=True)[1]
    rivals[at[ranks == query.k]] = scores[ranks == query.k]
    best = (ranks <= k) & (times >= size)
    times, owner_of, rivals = times[best], owner_of[best], rivals[at[best]]
    newest = np.searchsorted(owners * (2 * n) + order, owner_of * (2 * n) + times) - 1

    spared = np.zeros(n, np.int64)
    for back in range(1, int(numbers.max()) + 1):  # without the report `back` reports earlier, and all before it
        lost = newest - back
        there = (lost >= 0) & (lost >= first[owner_of])
        from_here = np.maximum(lost + 1, np.searchsorted(owners * (2 * n) + order, owner_of * (2 * n) + times - size))
        enough = there & (begin[newest + 1] - begin[np.minimum(from_here, newest + 1)] >= rivals)
        np.add.at(spared, lost[enough], 1)

    grid = ages_up_to(size)
    phases = []
    for number in range(int(numbers.max()) + 1):
        mine = np.flatnonzero(numbers == number)
        place = np.full(n + 1, -1)
        place[mine] = np.arange(mine.size)
        classes = ranked(sums[mine], SCORES) * DELAYS + ranked(order[mine] - order[first[owners[mine]]], DELAYS)
        asked = numbers[newest] == number
        phases.append(
            Phase(
                classes,
                np.searchsorted(grid, durations[mine]),
                durations[mine],
                np.where(is_last[mine], -1, np.searchsorted(np.flatnonzero(numbers == number + 1), mine + 1)),
                spared[mine],
                classes[place[newest[asked]]],
                np.searchsorted(grid, times[asked] - order[newest[asked]]),
            )
        )
    return phases, times.size, grid


def ranked(values: Floats | Ints, classes: int) -> Ints:
    """Return classes of about equal frequency; equal values are in one class."""
    edges = np.unique(np.quantile(values, np.linspace(0, 1, classes + 1)[1:-1]))
    found: Ints = np.searchsorted(edges, values, side="right")
    return found


def highest_value(phases: list[Phase], grid: Ints, price: float) -> float:
    """Return the highest possible price of the answers minus the time that objects are held.

    A class is dropped at the end of an age bin, and held only until its beginning: no finer choice is better.
    """
    after = np.empty(0)
    ages = grid.size + 1
    for phase in reversed(phases):
        count = int(phase.classes.max()) + 1
        worth = np.where(phase.following >= 0, after[phase.following] if after.size else 0.0, 0.0)
        place = phase.classes * ages + phase.lengths

        def by_age(weights: Floats, place: Ints = place, count: int = count) -> Floats:
            return np.cumsum(np.bincount(place, weights, count * ages).reshape(count, ages), axis=1)

        members = np.bincount(phase.classes, minlength=count)[:, None]
        here = np.ones(phase.classes.size)
        passed, past = by_age(here), by_age(phase.durations.astype(float))
        lost = price * phase.spared.astype(np.float64)
        spared = np.bincount(phase.classes, lost, count)[:, None]
        answers = np.bincount(phase.answer_classes * ages + phase.answer_ages, minlength=count * ages)
        served = price * np.cumsum(answers.reshape(count, ages), axis=1)
        gained = by_age(worth) + spared - by_age(lost) + served
        # Held until the beginning of the bin: those that were reported again before, and the rest.
        before = np.pad(passed, ((0, 0), (1, 0)))[:, :-1]
        held = np.pad(past, ((0, 0), (1, 0)))[:, :-1] + (members - before) * np.append(0, grid)[None, :ages]
        best = (gained - held).max(axis=1) / np.maximum(members[:, 0], 1)
        after = np.maximum(best, 0.0)[phase.classes]
    return float(after.sum())
