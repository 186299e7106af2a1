"""`explain` of aggregate queries: which partial results they share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from skyband.aggregate.query import AggregateTopK
from skyband.durations import format_duration
from skyband.queries.counted import counted
from skyband.queries.overview import overview
from skyband.queries.sharing import places_by
from skyband.windows import IrregularWindows, SlidingWindow, common_pane

__all__ = ["page"]

_PER = {
    None: "key",
    "values": "distinct value of a key",
    "numbers": "distinct value of a key",
    "hashes": "register and rank of a key",
}
BYTES = 400  # of a counter in a window: its partial, its bounds, its running sums and its key
_SHOWN = 3  # sets of partials whose panes the second line lists


def page(queries: Sequence[AggregateTopK], *, on_spark: bool = False) -> str:
    """Describe what these queries answer, keep and cost, then each set of partials in detail."""
    sessions = [query for query in queries if query.window_kind == "session"]
    if sessions:
        return _page_with_sessions(queries, sessions, on_spark=on_spark)
    sources = places_by(AggregateTopK.sharing_key, queries)
    lines: list[str] = []
    kept: list[str] = []
    for number, ((_, _, where, groups, *_), places) in enumerate(sources.items(), 1):
        sharing = [queries[place] for place in places]
        value, per, half_life = sharing[0].value, _PER[sharing[0].items], sharing[0].half_life
        delete = sharing[0].delete
        span, panes = _panes(sharing)
        grown = [query.name for query in sharing if _grows(query)]
        kept.append(f"{counted(panes, 'pane')} of {span}" if panes else "running totals")
        alive = max(query.window.most_alive for query in sharing)
        made = "in every task, before the shuffle" if on_spark else "as rows arrive"
        if on_spark and sharing[0].axis == "count":
            made = "in the shard of its group, which gets all rows in order"
        lines += [
            *([""] if number > 1 else []),
            f"partials {number}: of {value or 'the value'} by {', '.join(sharing[0].key_columns) or 'key'}"
            + (f" in {', '.join(groups)}" if groups else "")
            + (f" where {where}" if where else "")
            + ("" if delete is None else f", keys deleted when {delete}")
            + ("" if half_life is None else f", halved every {half_life}, {_digits(sharing[0])}"),
            f"  queries       {len(sharing)}: {', '.join(query.name for query in sharing)}",
            f"  panes         {span}; one partial per {per} and pane, computed {made}",
            *_sketch(sharing, panes, on_spark=on_spark),
            (f"  kept          partials of at most {counted(panes, 'pane')}, and a" if panes else "  kept          a")
            + " running score per key and query",
            *([f"  growing       {', '.join(grown)}: one running total per {per}, no partials"] if grown else []),
            *_limits(sharing),
            *_ties(sharing),
            *_rows_kept(sharing),
            *_totals(sharing),
            f"  work          each query adds and subtracts a partial once, not once for each of its {alive} windows",
        ]
    shown = kept if len(kept) <= _SHOWN else [*kept[:_SHOWN], "…"]
    held = dict.fromkeys(_PER[query.items] for query in queries)
    grows = "keys and their values" if any(query.items in ("values", "numbers") for query in queries) else "keys"
    passes = "once" if len(sources) == 1 else f"{len(sources)} times, once per set of partials"
    head = [
        overview(queries),
        f"Each row is processed {passes}.\n{_memory(shown, held)}; {_growth(queries, grows)}.",
        "",
        f"{counted(len(sources), 'set')} of partials; queries with the same key, value, filter and groups share one",
    ]
    return "\n".join(head + lines)


def _page_with_sessions(queries: Sequence[AggregateTopK], sessions: Sequence[AggregateTopK], *, on_spark: bool) -> str:
    """Describe session queries, and the others as on their own page."""
    sets = counted(len({query.sharing_key() for query in sessions}), "set")
    work = f"Sessions: each row is added once to {sets} of partials"
    waiting = ", and all rows ahead of the watermark" if on_spark else ""
    kept = dict.fromkeys(_PER[query.items] for query in sessions)
    lines = [
        overview(queries),
        f"{work}, and is sent to the shard of its group as it is." if on_spark else f"{work}.",
        f"Memory of sessions: one partial result per {' or '.join(kept)} in each open session{waiting}.",
        *(f"  {query.name:<13} {query.window_text}, answered when time passes its end" for query in sessions),
    ]
    others = [query for query in queries if query.window_kind != "session"]
    return "\n".join([*lines, "", page(others, on_spark=on_spark)] if others else lines)


def _memory(kept: Sequence[str], held: Iterable[str]) -> str:
    if all(one == "running totals" for one in kept):
        return "Memory: a running total and score per key and query"
    return (
        f"Memory: one partial result per {' or '.join(held)} in each of at most {' and '.join(kept)}, plus a running "
        "score per key and query"
    )


def _growth(queries: Sequence[AggregateTopK], grows: str) -> str:
    """Return what memory depends on."""
    if all(query.sketched for query in queries):
        return "it does not depend on the number of distinct keys"
    exact = "" if not any(query.sketched for query in queries) else ", except for queries with a sketch"
    return f"it grows with the number of distinct {grows}{exact}"


def _sketch(sharing: Sequence[AggregateTopK], panes: int, *, on_spark: bool) -> list[str]:
    """Return lines about the memory and the error of a sketch."""
    query = sharing[0]
    if not query.sketched:
        return []
    most, groups = query.most_counters, " and group" if query.groups else ""
    where = " and shard" if on_spark else ""
    held = panes * most + 2 * most
    each = f", about {_size(held * BYTES)}" if not query.groups else ""
    return [
        f"  sketch        {counted(most, 'counter')} per pane{groups}{where}, twice as many of open panes{each}",
        f"  error         at most {query.largest_error:.3g} of the total of the window, whatever the number of panes",
    ]


def _size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{max(1, size // 1000)} KB"


def _grows(query: AggregateTopK) -> bool:
    return isinstance(query.window, IrregularWindows) and query.window.most_views == 1


def _panes(sharing: Sequence[AggregateTopK]) -> tuple[str, int]:
    """Return the length of the panes, and how many of them are kept at most: none for windows that grow."""
    queries = [query for query in sharing if not _grows(query)]
    if all(isinstance(query.window, SlidingWindow) for query in sharing):
        pane, _ = common_pane(query.sliding for query in sharing)
        span = format_duration(pane) if sharing[0].axis == "time" else counted(pane, "row")
        return span, max(-(-query.sliding.size // pane) for query in sharing)
    step = min(query.window.step for query in sharing)
    longest = max((query.window.longest for query in queries), default=0)
    return f"up to {format_duration(step)}", -(-longest // step)


def _totals(queries: Sequence[AggregateTopK]) -> list[str]:
    """Return a line about the totals of windows, if a query needs them."""
    names = [query.name for query in queries if query.totals]
    if not names:
        return []
    return [f"  totals        the sums of all keys are added up at each window end of {', '.join(names)}"]


def _limits(queries: Sequence[AggregateTopK]) -> list[str]:
    """Return a line about the keys that windows can have, if a query limits them."""
    found = [f"{query.name} {query.max_keys:,}" for query in queries if query.max_keys is not None]
    return [f"  limits        keys in a window and shard: {', '.join(found)}; more stop the stream"] if found else []


def _ties(queries: Sequence[AggregateTopK]) -> list[str]:
    """Return a line about shared ranks, if a query has them."""
    names = [query.name for query in queries if query.shares_ranks]
    if not names:
        return []
    return [
        f"  ties          equal scores share a rank, and all keys with the k-th score are included: {', '.join(names)}"
    ]


def _digits(query: AggregateTopK) -> str:
    """Return how long the exact totals of rows that decay are."""
    assert query.decay is not None
    lives = -(-query.window.longest // query.decay[0])
    limbs = (-(-lives // 32) + 3) * (3 if query.aggregate == "avg" else 1)
    return f"exact totals of {counted(lives, 'half-life', 'half-lives')}, about {8 * (limbs + 2):,} bytes each"


def _rows_kept(queries: Sequence[AggregateTopK]) -> list[str]:
    """Return a line about the rows that answers return, if there are any."""
    names = dict.fromkeys(query.aggregate for query in queries if query.row)
    if not names:
        return []
    return [f"  rows          the row of each {', '.join(names)} that can still be in an answer, with all its columns"]
