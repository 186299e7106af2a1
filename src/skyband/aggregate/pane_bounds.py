"""Bounds of the keys in closed panes, and the bounds of the rows of an answer.

The engine ranks keys by how much the sum of their upper bounds exceeds that of a key without counters. This difference
is additive over panes, 0 where a key has no counter, and its sums are exact, so panes enter and leave windows as those
of exact queries do. The bounds themselves are looked up for the rows of answers only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from skyband.aggregate.addends import Addends
from skyband.aggregate.kernels.partials import COUNT, FIRST_LIMB
from skyband.aggregate.kernels.score_bounds import BoundedWindows, ClosedPanes, bound_rows
from skyband.aggregate.kernels.space_saving import excesses
from skyband.aggregate.kernels.sums import sum_up
from skyband.aggregate.query import AggregateTopK
from skyband.aggregate.sketches import HeldCounters
from skyband.data.answer_log import RankedWindows
from skyband.data.window_bounds import starts_of
from skyband.errors import SnapshotError
from skyband.kernels.stream import Floats, Ints

__all__ = ["BoundedAnswers", "PaneBounds", "counter_partials"]

_EXACT = 2.0**53
_ULP = 2.0**-52


class BoundedAnswers(NamedTuple):
    """Answers with bounds. `kept` has the rows of the engine that are in them."""

    windows: RankedWindows  # scores are upper bounds
    lows: Floats  # per row: the lower bound
    errors: Floats  # per row: by how much the score can be too high
    guaranteed: Any  # per row: whether no key that is missing can have a higher total
    kept: Ints
    most_missing: Floats  # per row: the largest total that a key without a row of its window can have


class PaneBounds:
    """The bounds of the counters in all panes that a window still needs."""

    def __init__(self) -> None:
        self._marks = np.empty(0, np.int64)
        self._whole = np.empty(0, bool)
        self._panes = _none()

    def __len__(self) -> int:
        """Return the number of counters."""
        return int(self._panes.slots.size)

    @property
    def nbytes(self) -> int:
        """The size of all arrays in bytes."""
        return int(sum(array.nbytes for array in self._panes))

    def add(self, mark: int, slots: Ints, found: HeldCounters) -> None:
        """Add the counters of a pane, whose keys have these slots. `mark` is later than that of earlier panes."""
        order = np.argsort(slots)
        panes = self._panes
        self._marks, self._whole = np.append(self._marks, mark), np.append(self._whole, found.whole)
        self._panes = ClosedPanes(
            stops=np.append(panes.stops, panes.slots.size + slots.size),
            slots=np.concatenate([panes.slots, slots[order]]),
            highs=np.concatenate([panes.highs, found.highs[order]]),
            lows=np.concatenate([panes.lows, found.lows[order]]),
            offset_stops=np.append(panes.offset_stops, panes.groups.size + found.evicted.size),
            groups=np.concatenate([panes.groups, found.evicted]),
            offsets=np.concatenate([panes.offsets, found.offsets]),
        )

    def drop_before(self, start: int) -> None:
        """Drop the panes before a position."""
        gone = int(np.searchsorted(self._marks, start))
        if not gone:
            return
        panes = self._panes
        first, offset = int(panes.stops[gone - 1]), int(panes.offset_stops[gone - 1])
        self._marks, self._whole = self._marks[gone:], self._whole[gone:]
        self._panes = ClosedPanes(
            panes.stops[gone:] - first,
            panes.slots[first:],
            panes.highs[first:],
            panes.lows[first:],
            panes.offset_stops[gone:] - offset,
            panes.groups[offset:],
            panes.offsets[offset:],
        )

    def bounded(self, ranked: RankedWindows, queries: Sequence[AggregateTopK]) -> BoundedAnswers:
        """Return the answers of an engine, which ranks one key more than each query, with their bounds."""
        starts = starts_of(queries, ranked.queries, ranked.ends)
        firsts, lasts = np.searchsorted(self._marks, starts), np.searchsorted(self._marks, ranked.ends)
        stops, rows = np.cumsum(ranked.counts), ranked.ids.size
        windows = BoundedWindows(
            firsts,
            lasts,
            np.ascontiguousarray(ranked.groups),
            stops,
            np.empty(ranked.counts.size),
            np.ascontiguousarray(ranked.ids),
            np.empty(rows),
            np.empty(rows),
        )
        bound_rows(self._panes, windows)
        whole_before = np.concatenate([np.zeros(1, np.int64), np.cumsum(self._whole)])
        whole = whole_before[lasts] - whole_before[firsts] == lasts - firsts
        ks = np.array([query.k for query in queries], np.int64)[ranked.queries]
        return _answers(ranked, windows, whole, ks)

    def state(self, used: Ints | None = None) -> dict[str, Any]:
        """Return the state for `load`. The groups with the codes `used`, which ascend, are numbered again.

        Other groups have no key in any window.
        """
        panes = self._panes
        if used is not None:
            kept = np.isin(panes.groups, used)
            before = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])
            panes = panes._replace(
                offset_stops=before[panes.offset_stops],
                groups=np.searchsorted(used, panes.groups[kept]),
                offsets=panes.offsets[kept],
            )
        return {"marks": self._marks, "whole": self._whole, **panes._asdict()}

    def load(self, state: dict[str, Any]) -> None:
        """Restore the state that `state` returned."""
        self._marks, self._whole = state["marks"], state["whole"]
        self._panes = panes = ClosedPanes(*(np.asarray(state[name]) for name in ClosedPanes._fields))
        # The kernel does not check indices.
        for stops, columns in (
            (panes.stops, (panes.slots, panes.highs, panes.lows)),
            (panes.offset_stops, (panes.groups, panes.offsets)),
        ):
            sizes = {column.size for column in columns} | {int(stops[-1]) if stops.size else 0}
            if len(sizes) > 1 or stops.size != self._marks.size or (np.diff(stops, prepend=0) < 0).any():
                raise SnapshotError("the bounds of a sketch do not belong together. Nothing was resumed.")


def _answers(ranked: RankedWindows, found: BoundedWindows, whole: Any, ks: Ints) -> BoundedAnswers:
    counts = np.minimum(ranked.counts, ks)
    in_window = np.repeat(np.arange(ranked.counts.size), ranked.counts)
    ranks = np.arange(in_window.size) - np.repeat(found.stops - ranked.counts, ranked.counts)
    # Scores of keys that have no row: those without a counter, and the best of those that the engine ranked lower.
    missing = found.offsets.copy()
    behind = ranks == counts[in_window]
    total = found.offsets[in_window[behind]] + ranked.keys[behind]
    exact = whole[in_window[behind]] & (total < _EXACT)
    np.maximum.at(missing, in_window[behind], np.where(exact, total, total + 2 * total * _ULP))
    # Upper bounds are rounded pane by pane, so two of them can be in another order than their exact sums.
    order = np.lexsort((ranks, np.where(behind, np.inf, -found.highs), in_window))
    kept = order[ranks < counts[in_window]]
    highs, lows = found.highs[kept], found.lows[kept]
    errors = highs - lows
    exact = whole[in_window[kept]] & (highs < _EXACT)
    errors = np.where(exact | (errors == 0), errors, errors + errors * _ULP)
    windows = ranked._replace(counts=counts, keys=highs, ids=ranked.ids[kept])
    most_missing = missing[in_window[kept]]
    return BoundedAnswers(windows, lows, errors, lows >= most_missing, kept, most_missing)


def counter_partials(found: HeldCounters) -> tuple[Addends, Any]:
    """Return the additive columns of counters: 1 pane, and by how much the upper bound exceeds that of no counter."""
    offsets = np.zeros(found.groups.size)
    if found.evicted.size:
        at = np.searchsorted(found.evicted, found.groups)
        at = np.minimum(at, found.evicted.size - 1)
        offsets = np.where(found.evicted[at] == found.groups, found.offsets[at], 0.0)
    values = np.empty(offsets.size)
    excesses(found.highs, offsets, values)
    bits = values.view(np.int64)
    addends = Addends(1).holding(bits)
    adds = np.zeros((values.size, addends.width), np.int64)
    assert adds.shape[1] >= FIRST_LIMB > COUNT
    sum_up(
        np.arange(values.size),
        found.lasts,
        values,
        bits,
        addends.low,
        addends.powers,
        np.empty(0),
        adds,
        found.lasts.copy(),
        np.empty((values.size, 0)),
    )
    return addends, adds


def _none() -> ClosedPanes:
    none = np.empty(0, np.int64)
    return ClosedPanes(none, none, np.empty(0), np.empty(0), none, none, np.empty(0))
