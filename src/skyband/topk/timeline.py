"""The views of top-k queries on a time line: which windows share one, and whom it serves."""

from __future__ import annotations

from collections.abc import Sequence

from skyband.queries.timeline import Lane, Timeline
from skyband.topk.explain import sharing
from skyband.topk.meta_query import sharing_classes
from skyband.topk.query import TopK

__all__ = ["timeline"]


def timeline(queries: Sequence[TopK], now: int | None, method: str, lanes: int, windows: int) -> Timeline | None:
    """The views alive at `now`, with places told from there; None where there are more than so many `windows`."""
    if sum(query.sliding.most_alive for query in queries) > windows:
        return None
    at = sharing(queries).typical if now is None else now
    scale = 1e6 if queries[0].axis == "time" else 1
    found: list[Lane] = []
    for number, (shared, meta) in enumerate(sharing_classes(queries).items(), 1):
        sizes = {query.name: query.sliding.size for query in meta.queries}
        found += [
            Lane(
                label=f"class {number}: {shared.by or 'the given score'}",
                kind="view",
                k=view.k,
                begin=(view.start - at) / scale,
                end=(view.start - at + max(sizes[name] for name in view.queries)) / scale,
                queries=tuple(view.queries),
            )
            for view in meta.views(at)
        ]
    return Timeline(tuple(found[-lanes:]), max(0, len(found) - lanes), at / scale)
