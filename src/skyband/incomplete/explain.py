"""`explain` of queries over incomplete streams: bounds of scores, and the state kept for them."""

from __future__ import annotations

from collections.abc import Sequence

from skyband.incomplete.query import METHODS, MONOTONE, IncompleteTopK
from skyband.queries.counted import counted
from skyband.queries.overview import overview

__all__ = ["page"]


def _weights(query: IncompleteTopK) -> str:
    return f"; weights {', '.join(f'{name} {weight:g}' for name, weight in query.weights)}" if query.weights else ""


def _ledger(query: IncompleteTopK) -> str:
    if query.method == "approximate":
        return "none; tuples beyond `occurrences` are not detected"
    return "object, stream and position of every tuple in the window, to drop tuples beyond `occurrences`"


def _memory(methods: set[str]) -> str:
    """Summarize the memory of all queries in one sentence."""
    kept = []
    if "exact" in methods:
        kept.append("the objects that can still enter an answer, plus a short record of every tuple in the window")
    if "sorted-lists" in methods:
        kept.append("every tuple of the window")
    if "approximate" in methods:
        kept.append("the objects that are likely to enter an answer")
    each = "" if len(kept) == 1 else " (depending on the method)"
    return f"Memory: {'; '.join(kept)}{each}."


def page(queries: Sequence[IncompleteTopK], *, on_spark: bool = False) -> str:
    """Describe what these queries answer, keep and cost, then each query in detail."""
    lines = [
        overview(queries, "on incomplete streams"),
        f"Each query processes each tuple once and has its own state.\n{_memory({query.method for query in queries})}",
    ]
    for query in queries:
        low, high = query.bounds
        streams = "all in the input" if query.streams is None else ", ".join(map(str, query.streams))
        lines += [
            "",
            f"query {query.name}",
            f"  answers       {query.headline}",
            f"  streams       {streams}; each may report an object {counted(query.occurrences, 'time')} per window",
            f"  score         {query.aggregate}: {MONOTONE[query.aggregate]}" + _weights(query),
            f"  bounds        values from {low:g} to {high:g}; a missing value counts as {low:g}, at best as {high:g}",
            f"  method        {query.method}: {METHODS[query.method]}",
            f"  ledger        {_ledger(query)}",
        ]
        if query.intervals:
            lines.append(
                "  intervals     answers include the highest score that an object can still reach (`best`) and whether "
                "it is certain to stay among the k best (`sure`)"
            )
    if on_spark:
        lines += ["", "On Spark, objects are distributed over shards by id, and the answers of all shards are merged."]
    return "\n".join(lines)
