"""What a workload means for the engine, on a page that a person reads: each family writes its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skyband.errors import UnsupportedError
from skyband.queries.families import family_of

__all__ = ["explain"]


def explain(queries: Sequence[Any], *, on_spark: bool = False, plan: str | None = None) -> str:
    """The page on queries of one family; those over uncertain streams are run by a plan, the greedy one if None."""
    write = family_of(queries[0]).part("explain").page
    if queries[0].family == "uncertain":
        return str(write(queries, on_spark=on_spark, method=plan or "greedy"))
    if plan is not None:
        raise UnsupportedError(
            f"plan={plan!r} is for queries over uncertain streams, which are run together by a plan; "
            f"{type(queries[0]).__name__} queries have none. Leave it out."
        )
    return str(write(queries, on_spark=on_spark))
