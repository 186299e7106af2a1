"""The queries that run together over one stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from skyband.errors import InvalidQueryError, UnknownNameError
from skyband.query import Axis, TopK

__all__ = ["Workload"]


@dataclass(frozen=True, slots=True)
class Workload:
    """One or more queries with distinct names on one axis; frozen, ordered, comparable.

    >>> import skyband as sb
    >>> work = sb.Workload([
    ...     sb.TopK(name="hour", k=5, size="1 hour", slide="1 minute"),
    ...     sb.TopK(name="day", k=20, size="1 day", slide="1 hour"),
    ... ])
    >>> len(work), work.axis, work["day"].k
    (2, 'time', 20)
    """

    queries: tuple[TopK, ...]

    def __init__(self, queries: TopK | Iterable[TopK] | Workload) -> None:
        found = (queries,) if isinstance(queries, TopK) else tuple(queries)
        for query in found:
            if not isinstance(query, TopK):
                raise InvalidQueryError(f"{query!r} is not a query; a workload holds skyband.TopK values.")
        if not found:
            raise InvalidQueryError("a workload needs at least one query; with none there is nothing to answer.")
        _refuse_duplicates(found)
        _refuse_mixed_axes(found)
        object.__setattr__(self, "queries", found)

    @property
    def axis(self) -> Axis:
        """``"time"`` or ``"count"``: what the windows of all queries run along."""
        return self.queries[0].axis

    def __iter__(self) -> Iterator[TopK]:
        return iter(self.queries)

    def __len__(self) -> int:
        return len(self.queries)

    def __getitem__(self, name: str) -> TopK:
        for query in self.queries:
            if query.name == name:
                return query
        raise UnknownNameError.among("query", name, (query.name for query in self.queries))

    def __repr__(self) -> str:
        return f"Workload([{', '.join(map(repr, self.queries))}])"


def _refuse_duplicates(queries: tuple[TopK, ...]) -> None:
    seen: set[str] = set()
    for query in queries:
        if query.name in seen:
            raise InvalidQueryError(
                f"name={query.name!r} is used by more than one query; answers are told apart by it. "
                "Give each query its own name=."
            )
        seen.add(query.name)


def _refuse_mixed_axes(queries: tuple[TopK, ...]) -> None:
    first = queries[0]
    for query in queries:
        if query.axis != first.axis:
            raise InvalidQueryError(
                f"{first.name!r} has {first.axis} windows and {query.name!r} has {query.axis} windows; "
                "one workload runs along one axis. Make two workloads of them."
            )
