"""`explain` and the timeline of top-k queries: sharing classes, views, panes, candidates and the algorithm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from skyband.calendar_windows import CalendarWindows, CumulativeWindows, LandmarkWindows
from skyband.durations import format_duration
from skyband.queries import Axis
from skyband.queries.counted import counted
from skyband.queries.overview import overview
from skyband.queries.timeline import Lane, Timeline
from skyband.topk.algorithm_selection import Choice, choose, choose_on_spark, may_switch
from skyband.topk.meta_query import MetaQuery, SharingClass, View, sharing_classes
from skyband.topk.query import TopK
from skyband.windows import IrregularWindows, SlidingWindow

__all__ = ["Cost", "Sharing", "cost", "page", "sharing", "timeline"]

MOST_WINDOWS = 2_000_000  # beyond this, views are not listed one by one


@dataclass(frozen=True, slots=True)
class _Figures:
    """Numbers of a meta query in its steady state, at one typical position."""

    views: int  # alive
    ks: Counter[int]  # views by k
    shortest_pane: int
    longest_pane: int
    candidates: float  # expected, if scores do not depend on the position and panes contain more than k rows
    most: int  # upper bound of candidates for any stream, except for ties


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of adding one query to a workload, in the steady state.

    `views` and `candidates` are the additional numbers held (expected, for scores that do not depend on the position).
    `time` is the relative increase of the work per row: rows written and candidates visited, compared with the
    workload before.
    """

    views: int
    candidates: float
    time: float

    def __str__(self) -> str:
        return f"{self.views:+d} views, {self.candidates:+.0f} candidates, {self.time:+.0%} time"


@dataclass(frozen=True, slots=True)
class Sharing:
    """How much the queries share, in the steady state.

    `views` serve `windows` of the queries. `candidates` is the expected number held together, `unshared` the number if
    every query ran separately. `typical` is a position of the axis for which the numbers hold.
    """

    views: int
    windows: int
    candidates: float
    unshared: float
    typical: int

    @property
    def factor(self) -> float:
        """How many times more candidates would be held without sharing."""
        return self.unshared / self.candidates if self.candidates else 1.0


def sharing(queries: Sequence[TopK]) -> Sharing:
    """Return how much these queries share, over all sharing classes."""
    queries = [query for query in queries if not _is_session(query)]
    metas = list(sharing_classes(queries).values())
    figures = [_figures(meta) for meta in metas]
    return Sharing(
        views=sum(one.views for one in figures),
        windows=sum(meta.windows for meta in metas),
        candidates=sum(one.candidates for one in figures),
        unshared=sum(_expected(one, _views(one)) for one in (MetaQuery([query]) for query in queries)),
        typical=max(map(_now, metas), default=0),
    )


def page(queries: Sequence[TopK], *, on_spark: bool = False) -> str:
    """Describe what these queries answer, keep and cost, then each sharing class in detail."""
    sessions = [query for query in queries if _is_session(query)]
    if sessions:
        return _page_with_sessions(queries, sessions, on_spark=on_spark)
    # In process, one algorithm is chosen for all queries together; panes has another reason for each class.
    switches, axis = not on_spark and may_switch(queries), queries[0].axis
    together = None if on_spark else choose(queries)
    choice = together if len(queries) == 1 or switches or (together and together.algorithm != "panes") else None
    parts = [
        _Class(shared, meta, _figures(meta), choice or choose_on_spark(meta.queries), switches)
        for shared, meta in sharing_classes(queries).items()
    ]
    lines = [overview(queries), _costs(parts, len(queries), on_spark=on_spark and axis == "time"), ""]
    classes = counted(len(parts), "sharing class")
    lines.append(f"{classes}; the queries of a class share their candidates, the rows that can be in an answer")
    for number, part in enumerate(parts, 1):
        lines += [
            *([""] if number > 1 else []),
            f"class {number}: {_described(part.shared)}",
            *(f"  {line}" for line in _class_page(part, axis)),
        ]
    return "\n".join(lines)


def _page_with_sessions(queries: Sequence[TopK], sessions: Sequence[TopK], *, on_spark: bool) -> str:
    """Describe session queries, and the others as on their own page."""
    kept = sum(query.k + 2 for query in sessions)
    scans = counted(len({query.scan_key() for query in sessions}), "scan")
    work = f"Sessions: each row is sorted once by {scans}, and is not reduced before it reaches its shard."
    rows = f"at most {kept:,} rows for each open session, its best and its bounds, and all rows ahead of the watermark."
    lines = [
        overview(queries),
        work,
        f"Memory of sessions: {rows}",
        *(f"  {query.name:<13} {query.window_text}, answered when time passes its end" for query in sessions),
    ]
    others = [query for query in queries if not _is_session(query)]
    return "\n".join([*lines, "", page(others, on_spark=on_spark)] if others else lines)


def _is_session(query: TopK) -> bool:
    return query.window_kind == "session"


@dataclass(frozen=True, slots=True)
class _Class:
    """A sharing class, and how it runs."""

    shared: SharingClass
    meta: MetaQuery
    figures: _Figures
    choice: Choice
    switches: bool  # whether an algorithm that keeps the window may replace the algorithm while the stream runs


