"""Which algorithm `auto` stands for, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from skyband.query import TopK

__all__ = ["Choice", "choose"]


class Choice(NamedTuple):
    """An algorithm and the reason for it."""

    algorithm: str
    why: str


def choose(queries: Sequence[TopK]) -> Choice:
    """The algorithm for these queries when none is named."""
    if any(query.ties == "rank" for query in queries):
        return Choice(
            "panes",
            "keeps the minimal candidate set with all its ties, where the published structures rest on a total order",
        )
    if len(queries) == 1:
        return Choice(
            "panes",
            "keeps MinTopk's minimal candidate set, a pane at a time instead of an object at a time",
        )
    return Choice(
        "panes",
        "keeps MTopList's minimal candidate set for all queries in one structure, a block at a time instead of an "
        "object at a time",
    )
