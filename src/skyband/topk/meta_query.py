"""Many queries as one meta query: the views that their windows share, and the positions of events.

A *view* is identified by its start and ranks all objects at or after it. A window ``[start, end)`` is the view at the
time when `end` is reached. So queries whose windows begin together share a view, whatever their sizes, and one
structure over the views serves them all. The meta query's window is the largest of its queries. Its slide is the
distance to the next event. Its k is that of each view: the largest among the queries that still have a window with that
start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from skyband.errors import UnsupportedError
from skyband.queries import Axis
from skyband.queries.sharing import places_by
from skyband.session_windows import SessionWindows
from skyband.topk.query import Order, RankingRule, Ties, TopK
from skyband.windows import IrregularWindows, ListedWindows, SlidingWindow, Windows

__all__ = ["MetaQuery", "SharingClass", "View", "sharing_classes"]


@dataclass(frozen=True, slots=True)
class View:
    """An open view: its start, the queries that still have a window with that start, and the largest k of them."""

    start: int
    queries: tuple[str, ...]
    k: int


@dataclass(frozen=True, slots=True)
class SharingClass:
    """The properties that queries must share to use one structure: the parts of their `sharing_key`."""

    axis: Axis
    by: str | None
    where: str | None
    partition_by: tuple[str, ...]
    order: Order
    ties: Ties
    rule: RankingRule | None = None
    session: SessionWindows | None = None

    @classmethod
    def of(cls, query: TopK) -> SharingClass:
        """The class of `query`."""
        return cls(*query.sharing_key())


def sharing_classes(queries: Iterable[TopK]) -> dict[SharingClass, MetaQuery]:
    """Return the meta query of each sharing class, in the order in which the classes first appear."""
    queries = tuple(queries)
    classes = places_by(SharingClass.of, queries)
    return {shared: MetaQuery([queries[place] for place in places]) for shared, places in classes.items()}


def _open_starts(window: Windows, now: int) -> Iterable[int]:
    """The distinct starts of windows that begin before `now` and end at `now` or later."""
    if isinstance(window, SlidingWindow):
        return window.views_alive(now - 1)
    if isinstance(window, ListedWindows) or not isinstance(window, IrregularWindows):
        raise UnsupportedError("a list of windows has no usual state; this operation needs one size and one slide.")
    starts, ends = window.page(now - 1, now - 1)
    found: list[int] = sorted(set(starts[(starts < now) & (ends >= now)].tolist()))
    return found


class MetaQuery:
    """One query that replaces all its members.

    >>> import skyband as sb
    >>> meta = MetaQuery([
    ...     sb.TopK(name="a", size=8, slide=4, k=2, origin=8),
    ...     sb.TopK(name="b", size=6, slide=3, k=2, origin=8),
    ...     sb.TopK(name="c", size=4, slide=2, k=2, origin=8),
    ... ])
    >>> [(view.start, view.queries) for view in meta.views(8)]
    [(0, ('a',)), (2, ('b',)), (4, ('a', 'c')), (5, ('b',)), (6, ('c',))]
    >>> meta.next_moment(8)
    10
    """

    def __init__(self, queries: Sequence[TopK]) -> None:
        self.queries = tuple(queries)

    @property
    def size(self) -> int:
        """The meta query's window size: the largest of all. Of windows that never close, the slide counts."""
        return max(min(query.window.longest, query.window.tail) for query in self.queries)

    @property
    def windows(self) -> int:
        """Number of open windows if every query ran separately."""
        return sum(query.window.most_alive for query in self.queries)

    def views(self, now: int) -> list[View]:
        """The views open at `now`, oldest first: begun before it, with a window that ends at `now` or later."""
        serving: dict[int, list[TopK]] = {}
        for query in self.queries:
            for start in _open_starts(query.window, now):
                serving.setdefault(start, []).append(query)
        return [
            View(start, tuple(query.name for query in served), max(query.k for query in served))
            for start, served in sorted(serving.items())
        ]

    def next_end(self, now: int) -> int:
        """The next position after `now` at which a query answers."""
        return min(query.window.first_end_after(now) for query in self.queries)

    def next_start(self, now: int) -> int:
        """The next position after `now` at which a view opens."""
        return min(query.sliding.latest_start(now) + query.sliding.slide for query in self.queries)

    def next_moment(self, now: int) -> int:
        """The end of the meta query's slide that begins at `now`: the next answer or the next view."""
        return min(self.next_end(now), self.next_start(now))

    def moments(self, now: int, until: int) -> Iterator[int]:
        """All events in ``(now, until]``."""
        now = self.next_moment(now)
        while now <= until:
            yield now
            now = self.next_moment(now)

    def answering(self, end: int) -> list[TopK]:
        """The queries that answer at `end`."""
        return [query for query in self.queries if query.sliding.last_end_at(end) == end]
