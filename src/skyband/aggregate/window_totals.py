"""Shares and the row of all other keys, from the exact sums of the ranked keys and of all keys of a window.

The sum of the other keys is the difference of two exact sums, rounded once. So it does not depend on the shards that
the keys are in, nor on their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from skyband.aggregate.addends import Addends
from skyband.aggregate.kernels.key_scores import rounded_sums
from skyband.aggregate.kernels.partials import COUNT, NONE
from skyband.aggregate.query import AggregateTopK
from skyband.data.answer_log import RankedWindows
from skyband.kernels.stream import Floats, Ints

__all__ = ["WindowTotals", "completed", "window_totals"]


class WindowTotals(NamedTuple):
    """For each window: the score of all keys together, that of the keys that are not ranked, and their rows."""

    totals: Floats
    others: Floats
    other_rows: Ints

    def share(self, scores: Floats, windows: Ints) -> Floats:
        """Return the shares of scores in the totals of their windows; NaN if there is none."""
        totals = self.totals[windows]
        found = np.full(scores.size, np.nan)
        with np.errstate(over="ignore"):
            np.divide(scores, totals, out=found, where=(totals != 0) & np.isfinite(totals))
        return found


def window_totals(windows: Ints, all_keys: Any, held: Any, addends: Addends, counted: Any) -> WindowTotals:
    """Return the totals of windows. `windows` has the window of each row, `all_keys` whether it is that of all keys.

    The other rows are ranked keys. `counted` has, for each window, whether scores are counts.
    """
    size = counted.size
    total, ranked = np.zeros((size, held.shape[1]), np.int64), np.zeros((size, held.shape[1]), np.int64)
    np.add.at(total, windows[all_keys], held[all_keys])
    np.add.at(ranked, windows[~all_keys], held[~all_keys])
    rest = total - ranked
    return WindowTotals(_rounded(total, addends, counted), _rounded(rest, addends, counted), rest[:, COUNT])


def completed(
    ranked: RankedWindows, held: Any, addends: Addends, queries: Sequence[AggregateTopK]
) -> tuple[RankedWindows, Floats, Any]:
    """Replace the rows of all keys by those of the other keys where a query has them, and remove them elsewhere.

    Returns the windows, the share of each row (NaN: none), and which rows remain.
    """
    windows = np.repeat(np.arange(ranked.counts.size), ranked.counts)
    all_keys = ranked.ids == NONE
    asked = [queries[place] for place in ranked.queries.tolist()]
    uses, others, shares, counted, ascending = (
        np.array([getattr(query, name) for query in asked], bool)
        for name in ("totals", "others", "share", "counts_rows", "ascending")
    )
    mine = uses[windows]
    found = window_totals(windows[mine], all_keys[mine], held[mine], addends, counted)
    signs = np.where(ascending, -1.0, 1.0)
    scores = np.where(all_keys, found.others[windows] * signs[windows], ranked.keys)
    share = np.where(shares[windows], found.share(scores * signs[windows], windows), np.nan)
    is_answered = ranked.counts > uses  # a key is ranked
    kept = ~all_keys | (others & is_answered & (found.other_rows > 0))[windows]
    counts = np.bincount(windows[kept], minlength=ranked.counts.size)
    there = counts > 0
    result = RankedWindows(
        ranked.queries[there], ranked.groups[there], ranked.ends[there], counts[there], scores[kept], ranked.ids[kept]
    )
    return result, share[kept], kept


def _rounded(rows: Any, addends: Addends, counted: Any) -> Floats:
    found = np.zeros(rows.shape[0])
    room, nothing = np.zeros(addends.limbs + 2, np.int64), np.zeros(rows.shape[1], np.int64)
    rounded_sums(np.ascontiguousarray(rows), nothing, addends.low, addends.powers, counted, room, found)
    return found
