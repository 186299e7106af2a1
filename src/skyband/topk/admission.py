"""A query that joins a running stream: from which window on can it be answered exactly?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from skyband.topk.query import TopK
from skyband.windows import ALWAYS, SlidingWindow

__all__ = ["SeenStream", "first_exact_start"]


class SeenStream(NamedTuple):
    """What has been seen: the first and the newest object's position, and how far windows have been answered."""

    first: int
    newest: int
    watermark: int


def first_exact_start(query: TopK, running: Sequence[TopK], since: Sequence[int], stream: SeenStream | None) -> int:
    """The start of the first window from which on every answer of `query` will be exact.

    A window that begins after the newest object has missed nothing. One that began earlier can be answered if a
    running query has an unanswered window with the same start, or both starts lie before the first object, and asks
    for as many objects at least: then what is held has the best k of that view. With its ties, if that query has
    ``ties="rank"``; without them, it is of no use to a query that has, however large its k. A query with listed
    windows, whose starts are not compared with those of others, begins after the newest object.
    """
    if stream is None:
        return ALWAYS
    window = query.window
    if not isinstance(window, SlidingWindow):
        return stream.newest + 1
    if query.ties == "rank":
        since = [at for other, at in zip(running, since, strict=True) if other.ties == "rank"]
        running = [other for other in running if other.ties == "rank"]
    start = window.latest_start(stream.newest)
    oldest = window.first_end_after(stream.watermark) - window.size
    while start >= oldest and _k_held(start, running, since, stream) >= query.k:
        start -= window.slide
    return start + window.slide


def _k_held(start: int, running: Sequence[TopK], since: Sequence[int], stream: SeenStream) -> int:
    """How many of the best objects at or after `start` are held for sure."""
    held = 0
    for query, joined in zip(running, since, strict=True):
        window = query.window
        if start <= stream.first:
            # All objects are at or after it: any open view that begins before them ranks the same ones.
            open_start = max(window.start(window.first_end_after(stream.watermark)), joined)
            serves = open_start <= stream.first
        elif not isinstance(window, SlidingWindow):
            serves = False
        else:
            on_lattice = (start + window.size - window.origin) % window.slide == 0
            serves = on_lattice and start >= joined and start + window.size > stream.watermark
        if serves:
            held = max(held, query.k)
    return held
