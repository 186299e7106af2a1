"""Which algorithm `auto` selects, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from skyband.topk.query import TopK
from skyband.windows import SlidingWindow

__all__ = ["MOST_KEPT", "Choice", "Seen", "choose", "choose_on_spark", "may_switch"]

# Panes are faster than SAP if the slide or k is at least a twentieth of the window, as measured on the SAP paper's grid
# (benchmarks/reports/sap.md).
PART = 20
MOST_KEPT = 16_000_000  # objects: SAP keeps the window's scores, 8 to 24 bytes each


class Choice(NamedTuple):
    """An algorithm and the reason for it."""

    algorithm: str
    why: str


class Seen(NamedTuple):
    """Number of objects per window and per slide: fixed for count windows, measured for time windows."""

    size: float
    slide: float


def choose_on_spark(queries: Sequence[TopK]) -> Choice:
    """Choose the algorithm of a shard. It starts again with every batch and group, and panes start fastest."""
    return Choice("panes", _why_panes(queries))


def choose(queries: Sequence[TopK], seen: Seen | None = None, *, grouped: bool = False) -> Choice:
    """Choose the algorithm for these queries; `grouped` if each group of the stream has its own windows."""
    why, query = _why_panes(queries), queries[0]
    if grouped or not _could_be_sap(queries):
        return Choice("panes", why)
    if not isinstance(query.window, SlidingWindow):
        return Choice("panes", f"{why}; sap requires windows with one size and one slide")
    if seen is None and query.axis == "count":
        seen = Seen(query.window.size, query.window.slide)
    if seen is None:
        return Choice("panes", f"{why}; {_SWITCH}")
    if seen.size > MOST_KEPT:
        return Choice("panes", f"{why}; a window of {seen.size:,.0f} rows is too large for sap, which keeps all of it")
    if PART * seen.slide >= seen.size or PART * query.k >= seen.size:
        return Choice("panes", why)
    return Choice(
        "sap",
        f"fastest if slides are short compared with the window ({seen.slide:,.0f} of {seen.size:,.0f} rows); keeps the "
        "scores of the whole window and scans parts of it only when necessary",
    )


def may_switch(queries: Sequence[TopK]) -> bool:
    """Whether `auto` starts with panes and may switch to sap when it has seen how many rows windows contain."""
    query = queries[0]
    return _could_be_sap(queries) and query.axis == "time" and isinstance(query.window, SlidingWindow)


def _could_be_sap(queries: Sequence[TopK]) -> bool:
    """Whether there is one query, without ties and groups."""
    return len(queries) == 1 and queries[0].ties != "rank" and not queries[0].partition_by


_SWITCH = (
    "switches to sap if windows contain many rows and slides few; sap also keeps 8 to 24 bytes per row of the window"
)


def _why_panes(queries: Sequence[TopK]) -> str:
    if any(query.ties == "rank" for query in queries):
        return "keeps the minimal candidate set including ties, which the published algorithms do not support"
    if len(queries) == 1:
        return "keeps MinTopk's minimal candidate set, updated once per pane instead of once per row"
    return "keeps MTopList's minimal candidate set for all queries together, updated per block instead of per row"
