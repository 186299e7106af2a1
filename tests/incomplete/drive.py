"""Random queries and streams over which all methods are compared with the oracle."""

from __future__ import annotations

import numpy as np

import skyband as sb
from tests.incomplete.oracle import Asked, limits

AGGREGATES = ("sum", "avg", "min", "max")
PAIRS = ((0.0, 1.0), (-1.0, 1.0), (-2.0, -1.0), (1.0, 4.0))


def some_question(rng, *, method="exact", count_axis=True, every=None):
    """A query and the same in plain numbers."""
    d, k = int(rng.integers(1, 5)), int(rng.integers(1, 6))
    size = int(rng.integers(1, 40))
    every = every or int(rng.integers(1, size + 1))
    occurrences = int(rng.choice([1, 1, 2, 3]))
    aggregate = str(rng.choice(AGGREGATES))
    streams = tuple("abcd"[:d])
    bounds = PAIRS[rng.integers(4)]
    if rng.random() < 0.4:
        bounds = {stream: PAIRS[rng.integers(4)] for stream in streams}
    if min(pair[0] for pair in (bounds.values() if isinstance(bounds, dict) else [bounds])) < 0:
        occurrences = 1
    weights = {s: float(rng.integers(0, 3)) for s in streams} if aggregate == "sum" and rng.random() < 0.4 else None
    origin = int(rng.integers(-3, 6))
    asked = Asked(k, size, every, streams, origin, aggregate, weights, bounds, occurrences)
    unit = "" if count_axis else " microseconds"
    query = sb.IncompleteTopK(
        k=k,
        size=size if count_axis else f"{size}{unit}",
        every=every if count_axis else f"{every}{unit}",
        origin=origin,
        streams=streams,
        aggregate=aggregate,
        weights=weights,
        bounds=bounds,
        occurrences=occurrences,
        method=method,
    )
    return query, asked


def some_tuples(rng, asked, n, *, count_axis=True, text=False):
    """Positions (None on a count axis), objects, streams, values: many ties, equal times, gaps."""
    grain = int(rng.choice([1, 2, 8, 1024]))
    shares = rng.integers(0, grain + 1, n) / grain
    objects = rng.integers(0, int(rng.integers(2, 40)), n)
    streams = rng.choice(list(asked.streams), n)
    low, high = np.array([limits(asked, stream) for stream in streams]).reshape(-1, 2).T
    values = low + (high - low) * shares
    steps = rng.choice([0, 0, 1, 2, 7, 100], n, p=[0.3, 0.2, 0.3, 0.1, 0.08, 0.02])
    positions = None if count_axis else np.cumsum(steps) - 50
    return positions, [f"o{o:03d}" for o in objects] if text else objects.tolist(), streams.tolist(), values


def as_tuples(positions, objects, streams, values):
    """The same as the oracle reads it: tuples of one moment by object, which is how ties among them are broken."""
    moments = range(len(objects)) if positions is None else positions.tolist()
    rows = list(zip(moments, objects, streams, values.tolist(), strict=True))
    return rows if positions is None else sorted(rows, key=lambda row: (row[0], row[1]))


def listed(table):
    """A table of answers as the oracle gives them."""
    found = {}
    for row in table.to_pylist():
        found.setdefault(row["time"], []).append((row["object"], row["score"]))
    return list(found.items())
