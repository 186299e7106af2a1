"""What queries over incomplete streams mean, spelled out tuple by tuple and window by window; shares no code."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple


class Asked(NamedTuple):
    """A query in plain numbers; `streams` are the declared names in order."""

    k: int
    size: int
    every: int
    streams: tuple
    origin: int = 0
    aggregate: str = "sum"
    weights: dict | None = None
    bounds: tuple | dict = (0.0, 1.0)  # of all streams, or by stream
    occurrences: int = 1
    ascending: bool = False
    ties: bool = False


def limits(asked: Asked, stream) -> tuple:
    """The smallest and the largest value of a stream."""
    return asked.bounds[stream] if isinstance(asked.bounds, dict) else asked.bounds


class Tuple(NamedTuple):
    position: int
    object: object
    stream: object
    value: float


def admitted(asked: Asked, tuples, *, count_axis: bool):
    """The tuples that count, with their positions, and how many were reported too often."""
    kept, too_many = [], 0
    for position, obj, stream, value in tuples:
        at = len(kept) if count_axis else position
        end = asked.origin + ((at - asked.origin) // asked.every + 1) * asked.every
        same = [one for one in kept if one.object == obj and one.stream == stream and one.position >= end - asked.size]
        if len(same) >= asked.occurrences:
            too_many += 1
        else:
            kept.append(Tuple(at, obj, stream, value))
    return kept, too_many


def score(asked: Asked, mine) -> float:
    """The aggregate of an object's tuples, given in order of arrival."""
    per_stream = []
    for stream in asked.streams:
        found = [one.value for one in mine if one.stream == stream]
        total = found[0] if found else limits(asked, stream)[1 if asked.ascending else 0]
        for value in found[1:]:
            total += value
        per_stream.append(total)
    if asked.aggregate in ("sum", "avg"):
        total = 0.0
        for stream, value in zip(asked.streams, per_stream, strict=True):
            total += (asked.weights or {}).get(stream, 1.0) * value
        return total / len(per_stream) if asked.aggregate == "avg" else total
    return min(per_stream) if asked.aggregate == "min" else max(per_stream)


def answers(asked: Asked, tuples, *, count_axis: bool = False):
    """Every answer: (end, [(object, score), …]) for each window that holds a tuple."""
    kept, _ = admitted(asked, tuples, count_axis=count_axis)
    if not kept:
        return []
    newest = kept[-1].position
    index = (kept[0].position - asked.origin) // asked.every + 1
    found = []
    while True:
        end = asked.origin + index * asked.every
        if end - asked.size > newest or (count_axis and end > len(kept)):
            return found
        window = [one for one in kept if end - asked.size <= one.position < end]
        if window:
            found.append((end, best(asked, window)))
        index += 1


def best(asked: Asked, window):
    """The k best objects of the tuples in a window."""
    by_object = defaultdict(list)
    for one in window:
        by_object[one.object].append(one)
    sign = -1.0 if asked.ascending else 1.0
    found = ((sign * score(asked, mine), mine[-1].position, obj) for obj, mine in by_object.items())
    ranked = sorted(found, reverse=True)
    better = [
        sum(other > value for other, *_ in ranked) if asked.ties else place for place, (value, *_) in enumerate(ranked)
    ]
    return [(obj, sign * value) for (value, _, obj), ahead in zip(ranked, better, strict=True) if ahead < asked.k]


def instances(asked: Asked, kept, index: int):
    """All instances that live in window `index` or later: (object, last window, score, best score).

    An instance is what an object has from some moment on; moments count as equal if their tuples leave together.
    """
    by_object = defaultdict(list)
    for one in kept:
        epoch = (one.position + asked.size - asked.origin) // asked.every
        if epoch >= index:
            by_object[one.object].append((epoch, one))
    found = []
    for obj, mine in by_object.items():
        for epoch in sorted({epoch for epoch, _ in mine}):
            tuples = [one for other, one in mine if other >= epoch]
            found.append((obj, epoch, score(asked, tuples), highest(asked, tuples)))
    return found


def highest(asked: Asked, tuples) -> float:
    """The highest score that these tuples may come to, if others join them."""
    more = []
    for stream in asked.streams:
        missing = asked.occurrences - sum(one.stream == stream for one in tuples)
        more += [Tuple(0, None, stream, limits(asked, stream)[0 if asked.ascending else 1])] * missing
    return score(asked, [*tuples, *more])


def dominance_set(asked: Asked, kept, index: int):
    """Theorem 1: the instances that fewer than k other objects dominate."""
    everything = instances(asked, kept, index)
    chosen = []
    for obj, epoch, current, high in everything:
        beaten_by = {other for other, until, has, _ in everything if other != obj and until >= epoch and has > high}
        if len(beaten_by) < asked.k:
            chosen.append((obj, epoch, current, high))
    return chosen


def sure_ones(asked: Asked, window):
    """The objects of a window's answer that fewer than k others can still pass, whatever of theirs is missing."""
    by_object = defaultdict(list)
    for one in window:
        by_object[one.object].append(one)
    reach = {obj: highest(asked, mine) for obj, mine in by_object.items()}
    sign = -1.0 if asked.ascending else 1.0
    return {
        obj
        for obj, has in best(asked, window)
        if sum(
            sign * high > sign * has or (high == has and not asked.ties)
            for other, high in reach.items()
            if other != obj
        )
        < asked.k
    }
