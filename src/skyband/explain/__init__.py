"""What a workload means for the engine, on a page that a person reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from skyband.explain import aggregate, incomplete, topk, uncertain
from skyband.explain.topk import Cost, cost

__all__ = ["Cost", "cost", "explain"]

_PAGES: dict[str, Callable[..., str]] = {
    "topk": topk.page,
    "aggregate": aggregate.page,
    "incomplete": incomplete.page,
    "uncertain": uncertain.page,
}


def explain(queries: Sequence[Any], *, on_spark: bool = False) -> str:
    """The page on queries of one family."""
    return _PAGES[queries[0].family](queries, on_spark=on_spark)
