"""Which algorithm `auto` stands for, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from skyband.query import TopK

__all__ = ["MOST_KEPT", "Choice", "Seen", "choose", "choose_on_spark"]

# Where panes are faster than SAP, measured on the SAP paper's grid (docs/performance-sap.md): slides of a twentieth of
# the window and more, and k of a twentieth of the window and more.
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
    return Choice("panes", _PANES if len(queries) == 1 else _SHARED)


def choose(queries: Sequence[TopK], seen: Seen | None = None, *, grouped: bool = False) -> Choice:
    """The algorithm for these queries when none is named; `grouped` if each group of the stream has its own windows."""
    if len(queries) > 1:
        return Choice("panes", _SHARED)
    query = queries[0]
    if seen is None and query.axis == "count":
        seen = Seen(query.window.size, query.window.slide)
    if query.ties == "rank" or grouped or query.partition_by or seen is None:
        reason = "" if seen is not None or grouped or query.partition_by else _UNTIL_SEEN
        return Choice("panes", _PANES + reason)
    if seen.size > MOST_KEPT:
        return Choice("panes", f"{_PANES}; a window of {seen.size:,.0f} objects is too long to be kept whole")
    if PART * seen.slide >= seen.size or PART * query.k >= seen.size:
        return Choice("panes", _PANES)
    return Choice(
        "sap",
        f"a slide is short against the window ({seen.slide:,.0f} of {seen.size:,.0f} objects): the window is kept "
        "whole, and a partition of it is looked through only when it must be",
    )


_PANES = "keeps MinTopk's minimal candidate set, a pane at a time instead of an object at a time"
_SHARED = (
    "keeps MTopList's minimal candidate set for all queries in one structure, a block at a time instead of an object "
    "at a time"
)
_UNTIL_SEEN = "; sap takes over if windows turn out to hold many objects and slides few"