def _costs(parts: Sequence[_Class], queries: int, *, on_spark: bool) -> str:
    """Summarize work and memory, a line each."""
    passes = "once" if len(parts) == 1 else f"{len(parts):,} times, once per sharing class"
    work = f"Each row is processed {passes}{f', for all {queries:,} queries together' if queries > len(parts) else ''}."
    groups: dict[tuple[str, ...], list[_Class]] = {}
    for part in parts:
        groups.setdefault(tuple(part.shared.partition_by), []).append(part)
    kept = [
        _kept([part.figures for part in mine], all(part.shared.ties == "row_number" for part in mine))
        + (f" for each {', '.join(by)}" if by else "")
        for by, mine in sorted(groups.items())
    ]
    name = parts[0].choice.algorithm
    if name in ("sap", "sap-shared"):
        longest = "a window" if queries == 1 else "the longest window"
        kept = [
            (
                f"8 to 24 bytes for each of the {part.meta.size:,} rows of {longest}, because the algorithm is {name} "
                "(buffers may take twice that)"
            )
            for part in parts
        ]
    more = ""
    if on_spark:
        more = " Rows ahead of the watermark are kept in addition."
    elif parts[0].switches:
        name = "sap" if queries == 1 else "sap-shared"
        more = f" It keeps more if it switches to the algorithm {name} (see below)."
    return f"{work}\nMemory: {', plus '.join(kept)}.{more}"


def _kept(figures: Sequence[_Figures], bounded: bool) -> str:
    expected, most = sum(one.candidates for one in figures), sum(one.most for one in figures)
    return f"about {expected:,.0f} candidate rows ({f'at most {most:,}' if bounded else 'more if scores tie'})"


def cost(queries: Sequence[TopK], added: TopK) -> Cost:
    """Return the cost of running `added` together with `queries`."""
    if _is_session(added):
        return Cost(1, added.k + 2.0, 1 / (1 + len(queries)))
    queries = [query for query in queries if not _is_session(query)]
    if not queries:
        alone = _figures(MetaQuery([added]))
        return Cost(alone.views, alone.candidates, 1.0)
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


def _class_page(part: _Class, axis: Axis) -> list[str]:
    shared, meta, figures, choice = part.shared, part.meta, part.figures, part.choice
    alone = [MetaQuery([query]) for query in meta.queries] if len(meta.queries) > 1 else []
    held_alone = sum(_expected(one, _views(one)) for one in alone)
    each = ", in each group" if shared.partition_by else ""
    most = f"never more than {figures.most}" if shared.ties == "row_number" else "plus all rows that tie with them"
    page = {
        "queries": f"{len(meta.queries)}: {_listed([query.name for query in meta.queries])}",
        "window": _window(meta, axis) + (", the longest of them" if len(meta.queries) > 1 else ""),
        "views": f"{figures.views} open, for {counted(meta.windows, 'open window')} of the queries",
        "k per view": ", ".join(
            f"{k} ({counted(views, 'view')})" for k, views in sorted(figures.ks.items(), reverse=True)[:6]
        )
        + (f", and {len(figures.ks) - 6} more values" if len(figures.ks) > 6 else ""),
        "panes": _length(axis, figures.shortest_pane)
        if figures.shortest_pane == figures.longest_pane
        else f"{_length(axis, figures.shortest_pane)} to {_length(axis, figures.longest_pane)}",
        "candidates": f"about {figures.candidates:.0f} expected, {most}{each}",
        "share factor": f"{held_alone / figures.candidates:.1f}: run separately, the queries would keep "
        f"about {held_alone:.0f} candidates and process each row {counted(len(meta.queries), 'time')}",
        "algorithm": f"{choice.algorithm}: {choice.why}",
    }
    if len(meta.queries) == 1:
        del page["share factor"]
    return [f"{name:<13} {text}" for name, text in page.items()]


def _figures(meta: MetaQuery) -> _Figures:
    views = _views(meta)
    shortest, longest = _panes(meta)
    ks: Counter[int] = Counter()
    if meta.windows > MOST_WINDOWS:
        for query in meta.queries:
            ks[query.k] += query.window.most_views
    else:
        ks.update(view.k for view in views)
    most = sum(k * views for k, views in ks.items())
    if len(meta.queries) == 1:  # if the slide does not divide the size, the number of open windows varies
        most = meta.queries[0].k * meta.queries[0].window.most_views
    return _Figures(ks.total(), ks, shortest, longest, _expected(meta, views), most)


def _now(meta: MetaQuery) -> int:
    """Return a position in the steady state: the stream is older than every open window."""
    now = max(_origin(query) for query in meta.queries) + 4 * meta.size
    irregular = [query.window for query in meta.queries if isinstance(query.window, IrregularWindows)]
    return min((window.first_end_after(now) for window in irregular), default=now)


def _origin(query: TopK) -> int:
    """Return a position at which a window of the query ends or starts."""
    window = query.window
    if isinstance(window, CalendarWindows | CumulativeWindows | LandmarkWindows):
        return window.origin
    return query.sliding.origin


