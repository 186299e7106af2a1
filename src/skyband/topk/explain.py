"""The page and the time line of top-k queries: sharing classes, views, panes, candidates, the algorithm and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from skyband.durations import format_duration
from skyband.queries import Axis
from skyband.queries.counted import counted
from skyband.queries.timeline import Lane, Timeline
from skyband.topk.algorithm_selection import Choice, choose, choose_on_spark
from skyband.topk.meta_query import MetaQuery, SharingClass, View, sharing_classes
from skyband.topk.query import TopK

__all__ = ["Cost", "Sharing", "cost", "page", "sharing", "timeline"]

MOST_WINDOWS = 2_000_000  # beyond this, views are not listed one by one


@dataclass(frozen=True, slots=True)
class _Figures:
    """A meta query in its steady state, at one typical moment."""

    views: int  # alive
    ks: Counter[int]  # views by k
    shortest_pane: int
    longest_pane: int
    candidates: float  # expected with scores that do not depend on the position, panes holding more than k objects
    most: int  # no stream can make it hold more, but for ties


@dataclass(frozen=True, slots=True)
class Cost:
    """What one more query adds to a workload, in the steady state.

    `views` and `candidates` are held more than before (expected, for scores that do not depend on the position);
    `time` is the share by which the work per object grows: rows written and candidates passed over, against those of
    the workload before.
    """

    views: int
    candidates: float
    time: float

    def __str__(self) -> str:
        return f"{self.views:+d} views, {self.candidates:+.0f} candidates, {self.time:+.0%} time"


@dataclass(frozen=True, slots=True)
class Sharing:
    """What queries have in common, in the steady state, in numbers.

    `views` serve `windows` of the queries; `candidates` are held together (expected), `unshared` if every query ran by
    itself. `typical` is a moment of the axis at which it is so.
    """

    views: int
    windows: int
    candidates: float
    unshared: float
    typical: int

    @property
    def factor(self) -> float:
        """How many times more would be held without sharing."""
        return self.unshared / self.candidates if self.candidates else 1.0


def sharing(queries: Sequence[TopK]) -> Sharing:
    """What these queries share, all classes together."""
    metas = list(sharing_classes(queries).values())
    figures = [_figures(meta) for meta in metas]
    return Sharing(
        views=sum(one.views for one in figures),
        windows=sum(meta.windows for meta in metas),
        candidates=sum(one.candidates for one in figures),
        unshared=sum(_expected(MetaQuery([query])) for query in queries),
        typical=max(map(_now, metas)),
    )


def page(queries: Sequence[TopK], *, on_spark: bool = False) -> str:
    """The page on these queries."""
    chosen = choose_on_spark if on_spark else choose
    classes = sharing_classes(queries)
    axis = queries[0].axis
    lines = [
        f"{counted(len(queries), 'query', 'queries')} on the {axis} axis, {counted(len(classes), 'sharing class')}"
    ]
    for number, (shared, meta) in enumerate(classes.items(), 1):
        lines += [
            "",
            f"class {number}: {_described(shared)}",
            *(f"  {line}" for line in _class_page(shared, meta, axis, chosen(meta.queries))),
        ]
    return "\n".join(lines)


def cost(queries: Sequence[TopK], added: TopK) -> Cost:
    """What `added` would cost beside `queries`."""
    shared = SharingClass.of(added)
    before = [query for query in queries if SharingClass.of(query) == shared]
    after = _figures(MetaQuery([*before, added]))
    views, candidates = (0, 0.0)
    if before:
        now = _figures(MetaQuery(before))
        views, candidates = now.views, now.candidates
    work = sum(_work(meta) for meta in sharing_classes(queries).values())
    more = _work(MetaQuery([*before, added])) - (_work(MetaQuery(before)) if before else 0.0)
    return Cost(after.views - views, after.candidates - candidates, more / work)


def _class_page(shared: SharingClass, meta: MetaQuery, axis: Axis, choice: Choice) -> list[str]:
    figures = _figures(meta)
    held_alone = sum(_expected(MetaQuery([query])) for query in meta.queries)
    each = ", in each group" if shared.partition_by else ""
    most = f"never more than {figures.most}" if shared.ties == "row_number" else "and all that tie with them"
    page = {
        "queries": f"{len(meta.queries)}: {_listed([query.name for query in meta.queries])}",
        "meta query": f"window {_length(axis, meta.size)}, slide and k adaptive",
        "views": f"{figures.views} alive, for {meta.windows} windows of the queries",
        "k per view": ", ".join(
            f"{k} ({counted(views, 'view')})" for k, views in sorted(figures.ks.items(), reverse=True)[:6]
        )
        + (f", and {len(figures.ks) - 6} more values" if len(figures.ks) > 6 else ""),
        "panes": _length(axis, figures.shortest_pane)
        if figures.shortest_pane == figures.longest_pane
        else f"{_length(axis, figures.shortest_pane)} to {_length(axis, figures.longest_pane)}",
        "candidates": f"about {figures.candidates:.0f} expected, {most}{each}",
        "share factor": f"{held_alone / figures.candidates:.1f}: run alone, the queries would hold "
        f"about {held_alone:.0f} candidates and look at each object {counted(len(meta.queries), 'time')}",
        "algorithm": f"{choice.algorithm}: {choice.why}",
    }
    return [f"{name:<13} {text}" for name, text in page.items()]


def _figures(meta: MetaQuery) -> _Figures:
    views = _views(meta)
    shortest, longest = _panes(meta)
    ks: Counter[int] = Counter()
    if meta.windows > MOST_WINDOWS:
        for query in meta.queries:
            ks[query.k] += query.window.most_alive
    else:
        ks.update(view.k for view in views)
    return _Figures(ks.total(), ks, shortest, longest, _expected(meta), sum(k * views for k, views in ks.items()))


def _now(meta: MetaQuery) -> int:
    """A moment in the steady state: every window that is open could have seen a whole stream."""
    return max(query.sliding.origin for query in meta.queries) + 4 * meta.size


def _views(meta: MetaQuery) -> list[View]:
    """The views alive; where they are too many, some that stand for all."""
    now = _now(meta)
    if meta.windows <= MOST_WINDOWS:
        return meta.views(now)
    # Views lie so close that only their age matters: a few hundred ages, closer where young, and the largest k that
    # reaches back so far.
    shortest = min(query.sliding.slide for query in meta.queries)
    steps = {int(shortest * (meta.size / shortest) ** (i / 512)) for i in range(513)}
    ages = sorted({query.sliding.size for query in meta.queries} | steps)
    return [
        View(now - age, (), max(query.k for query in meta.queries if query.sliding.size >= age))
        for age in reversed(ages)
    ]


def _panes(meta: MetaQuery) -> tuple[int, int]:
    """The shortest and the longest pane of a typical stretch."""
    now = _now(meta)
    until = now + min(meta.size, 8 * max(query.sliding.slide for query in meta.queries))
    cuts = {now}
    for query in meta.queries:
        window = query.sliding
        for first in (window.first_end_after(now), window.latest_start(now) + window.slide):
            # Of a query with a very short slide, a few cuts show its panes as well as all of them.
            cuts.update(range(first, min(until, first + 4096 * window.slide) + 1, window.slide))
    panes = [high - low for low, high in pairwise(sorted(cuts))]
    return (min(panes), max(panes)) if panes else (meta.size, meta.size)


def _expected(meta: MetaQuery) -> float:
    """The expected size of the union of the views' top k, for scores that do not depend on the position.

    Of the objects between two view starts, a view that began `age` ago takes the share k / age; the most generous of
    the older views decides. With one query this is the law k (1 + 1/2 + … + slide/size).
    """
    views, now = _views(meta), _now(meta)
    # On a count axis ages are numbers of objects, and no view takes more than all of them.
    most = 1.0 if meta.queries[0].axis == "count" else float("inf")
    total, best = 0.0, 0.0
    following = [view.start for view in views[1:]] + [now]
    for view, until in zip(views, following, strict=True):
        best = max(best, view.k / (now - view.start))
        total += (until - view.start) * min(best, most)
    return total


def _work(meta: MetaQuery) -> float:
    """Work per tick of the axis: rows written, and the block merged at each end."""
    rows = sum(query.k / query.sliding.slide for query in meta.queries)
    lattices = {(query.sliding.slide, query.sliding.origin % query.sliding.slide) for query in meta.queries}
    ends = sum(1 / slide for slide, _ in lattices)
    return rows + ends * max(query.k for query in meta.queries)


def _described(shared: SharingClass) -> str:
    parts = [f"by {shared.by}" if shared.by else "by the given score", shared.order]
    if shared.ties == "rank":
        parts.append("with ties")
    if shared.where:
        parts.append(f"where {shared.where}")
    if shared.partition_by:
        parts.append(f"for each {', '.join(shared.partition_by)}")
    return ", ".join(parts)


def _length(axis: Axis, ticks: int) -> str:
    return format_duration(ticks) if axis == "time" else counted(ticks, "object")


def _listed(names: Sequence[str], most: int = 6) -> str:
    more = f", … {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


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
