"""The page of aggregate queries: what is summed once for all of them."""

from __future__ import annotations

from collections.abc import Sequence

from skyband.aggregate.query import AggregateTopK
from skyband.durations import format_duration
from skyband.queries.counted import counted
from skyband.queries.sharing import places_by
from skyband.windows import common_pane

__all__ = ["page"]


def page(queries: Sequence[AggregateTopK], *, on_spark: bool = False) -> str:
    """The page on these queries."""
    axis = queries[0].axis
    sources = places_by(AggregateTopK.sharing_key, queries)
    lines = [
        f"{counted(len(queries), 'query', 'queries')} on the {axis} axis, {counted(len(sources), 'set')} of partials"
    ]
    for number, ((key, value, where, groups), places) in enumerate(sources.items(), 1):
        sharing = [queries[place] for place in places]
        pane, _ = common_pane(query.window for query in sharing)
        panes = max(-(-query.window.size // pane) for query in sharing)
        span = format_duration(pane) if axis == "time" else f"{pane} rows"
        alive = max(query.window.most_alive for query in sharing)
        made = "in every task, before anything is shuffled" if on_spark else "as rows arrive"
        lines += [
            "",
            f"partials {number}: of {value or 'the value'} by {key or 'key'}"
            + (f" in {', '.join(groups)}" if groups else "")
            + (f" where {where}" if where else ""),
            f"  queries       {len(sharing)}: {', '.join(query.name for query in sharing)}",
            f"  panes         {span}; one partial per key and pane, made {made}",
            f"  held          at most {counted(panes, 'pane')} of partials, and a running score per key and query",
            f"  work          a partial enters and leaves each query once, not once for each of its {alive} windows",
        ]
    return "\n".join(lines)
