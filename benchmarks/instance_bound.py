"""How few instances a method over incomplete streams can hold if its answers are to have a given precision.

`incomplete_bound` counts one item per object, however long the object is needed. But an item of the paper is an
aggregated instance: the sum of an object's values since one of its reports. When that report leaves the window, the
object is in an answer only if the instance that began with the next report is held, too, and it has to be held from
that report on, because a sum cannot be taken apart. So here each instance is held or dropped on its own.

An answer needs the instance that began with the oldest report in the window. If the later reports alone have a score
that would be enough, the answer counts as found, and no instance is needed for it. Everything else is as in
`incomplete_bound`: the best choice by class and age, found with the whole stream at hand, is a lower bound for all
methods that decide by the number of reports before and since the instance began, their sum, and the times of its first
and last report and of the one before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benchmarks.incomplete_bound import SCORES, SPARE, Phase, ages_up_to, highest_bound, ranked
from benchmarks.workloads import Reports
from skyband import IncompleteTopK, incomplete
from skyband.kernels.stream import Floats, Ints

__all__ = ["least_instances"]

_ORDINALS = 4  # classes by the number of reports before it


def least_instances(
    reports: Reports, size: int, k: int, *, precision: float, every: int = 50, resolution: int = 4
) -> float:
    """Return a lower bound of the mean number of instances that answers with this mean precision need.

    Windows are count windows of `size`, with an answer after every `every` tuples, and the score is the sum. Times
    between reports are known in so many classes as `resolution` says. A higher one covers methods that know more, but
    each class then has fewer instances of the stream, and its best age in hindsight is more of a coincidence.
    """
    stream = _sorted(reports)
    asked, total = _needed(stream, reports, size, k, every)
    grid = ages_up_to(size)
    phases = _phases(stream, asked, size, grid, resolution)
    wanted = precision * total - (total - asked.times.size)
    return highest_bound(phases, grid, wanted) / int(reports.objects.size)


class _Sorted(NamedTuple):
    """The reports by object, then by time."""

    order: Ints  # when
    owners: Ints  # number of the object
    first: Ints  # per object: its first report
    begin: Floats  # sum of all values before; one more than reports


class _Needed(NamedTuple):
    """Answers that need one instance: places of its first and last report, and the time of the answer."""

    oldest: Ints
    newest: Ints
    times: Ints


def _sorted(reports: Reports) -> _Sorted:
    order = np.argsort(reports.objects, kind="stable")
    _, owners = np.unique(reports.objects[order], return_inverse=True)
    first = np.flatnonzero(np.diff(owners, prepend=-1))
    return _Sorted(order, owners, first, np.append(0.0, np.cumsum(reports.values[order])))


def _needed(stream: _Sorted, reports: Reports, size: int, k: int, every: int) -> tuple[_Needed, int]:
    """The objects of all answers that need the instance since their oldest report, and the number of all."""
    n, begin = reports.objects.size, stream.begin
    query = IncompleteTopK(k=k + 1 + k // SPARE, size=size, every=every, streams=reports.names)
    found = incomplete.replay(query, None, reports.objects, reports.streams, reports.values)
    times, ranks, scores = (found[name].to_numpy() for name in ("time", "rank", "score"))
    names = reports.objects[stream.order][stream.first]
    objects = np.searchsorted(names, found["object"].to_numpy())
    moments, at = np.unique(times, return_inverse=True)
    rivals = np.full(moments.size, -np.inf)
    rivals[at[ranks == query.k]] = scores[ranks == query.k]
    best = (ranks <= k) & (times >= size)
    times, objects, rivals = times[best], objects[best], rivals[at[best]]
    keys = stream.owners * (2 * n) + stream.order
    newest = np.searchsorted(keys, objects * (2 * n) + times) - 1
    oldest = np.searchsorted(keys, objects * (2 * n) + times - size)
    enough = np.zeros(times.size, bool)
    for later in range(1, int((newest - oldest).max()) + 1):
        start = np.minimum(oldest + later, newest + 1)
        enough |= (start <= newest) & (begin[newest + 1] - begin[start] >= rivals)
    return _Needed(oldest[~enough], newest[~enough], times[~enough]), times.size


def _phases(stream: _Sorted, asked: _Needed, size: int, grid: Ints, resolution: int) -> list[Phase]:
    """For all instances with so many reports: what follows the last one. Instance i begins with report i."""
    order, owners, begin = stream.order, stream.owners, stream.begin
    n = order.size
    members = []
    for number in range(int(np.diff(np.append(stream.first, n)).max())):
        last = np.minimum(np.arange(n) + number, n - 1)
        is_one = (np.arange(n) + number < n) & (owners[last] == owners) & (order[last] - order < size)
        if not is_one.any():
            break
        members.append(np.flatnonzero(is_one))
    histories = _histories(stream, size, resolution)
    phases = []
    for number, mine in enumerate(members):
        last = mine + number
        after = np.minimum(last + 1, n - 1)
        expiry = np.minimum(order[mine] + size, n)
        goes_on = (last + 1 < n) & (owners[after] == owners[mine]) & (order[after] < order[mine] + size)
        durations = np.where(goes_on, order[after], expiry) - order[last]
        following = np.full(mine.size, -1)
        if number + 1 < len(members):
            following[goes_on] = np.searchsorted(members[number + 1], mine[goes_on])
        classes = histories[mine] * SCORES + ranked(begin[last + 1] - begin[mine], SCORES)
        classes = classes * resolution + ranked(order[last] - order[mine], resolution)
        classes = np.unique(classes, return_inverse=True)[1]
        here = asked.newest - asked.oldest == number
        place = np.full(n, -1)
        place[mine] = np.arange(mine.size)
        phases.append(
            Phase(
                classes,
                np.searchsorted(grid, durations),
                durations,
                following,
                np.zeros(mine.size, np.int64),
                classes[place[asked.oldest[here]]],
                np.searchsorted(grid, asked.times[here] - order[asked.newest[here]]),
            )
        )
    return phases


def _histories(stream: _Sorted, size: int, resolution: int) -> Ints:
    """Classes of instances by the reports before: none in the window, or their number and the time since the last."""
    order = stream.order
    ordinals = np.arange(order.size) - stream.first[stream.owners]
    gaps = np.diff(order, prepend=order[0])
    recent = (ordinals > 0) & (gaps < size)
    found = np.zeros(order.size, np.int64)
    if recent.any():
        found[recent] = (
            1 + ranked(gaps[recent], resolution) + resolution * np.minimum(ordinals[recent] - 1, _ORDINALS - 1)
        )
    return found
