"""The structure shared by a set of aggregate queries: pane, tracks, scores, and contents of partials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skyband.aggregate.having import OPERATORS
from skyband.aggregate.kernels.key_top import CODES, EXTREME
from skyband.aggregate.kernels.partials import BY_VALUE, NEWEST, OLDEST, AggregateQueries
from skyband.aggregate.query import AGGREGATES, AggregateTopK
from skyband.windows import AXIS_LIMIT, common_pane

__all__ = ["EXTREMES", "AggregateShape"]

ALWAYS = -AXIS_LIMIT
EXTREMES = {"max": BY_VALUE, "min": BY_VALUE, "latest": NEWEST, "first": OLDEST}  # how rows of a key are compared


@dataclass(frozen=True)
class AggregateShape:
    """Queries over the same keys and values, and their form for kernels.

    >>> import skyband as sb
    >>> hour, high = (sb.AggregateTopK(k=3, size="1 hour", slide=s, aggregate=a) for s, a in [("1 minute", "sum"),
    ...     ("5 minutes", "max")])
    >>> shape = AggregateShape((hour, high))
    >>> shape.sizes, shape.extremes, shape.powers
    ((3600000000,), ('max',), 1)
    """

    queries: tuple[AggregateTopK, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The distinct window sizes. Each is a track."""
        return tuple(dict.fromkeys(query.window.size for query in self.queries))

    @property
    def _aggregates(self) -> set[str]:
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
    def powers(self) -> int:
        """The highest power of the values that is summed: 0 for none, 1 for the values, 2 for their squares too."""
        return max(AGGREGATES[name].powers for name in self._aggregates)

    @property
    def values(self) -> bool:
        """Whether a query needs more than the number of values."""
        return any(AGGREGATES[name].needs_values for name in self._aggregates)

    @property
    def pane(self) -> tuple[int, int]:
        """The length of the panes and the start of one of them."""
        return common_pane(query.window for query in self.queries)

    @property
    def in_order(self) -> list[AggregateTopK]:
        """The queries in kernel order: sorted by ranking."""
        return [self.queries[place] for place in self.query_set(0).places.tolist()]

    def query_set(self, low: int, since: Sequence[int] | None = None) -> AggregateQueries:
        """Return the queries as arrays. Limbs start with `low`; `since` has the smallest window start per query."""
        sizes, extremes = self.sizes, self.extremes
        codes = CODES | {name: EXTREME + place for place, name in enumerate(extremes)}
        conditions = [
            tuple((codes[one.aggregate], OPERATORS.index(one.operator), one.bound) for one in query.conditions)
            for query in self.queries
        ]
        kinds = [
            (sizes.index(query.window.size), codes[query.aggregate], query.ascending, having)
            for query, having in zip(self.queries, conditions, strict=True)
        ]
        rankings = sorted(set(kinds))
        order = sorted(range(len(self.queries)), key=kinds.__getitem__)
        found = [self.queries[place] for place in order]
        pane, offset = self.pane
        return AggregateQueries(
            rankings=_ints(rankings.index(kinds[place]) for place in order),
            tracks=_ints(kinds[place][0] for place in order),
            ks=_ints(query.k for query in found),
            sizes=_ints(query.window.size for query in found),
            slides=_ints(query.window.slide for query in found),
            origins=_ints(query.window.origin for query in found),
            full_only=_ints(query.full_only for query in found),
            since=_ints(ALWAYS if since is None else since[place] for place in order),
            places=_ints(order),
            tracks_of=_ints(ranking[0] for ranking in rankings),
            whats=_ints(ranking[1] for ranking in rankings),
            directions=np.array([-1.0 if ranking[2] else 1.0 for ranking in rankings]),
            conditions_end=np.cumsum(_ints(len(ranking[3]) for ranking in rankings)),
            condition_whats=_ints(what for ranking in rankings for what, _, _ in ranking[3]),
            operators=_ints(operator for ranking in rankings for _, operator, _ in ranking[3]),
            bounds=np.array([bound for ranking in rankings for _, _, bound in ranking[3]], np.float64),
            spans=_ints(sizes),
            signs=np.array([-1.0 if name == "min" else 1.0 for name in extremes]),
            compared=_ints(EXTREMES[name] for name in extremes),
            pane=pane,
            offset=offset,
            low=low,
            powers=self.powers,
            identified=int(self.identified),
        )


def _ints(numbers: Any) -> Any:
    return np.array(list(numbers), np.int64)
