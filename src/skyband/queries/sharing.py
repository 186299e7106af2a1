"""Which queries share: those that agree in a key are grouped, in the order in which they first appear."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

__all__ = ["places_by"]

Q = TypeVar("Q")
K = TypeVar("K", bound=Hashable)


def places_by(key: Callable[[Q], K], queries: Iterable[Q]) -> dict[K, tuple[int, ...]]:
    """The places of the queries that agree in a key, such as `Query.sharing_key` or `Query.scan_key`.

    >>> import skyband as sb
    >>> low, far, high = (sb.TopK(k=k, size=9, by=by) for k, by in [(1, "price"), (1, "distance"), (5, "price")])
    >>> list(places_by(sb.TopK.scan_key, [low, far, high]).values())
    [(0, 2), (1,)]
    """
    found: dict[Any, list[int]] = {}
    for place, query in enumerate(queries):
        found.setdefault(key(query), []).append(place)
    return {shared: tuple(places) for shared, places in found.items()}
