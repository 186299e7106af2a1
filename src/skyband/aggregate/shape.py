"""The structure shared by a set of aggregate queries: pane, tracks, scores, and contents of partials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from skyband.aggregate.decay import Decay
from skyband.aggregate.having import OPERATORS
from skyband.aggregate.kernels.items import DISTINCT, ESTIMATE, QUANTILE
from skyband.aggregate.kernels.key_scores import CODES, EXTREME
from skyband.aggregate.kernels.partials import BY_VALUE, NEWEST, NONE, OLDEST, AggregateQueries
from skyband.aggregate.panes import IrregularPanes, LatticePanes, panes_for
from skyband.aggregate.query import AGGREGATES, AggregateTopK, Items
from skyband.aggregate.window_pages import EVERYWHERE, NOWHERE, WindowPage
from skyband.windows import AXIS_LIMIT, IrregularWindows, SlidingWindow, Windows

__all__ = ["EXTREMES", "AggregateShape", "page_fields"]

ALWAYS = -AXIS_LIMIT
EXTREMES = {"max": BY_VALUE, "min": BY_VALUE, "latest": NEWEST, "first": OLDEST}  # how rows of a key are compared


@dataclass(frozen=True)
class AggregateShape:
    """Queries over the same keys and values, and their form for kernels.

    >>> import skyband as sb
    >>> hour, high = (sb.AggregateTopK(k=3, size="1 hour", slide=s, aggregate=a) for s, a in [("1 minute", "sum"),
    ...     ("5 minutes", "max")])
    >>> shape = AggregateShape((hour, high))
    >>> shape.tracks, shape.extremes, shape.powers
    ((3600000000,), ('max',), 1)
    """

    queries: tuple[AggregateTopK, ...]

    @property
    def tracks(self) -> tuple[int | IrregularWindows, ...]:
        """The distinct window sizes, and the irregular windows. Each is a track."""
        return tuple(dict.fromkeys(_track(query.window) for query in self.queries))

    @property
    def grows(self) -> tuple[bool, ...]:
        """Whether the windows of each track grow: those that contain a position have one start."""
        return tuple(not isinstance(track, int) and track.most_views == 1 for track in self.tracks)

    @property
    def irregular(self) -> tuple[IrregularWindows, ...]:
        """The distinct irregular windows, in the order of `AggregateQueries.listed`."""
        return tuple(track for track in self.tracks if not isinstance(track, int))

    @property
    def _aggregates(self) -> set[str]:
        if self.counters is not None:
            return {"sum"}  # of excesses, see `pane_bounds`
        return {name for query in self.queries for name in query.aggregates}

    @property
    def extremes(self) -> tuple[str, ...]:
        """The extremes that partials contain."""
        kept = {extreme for name in self._aggregates for extreme in AGGREGATES[name].extremes}
        return tuple(name for name in EXTREMES if name in kept)

    @property
    def identified(self) -> bool:
        """Whether partials contain the position and the id of the rows of extremes: to return or to compare them."""
        return any(query.identified for query in self.queries)

    @property
    def totals(self) -> bool:
        """Whether a query needs the total of all keys of a window."""
        return any(query.totals for query in self.queries)

    @property
    def items(self) -> Items | None:
        """What is counted for each key: the same for all queries."""
        kinds = {query.items for query in self.queries}
        return "numbers" if "numbers" in kinds else next(iter(kinds))

    @property
    def counters(self) -> int | None:
        """The number of keys that are held of each pane and group, the same for all queries; None: all keys."""
        return self.queries[0].most_counters if self.queries[0].sketched else None

    @property
    def weighted(self) -> bool:
        """Whether the keys of a sketch have their values as weights, not 1."""
        return self.queries[0].aggregate == "sum"

    @property
    def reduced_powers(self) -> int:
        """The powers in the partials of tasks: a sketch of counts needs no sums of values."""
        return self.powers if self.counters is None or self.weighted else 0

    @property
    def fractions(self) -> tuple[float, ...]:
        """The distinct quantiles, from 0 to 1; the median first."""
        found = [0.5, *(query.quantile for query in self.queries if query.quantile is not None)]
        return tuple(dict.fromkeys(found))

    @property
    def decay(self) -> Decay | None:
        """How rows decay: all queries alike."""
        found = self.queries[0].decay
        return None if found is None else Decay(found[0], mean=found[1] == "avg")

    @property
    def counts_decayed(self) -> bool:
        """Whether the sum of weights is ranked, not that of weighted values."""
        return self.queries[0].decay is not None and self.queries[0].counts_rows

    @property
    def powers(self) -> int:
        """The highest power of the values that is summed: 0 for none, 1 for the values, 2 for their squares too.

        A decayed mean has the limbs of its weights in columns of squares, see `decayed_sums`.
        """
        if self.decay is not None:
            return 2 if self.decay.mean else 1
        return max(AGGREGATES[name].powers for name in self._aggregates)

    @property
    def values(self) -> bool:
        """Whether partials contain more of the values than their number."""
        return self.decay is not None or any(
            AGGREGATES[name].needs_values and not AGGREGATES[name].items for name in self._aggregates
        )

    @property
    def panes(self) -> LatticePanes | IrregularPanes:
        """The panes of all windows."""
        return panes_for(query.window for query in self.queries)

    @property
    def in_order(self) -> list[AggregateTopK]:
        """The queries in kernel order: sorted by ranking."""
        return [self.queries[place] for place in self.query_set(0).places.tolist()]

    def query_set(self, low: int, since: Sequence[int] | None = None) -> AggregateQueries:
        """Return the queries as arrays. Limbs start with `low`; `since` has the smallest window start per query."""
        tracks, extremes, fractions = self.tracks, self.extremes, self.fractions
        irregular = self.irregular
        codes = CODES | {name: EXTREME + place for place, name in enumerate(extremes)}
        codes |= {"count_distinct": DISTINCT, "approx_count_distinct": ESTIMATE, "median": QUANTILE}
        conditions = [
            tuple(
                (_code(codes, fractions, query, one.aggregate), OPERATORS.index(one.operator), one.bound)
                for one in query.conditions
            )
            for query in self.queries
        ]
        kinds = [
            (
                tracks.index(_track(query.window)),
                _code(codes, fractions, query, "sum" if query.sketched else query.aggregate),
                query.ascending,
                having,
            )
            for query, having in zip(self.queries, conditions, strict=True)
        ]
        rankings = sorted(set(kinds))
        order = sorted(range(len(self.queries)), key=kinds.__getitem__)
        found = [self.queries[place] for place in order]
        panes, page = self.panes, NOWHERE if irregular else EVERYWHERE
        lattice = panes if isinstance(panes, LatticePanes) else panes.lattice
        windows = [query.window if isinstance(query.window, SlidingWindow) else None for query in found]
        number = count()
        return AggregateQueries(
            rankings=_ints(rankings.index(kinds[place]) for place in order),
            tracks=_ints(kinds[place][0] for place in order),
            ks=_ints(query.k + query.sketched for query in found),  # the next key bounds those that are missing
            sizes=_ints(0 if window is None else window.size for window in windows),
            slides=_ints(0 if window is None else window.slide for window in windows),
            origins=_ints(0 if window is None else window.origin for window in windows),
            listed=_ints(
                NONE if isinstance(query.window, SlidingWindow) else irregular.index(query.window) for query in found
            ),
            full_only=_ints(query.full_only for query in found),
            since=_ints(ALWAYS if since is None else since[place] for place in order),
            places=_ints(order),
            ties=_ints(query.shares_ranks for query in found),
            totals=_ints(query.totals for query in found),
            tracks_of=_ints(ranking[0] for ranking in rankings),
            whats=_ints(ranking[1] for ranking in rankings),
            directions=np.array([-1.0 if ranking[2] else 1.0 for ranking in rankings]),
            conditions_end=np.cumsum(_ints(len(ranking[3]) for ranking in rankings)),
            condition_whats=_ints(what for ranking in rankings for what, _, _ in ranking[3]),
            operators=_ints(operator for ranking in rankings for _, operator, _ in ranking[3]),
            bounds=np.array([bound for ranking in rankings for _, _, bound in ranking[3]], np.float64),
            spans=_ints(track if isinstance(track, int) else track.longest for track in tracks),
            grows=_ints(next(number) if grows else NONE for grows in self.grows),
            signs=np.array([-1.0 if name == "min" else 1.0 for name in extremes]),
            compared=_ints(EXTREMES[name] for name in extremes),
            **page_fields(page),
            pane=0 if lattice is None else lattice.length,
            offset=0 if lattice is None else lattice.offset,
            low=low,
            powers=self.powers,
            identified=int(self.identified),
        )


def _code(codes: dict[str, int], fractions: Sequence[float], query: AggregateTopK, aggregate: str) -> int:
    if query.decay is not None:
        return codes["decayed_avg" if query.aggregate == "avg" else "sum"]  # of weights, if rows are counted
    return codes[aggregate] if aggregate != "quantile" else QUANTILE - fractions.index(query.quantile)


def page_fields(page: WindowPage) -> dict[str, Any]:
    """Return the fields of `AggregateQueries` that contain a page of irregular windows."""
    return {
        "list_begins": page.begins,
        "list_starts": page.starts,
        "list_ends": page.ends,
        "cuts": page.cuts,
        "page_low": page.low,
        "page_high": page.high,
    }


def _track(window: Windows) -> int | IrregularWindows:
    """Return the size of sliding windows, because the oldest pane of a window depends on its end and size only."""
    if isinstance(window, SlidingWindow):
        return window.size
    assert isinstance(window, IrregularWindows)
    return window


def _ints(numbers: Any) -> Any:
    return np.array(list(numbers), np.int64)
