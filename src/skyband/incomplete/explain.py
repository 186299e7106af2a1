"""`explain` of queries over incomplete streams: bounds of scores, and the state kept for them."""

from __future__ import annotations

from collections.abc import Sequence

from skyband.incomplete.query import APPROXIMATE, METHODS, MONOTONE, IncompleteTopK
from skyband.queries.counted import counted
from skyband.queries.overview import overview

__all__ = ["page"]


def _score(query: IncompleteTopK) -> str:
    known = MONOTONE.get(query.aggregate)
    return f"{query.aggregate}: {known}" if known else f"{query.aggregate}, which rises with the value of each stream"


def _weights(query: IncompleteTopK) -> str:
    return f"; weights {', '.join(f'{name} {weight:g}' for name, weight in query.weights)}" if query.weights else ""


def _bounds(query: IncompleteTopK) -> str:
    missing, at_best = ("largest", "smallest") if query.ascending else ("smallest", "largest")
    if query.has_bounds_by_stream:
        each = ", ".join(
            f"{stream} {low:g} to {high:g}"
            for stream, (low, high) in dict(query.bounds).items()  # type: ignore[arg-type]  # pairs by stream
        )
        return f"values of {each}; a missing value counts as the {missing}, at best as the {at_best}"
    low, high = query.bounds_of("")
    counts, best = (high, low) if query.ascending else (low, high)
    return f"values from {low:g} to {high:g}; a missing value counts as {counts:g}, at best as {best:g}"


def _times(query: IncompleteTopK) -> str:
    return "once" if query.occurrences == "once" else f"{counted(query.limit, 'time')} per window"


def _ledger(query: IncompleteTopK) -> str:
    if query.occurrences == "once":
        return "none; streams are declared to report an object once, and are not checked"
    if query.method in APPROXIMATE:
        return "none; tuples beyond `occurrences` are not detected"
    return "object, stream and position of every tuple in the window, to drop tuples beyond `occurrences`"


def _memory(methods: set[str]) -> str:
    """Summarize the memory of all queries in one sentence."""
    kept = []
    if "exact" in methods:
        kept.append("the objects that can still enter an answer, plus a short record of every tuple in the window")
    if "sorted-lists" in methods:
        kept.append("every tuple of the window")
    if methods.intersection(APPROXIMATE):
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
        streams = "all in the input" if query.streams is None else ", ".join(map(str, query.streams))
        lines += [
            "",
            f"query {query.name}",
            f"  answers       {query.headline}",
            f"  streams       {streams}; each may report an object {_times(query)}",
            f"  score         {_score(query)}" + _weights(query),
            f"  bounds        {_bounds(query)}",
            f"  method        {query.method}: {METHODS[query.method]}",
            f"  ledger        {_ledger(query)}",
        ]
        if query.ties == "rank":
            lines.append("  ties          equal scores share a rank; all objects with the k-th score are included")
        if query.method in APPROXIMATE:
            lines.append("  exactness     answers include whether a score is exact (`exact`) or may be too low")
        if query.intervals:
            lines.append(
                f"  intervals     answers include the {'lowest' if query.ascending else 'highest'} score that an "
                "object can still reach (`best`) and whether "
                "it is certain to stay among the k best (`sure`)"
            )
    if on_spark:
        lines += ["", "On Spark, objects are distributed over shards by id, and the answers of all shards are merged."]
    return "\n".join(lines)
