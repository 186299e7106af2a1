"""Find the first window that a query can answer exactly when it joins a running stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from skyband.session_windows import SessionWindows
from skyband.topk.query import TopK
from skyband.windows import ALWAYS, SlidingWindow

__all__ = ["SeenStream", "first_exact_start"]


class SeenStream(NamedTuple):
    """Positions of the first and the newest object, and the position up to which windows are answered."""

    first: int
    newest: int
    watermark: int


def first_exact_start(query: TopK, running: Sequence[TopK], since: Sequence[int], stream: SeenStream | None) -> int:
    """Return the start of the first window from which on every answer of `query` is exact.

    A window that begins after the newest object has missed nothing. An earlier window can be answered if a running
    query has an unanswered window with the same start, or both starts are at or before the first object, and the
    running query's k is at least as large: then the kept objects contain the best k of that view. A running query with
    ``ties="rank"`` also keeps ties. One without them cannot serve a query with ``ties="rank"``, however large its k. A
    query with irregular windows begins after the newest object, because its starts are not compared with those of
    others.
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
    """Number of the best objects at or after `start` that are certainly kept."""
    held = 0
    for query, joined in zip(running, since, strict=True):
        window = query.window
        if isinstance(window, SessionWindows):
            serves = False
        elif start <= stream.first:
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
