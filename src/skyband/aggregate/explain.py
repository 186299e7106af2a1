"""`explain` of aggregate queries: which partial results they share."""

from __future__ import annotations

from collections.abc import Sequence

from skyband.aggregate.query import AggregateTopK
from skyband.durations import format_duration
from skyband.queries.counted import counted
from skyband.queries.overview import overview
from skyband.queries.sharing import places_by
from skyband.windows import common_pane

__all__ = ["page"]

_SHOWN = 3  # sets of partials whose panes the second line lists


def page(queries: Sequence[AggregateTopK], *, on_spark: bool = False) -> str:
    """Describe what these queries answer, keep and cost, then each set of partials in detail."""
    axis = queries[0].axis
    sources = places_by(AggregateTopK.sharing_key, queries)
    lines: list[str] = []
    kept: list[str] = []
    for number, ((key, value, where, groups), places) in enumerate(sources.items(), 1):
        sharing = [queries[place] for place in places]
        pane, _ = common_pane(query.window for query in sharing)
        panes = max(-(-query.window.size // pane) for query in sharing)
        span = format_duration(pane) if axis == "time" else counted(pane, "row")
        kept.append(f"{counted(panes, 'pane')} of {span}")
        alive = max(query.window.most_alive for query in sharing)
        made = "in every task, before the shuffle" if on_spark else "as rows arrive"
        lines += [
            *([""] if number > 1 else []),
            f"partials {number}: of {value or 'the value'} by {key or 'key'}"
            + (f" in {', '.join(groups)}" if groups else "")
            + (f" where {where}" if where else ""),
            f"  queries       {len(sharing)}: {', '.join(query.name for query in sharing)}",
            f"  panes         {span}; one partial per key and pane, computed {made}",
            f"  kept          partials of at most {counted(panes, 'pane')}, and a running score per key and query",
            *_rows_kept(sharing),
            f"  work          each query adds and subtracts a partial once, not once for each of its {alive} windows",
        ]
    shown = kept if len(kept) <= _SHOWN else [*kept[:_SHOWN], "…"]
    passes = "once" if len(sources) == 1 else f"{len(sources)} times, once per set of partials"
    head = [
        overview(queries),
        (
            f"Each row is processed {passes}.\nMemory: one partial result per key in each of at most "
            f"{' and '.join(shown)}, plus a running score per key and query; it grows with the number of distinct keys."
        ),
        "",
        f"{counted(len(sources), 'set')} of partials; queries with the same key, value, filter and groups share one",
    ]
    return "\n".join(head + lines)


def _rows_kept(queries: Sequence[AggregateTopK]) -> list[str]:
    """Return a line about the rows that answers return, if there are any."""
    names = dict.fromkeys(query.aggregate for query in queries if query.row)
    if not names:
        return []
    return [f"  rows          the row of each {', '.join(names)} that can still be in an answer, with all its columns"]
