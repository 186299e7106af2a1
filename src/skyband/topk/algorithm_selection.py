"""Which algorithm `auto` stands for, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from skyband.topk.query import TopK
from skyband.windows import SlidingWindow

__all__ = ["MOST_KEPT", "Choice", "Seen", "choose", "choose_on_spark"]

# Where panes are faster than SAP, measured on the SAP paper's grid (benchmarks/reports/sap.md): slides of a twentieth
# of the window and more, and k of a twentieth of the window and more.
PART = 20
MOST_KEPT = 16_000_000  # objects: SAP keeps the window's scores, 8 bytes each and up to 24


class Choice(NamedTuple):
    """An algorithm and the reason for it."""

    algorithm: str
    why: str


class Seen(NamedTuple):
    """How many objects a window and a slide hold: known of a count window, seen of a time window."""

    size: float
    slide: float


def choose_on_spark(queries: Sequence[TopK]) -> Choice:
    """The algorithm inside a shard: it is shown the rows of all groups anew in every batch, and panes set up least."""
    return Choice("panes", _why_panes(queries))


def choose(queries: Sequence[TopK], seen: Seen | None = None, *, grouped: bool = False) -> Choice:
    """The algorithm for these queries when none is named; `grouped` if each group of the stream has its own windows."""
    why, query = _why_panes(queries), queries[0]
    if len(queries) > 1 or query.ties == "rank" or grouped or query.partition_by:
        return Choice("panes", why)
    if not isinstance(query.window, SlidingWindow):
        return Choice("panes", f"{why}; sap needs windows of one size and one slide")
    if seen is None and query.axis == "count":
        seen = Seen(query.window.size, query.window.slide)
    if seen is None:
        return Choice("panes", f"{why}; sap takes over if windows turn out to hold many objects and slides few")
    if seen.size > MOST_KEPT:
        return Choice("panes", f"{why}; a window of {seen.size:,.0f} objects is too long to be kept whole")
    if PART * seen.slide >= seen.size or PART * query.k >= seen.size:
        return Choice("panes", why)
    return Choice(
        "sap",
        f"a slide is short against the window ({seen.slide:,.0f} of {seen.size:,.0f} objects): the window is kept "
        "whole, and a partition of it is looked through only when it must be",
    )


def _why_panes(queries: Sequence[TopK]) -> str:
    if any(query.ties == "rank" for query in queries):
        return "keeps the minimal candidate set with all its ties, where the published structures rest on a total order"
    if len(queries) == 1:
        return "keeps MinTopk's minimal candidate set, a pane at a time instead of an object at a time"
    return (
        "keeps MTopList's minimal candidate set for all queries in one structure, a block at a time instead of an "
        "object at a time"
    )
