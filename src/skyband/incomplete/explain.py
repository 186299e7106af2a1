"""The page of queries over incomplete streams: what bounds a score, and what is kept for it."""

from __future__ import annotations

from collections.abc import Sequence

from skyband.incomplete.query import METHODS, MONOTONE, IncompleteTopK
from skyband.queries.counted import counted

__all__ = ["page"]


def _weights(query: IncompleteTopK) -> str:
    return f"; weights {', '.join(f'{name} {weight:g}' for name, weight in query.weights)}" if query.weights else ""


def _remembered(query: IncompleteTopK) -> str:
    if query.method == "approximate":
        return "only what is held; who is reported too often is not told"
    return "of every tuple in the window, who and when: to tell who is reported too often"


def page(queries: Sequence[IncompleteTopK], *, on_spark: bool = False) -> str:
    """The page on these queries."""
    lines = [f"{counted(len(queries), 'query', 'queries')} over incomplete streams on the {queries[0].axis} axis"]
    for query in queries:
        low, high = query.bounds
        streams = "those in the input" if query.streams is None else ", ".join(map(str, query.streams))
        lines += [
            "",
            f"query {query.name}",
            f"  answers       the {query.k} best of {query.size} every {query.every}",
            f"  streams       {streams}; each may report an object {counted(query.occurrences, 'time')} in a window",
            f"  score         {query.aggregate}: {MONOTONE[query.aggregate]}" + _weights(query),
            f"  bounds        values in {low:g}..{high:g}; an unseen attribute {low:g} now, {high:g} at best",
            f"  method        {query.method}: {METHODS[query.method]}",
            f"  remembered    {_remembered(query)}",
        ]
        if query.intervals:
            lines.append("  intervals     answers tell how far each score can still rise, and who is sure to stay")
    if on_spark:
        lines += ["", "on Spark objects are spread over shards by id, and the answers of the shards are merged"]
    return "\n".join(lines)
