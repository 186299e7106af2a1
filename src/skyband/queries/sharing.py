"""Group queries by a key, in order of first appearance."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

__all__ = ["places_by"]

Q = TypeVar("Q")
K = TypeVar("K", bound=Hashable)


def places_by(key: Callable[[Q], K], queries: Iterable[Q]) -> dict[K, tuple[int, ...]]:
    """Return the indices of the queries for each value of a key such as `Query.sharing_key` or `Query.scan_key`.

    >>> import skyband as sb
    >>> low, far, high = (sb.TopK(k=k, size=9, by=by) for k, by in [(1, "price"), (1, "distance"), (5, "price")])
    >>> list(places_by(sb.TopK.scan_key, [low, far, high]).values())
    [(0, 2), (1,)]
    """
    found: dict[Any, list[int]] = {}
    for place, query in enumerate(queries):
        found.setdefault(key(query), []).append(place)
    return {shared: tuple(places) for shared, places in found.items()}
