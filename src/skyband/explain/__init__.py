"""What a workload means for the engine, on a page that a person reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from skyband.errors import UnsupportedError
from skyband.explain import aggregate, incomplete, topk, uncertain
from skyband.explain.topk import Cost, Sharing, cost, sharing

__all__ = ["Cost", "Sharing", "cost", "explain", "sharing"]

_PAGES: dict[str, Callable[..., str]] = {
    "topk": topk.page,
    "aggregate": aggregate.page,
    "incomplete": incomplete.page,
}


def explain(queries: Sequence[Any], *, on_spark: bool = False, plan: str | None = None) -> str:
    """The page on queries of one family; those over uncertain streams are run by a plan, the greedy one if None."""
    if queries[0].family == "uncertain":
        return uncertain.page(queries, on_spark=on_spark, method=plan or "greedy")
    if plan is not None:
        raise UnsupportedError(
            f"plan={plan!r} is for queries over uncertain streams, which are run together by a plan; "
            f"{type(queries[0]).__name__} queries have none. Leave it out."
        )
    return _PAGES[queries[0].family](queries, on_spark=on_spark)
