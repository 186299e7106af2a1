"""The first line of an `explain` page, for all families."""

from __future__ import annotations

from collections.abc import Sequence

from skyband.queries.base import Query
from skyband.queries.counted import counted

__all__ = ["overview"]

_SHOWN = 3  # queries that are described one by one


def overview(queries: Sequence[Query], rows: str = "") -> str:
    """Describe in one sentence how many queries there are and what the first of them answer.

    `rows` names the kind of rows, if they are not plain ones.

    >>> import skyband as sb
    >>> print(overview([sb.TopK(k=10, size="1 hour", slide="5 minutes", by="price")]))
    1 query over event time: the 10 best in 1 hour, every 5 minutes, by price.
    >>> print(overview([sb.TopK(k=3, size="1 hour", by=["price", "size asc"], distinct="seller")]))
    1 query over event time: the 3 best in 1 hour, every 1 hour, by price, then by size asc, one row for each seller.
    """
    axis = "over event time" if queries[0].axis == "time" else "over counts of rows"
    described = [_described(query) for query in queries[:_SHOWN]]
    if len(queries) > _SHOWN:
        described.append(f"and {len(queries) - _SHOWN:,} more")
    return f"{counted(len(queries), 'query', 'queries')} {axis}{rows and f', {rows}'}: {'; '.join(described)}."


def _described(query: Query) -> str:
    each = f", for each {', '.join(query.groups)}" if query.groups else ""
    by, rule = getattr(query, "by", None), getattr(query, "ranking_rule", None)
    parts = [f"by {by}"] * bool(by) + ([rule.described()] if rule is not None else [])
    return ", ".join([f"{query.ranked_text} in {query.window_text}{each}", *parts])
