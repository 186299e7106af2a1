"""The definition of an answer over incomplete streams, in plain Python, sharing no code with the library."""

from __future__ import annotations

from typing import NamedTuple


class Question(NamedTuple):
    k: int
    size: int
    every: int
    origin: int = 0
    d: int = 2
    weights: tuple[float, ...] | None = None
    aggregate: str = "sum"
    low: float = 0.0
    high: float = 1.0
    occurrences: int = 1


def score(question, attributes):
    """The aggregate of an object's value in each stream, in the order of the streams."""
    if question.aggregate in ("sum", "avg"):
        total = 0.0
        for weight, value in zip(question.weights or (1.0,) * question.d, attributes, strict=True):
            total += weight * value
        return total / question.d if question.aggregate == "avg" else total
    return {"min": min, "max": max}[question.aggregate](attributes)


def best(question, tuples, end):
    """The answer at `end` as (object, score, last position) from tuples (position, object, stream, value)."""
    valid = [row for row in tuples if end - question.size <= row[0] < end]
    objects = {}
    for position, object_, stream, value in valid:
        seen = objects.setdefault(object_, {"last": position})
        seen["last"] = position
        seen[stream] = seen[stream] + value if stream in seen else value
    ranked = [
        (score(question, [seen.get(stream, question.low) for stream in range(question.d)]), seen["last"], object_)
        for object_, seen in objects.items()
    ]
    ranked.sort(reverse=True)
    return [(object_, score_, last) for score_, last, object_ in ranked[: question.k]]


def accepted(question, tuples):
    """The tuples that do not come too often: what is in the window that ends at the tuple decides."""
    kept = []
    for row in tuples:
        position, object_, stream, _ = row
        # The newest window that holds the tuple begins here.
        next_end = question.origin + ((position - question.origin) // question.every + 1) * question.every
        before = [r for r in kept if r[0] >= next_end - question.size and r[1] == object_ and r[2] == stream]
        if len(before) < question.occurrences:
            kept.append(row)
    return kept


def ends(question, tuples):
    """The moments of answers, from the first after the first tuple until nothing is valid any more."""
    if not tuples:
        return []
    first, last = tuples[0][0], tuples[-1][0]
    start = question.origin + ((first - question.origin) // question.every + 1) * question.every
    return list(range(start, last + question.size + question.every + 1, question.every))