def _window(meta: MetaQuery, axis: Axis) -> str:
    """Describe the longest window."""
    if all(isinstance(query.window, SlidingWindow) for query in meta.queries):
        return _length(axis, meta.size)
    longest = max(meta.queries, key=lambda query: query.window.longest)
    return longest.window_text


def _views(meta: MetaQuery) -> list[View]:
    """Return the open views; if there are too many, a sample of them."""
    now = _now(meta)
    if meta.windows <= MOST_WINDOWS:
        return meta.views(now)
    # Views are so close together that only their age matters. The sample has a few hundred ages, denser where young,
    # each with the largest k of the queries that reach back this far.
    shortest = min(query.window.step for query in meta.queries)
    steps = {int(shortest * (meta.size / shortest) ** (i / 512)) for i in range(513)}
    sizes = {query: min(query.window.longest, meta.size) for query in meta.queries}
    ages = sorted({*sizes.values()} | steps)
    return [
        View(now - age, (), max(query.k for query in meta.queries if sizes[query] >= age)) for age in reversed(ages)
    ]


def _panes(meta: MetaQuery) -> tuple[int, int]:
    """Return the lengths of the shortest and the longest pane in a typical range."""
    now = _now(meta)
    until = now + min(meta.size, 8 * max(query.window.step for query in meta.queries))
    cuts = {now}
    for query in meta.queries:
        if isinstance(query.window, IrregularWindows):
            starts, ends = query.window.page(now, min(until, now + 4096 * query.window.step))
            cuts.update(at for at in {*starts.tolist(), *ends.tolist()} if now < at <= until)
            continue
        window = query.sliding
        for first in (window.first_end_after(now), window.latest_start(now) + window.slide):
            # For a query with a very short slide, a few thousand cuts are enough.
            cuts.update(range(first, min(until, first + 4096 * window.slide) + 1, window.slide))
    panes = [high - low for low, high in pairwise(sorted(cuts))]
    return (min(panes), max(panes)) if panes else (meta.size, meta.size)


def _expected(meta: MetaQuery, views: Sequence[View]) -> float:
    """Return the expected size of the union of the views' top k, for scores that do not depend on the position.

    Of the rows between two view starts, a view that began `age` ago keeps the share k / age. The largest share of the
    older views counts. For one query this is the formula k (1 + 1/2 + … + slide/size).
    """
    now = _now(meta)
    # On a count axis ages are numbers of rows, and no view keeps more than all of them.
    most = 1.0 if meta.queries[0].axis == "count" else float("inf")
    total, best = 0.0, 0.0
    following = [view.start for view in views[1:]] + [now]
    for view, until in zip(views, following, strict=True):
        best = max(best, view.k / (now - view.start))
        total += (until - view.start) * min(best, most)
    return total


def _work(meta: MetaQuery) -> float:
    """Return the work per tick of the axis: rows written, and the block merged at each window end."""
    rows = sum(query.k / query.window.step for query in meta.queries)
    lattices = {(query.window.step, _origin(query) % query.window.step) for query in meta.queries}
    ends = sum(1 / slide for slide, _ in lattices)
    return rows + ends * max(query.k for query in meta.queries)


def _described(shared: SharingClass) -> str:
    parts = [f"by {shared.by}" if shared.by else "by the given score", shared.order]
    if shared.ties == "rank":
        parts.append("with ties")
    if shared.rule is not None:
        parts.append(shared.rule.described())
    if shared.where:
        parts.append(f"where {shared.where}")
    if shared.partition_by:
        parts.append(f"for each {', '.join(shared.partition_by)}")
    return ", ".join(parts)


def _length(axis: Axis, ticks: int) -> str:
    return format_duration(ticks) if axis == "time" else counted(ticks, "row")


def _listed(names: Sequence[str], most: int = 6) -> str:
    more = f", … {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def timeline(queries: Sequence[TopK], now: int | None, method: str, lanes: int, windows: int) -> Timeline | None:
    """Return the views open at `now`, relative to it; None if the queries have more than `windows` open windows."""
    queries = [query for query in queries if not _is_session(query)]
    if not queries or sum(query.window.most_views for query in queries) > windows:
        return None
    at = sharing(queries).typical if now is None else now
    scale = 1e6 if queries[0].axis == "time" else 1
    found: list[Lane] = []
    for number, (shared, meta) in enumerate(sharing_classes(queries).items(), 1):
        sizes = {query.name: query.window.longest for query in meta.queries}
        ends = {query.name: query.window.first_end_after(at) for query in meta.queries if query.size is None}
        found += [
            Lane(
                label=f"class {number}: {shared.by or 'the given score'}",
                kind="view",
                k=view.k,
                begin=(view.start - at) / scale,
                end=max(ends.get(name, view.start + sizes[name]) - at for name in view.queries) / scale,
                queries=tuple(view.queries),
            )
            for view in meta.views(at)
        ]
    return Timeline(tuple(found[-lanes:]), max(0, len(found) - lanes), at / scale)
