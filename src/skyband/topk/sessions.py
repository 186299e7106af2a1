"""Rank the rows of sessions: final sessions become answers, and of open ones the rows remain that matter later.

Of an open session, later answers need its k best rows, its first row, and the last row that time has passed. If an
answer contains one row of each entity, the k best rows are those of different entities: a session only gains rows, so
another row of an entity, or an entity behind the k best ones, cannot return to the answer without new rows. Rows that
time has not passed all remain, because an older row may still arrive between them. So the rows that are left of what
time has passed belong to one session in each group, and nothing but rows is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from skyband.data.answer_log import RankedWindows, joined
from skyband.kernels.sessions import Sessions, cut_sessions
from skyband.kernels.stream import Bools, Floats, Ints
from skyband.session_windows import SessionWindows
from skyband.topk.query import TopK
from skyband.topk.window_ranking import Lined
from skyband.windows import ALWAYS, NEVER

__all__ = ["RankedSessions", "is_session", "rank_sessions"]


class RankedSessions(NamedTuple):
    """Final sessions, and what remains of the others."""

    windows: RankedWindows  # `ids` are row indexes
    needed: Ints  # row indexes, ascending
    next_end: int  # the smallest end of an open session; NEVER if there is none


def is_session(query: TopK) -> bool:
    """Whether the query has session windows."""
    return isinstance(query.window, SessionWindows)


def rank_sessions(
    window: SessionWindows,
    queries: Sequence[TopK],
    rows: Lined,
    answered: Ints,
    final: Ints,
    *,
    since: int = ALWAYS,
    ids: Ints | None = None,
) -> RankedSessions:
    """Rank the sessions that end at or before their group's entry in `final`.

    Rows before a group's entry in `answered` are what an earlier call returned as needed. All rows from `since` on are
    known; a session that starts less than a gap later may have begun before, and is dropped. `ids` resolve ties between
    rows with equal scores and positions; by default the later row is better.
    """
    size = rows.positions.size
    certain = since if since == ALWAYS else since + window.gap
    found = Sessions(*(np.empty(size, np.int64) for _ in Sessions._fields))
    count = cut_sessions(rows.positions, rows.begins, answered, window.gap, window.limit, certain, found)
    groups, starts, ends = found.groups[:count], found.starts[:count], found.ends[:count]
    is_final = ends <= final[groups]
    reported = is_final & (starts >= certain)
    needed = _bounds(rows.positions, found.owner, is_final, final[groups])
    parts = []
    for order, ties in product(("desc", "asc"), ("row_number", "rank")):
        mine = [place for place, query in enumerate(queries) if (query.order, query.ties) == (order, ties)]
        if not mine:
            continue
        keys = -rows.scores if order == "asc" else rows.scores
        best = np.lexsort([~(np.arange(size) if ids is None else ids), -rows.positions, -keys, found.owner])
        if rows.entities is not None:
            best = best[_first_of_entities(found.owner[best], rows.entities[best])]
        ranks = _ranks(keys[best], found.owner[best], tied=ties == "rank")
        most = max(queries[place].k for place in mine)
        needed[best[(ranks <= most) & ~is_final[found.owner[best]]]] = True
        for place in mine:
            chosen = best[(ranks <= queries[place].k) & reported[found.owner[best]]]
            counts = np.bincount(found.owner[chosen], minlength=count)[reported]
            parts.append(
                RankedWindows(
                    np.full(counts.size, place, np.int64),
                    groups[reported],
                    ends[reported],
                    counts,
                    keys[chosen],
                    chosen,
                    starts[reported],
                )
            )
    open_ends = ends[~is_final]
    return RankedSessions(joined(parts), np.flatnonzero(needed), int(open_ends.min(initial=NEVER)))


def _bounds(positions: Ints, owner: Ints, is_final: Bools, final: Ints) -> Bools:
    """Return a mask of the rows of open sessions that define their bounds."""
    is_open = ~is_final[owner]
    passed = positions < final[owner]
    kept: Bools = is_open & ~passed
    if owner.size:
        new = owner[1:] != owner[:-1]
        first, last = np.append(True, new), np.append(new | ~passed[1:], True)
        kept |= is_open & passed & (first | last)
    return kept


def _first_of_entities(owner: Ints, entities: Ints) -> Ints:
    """Return the first place of each entity in each session, ascending.

    >>> _first_of_entities(np.array([0, 0, 0, 1]), np.array([5, 7, 5, 5])).tolist()
    [0, 1, 3]
    """
    order = np.lexsort([entities, owner])  # stable: places of one entity remain in order
    new = np.ones(order.size, bool)
    new[1:] = (owner[order[1:]] != owner[order[:-1]]) | (entities[order[1:]] != entities[order[:-1]])
    found: Ints = np.sort(order[new])
    return found


def _ranks(keys: Floats, owner: Ints, *, tied: bool) -> Ints:
    """Return the rank of each row in its session; rows are sorted by session, best first."""
    place = np.arange(keys.size)
    new = np.append(True, owner[1:] != owner[:-1])[: keys.size]
    first = np.maximum.accumulate(np.where(new, place, 0)) if keys.size else place
    if tied:
        differs = new | np.append(True, keys[1:] != keys[:-1])[: keys.size]
        place = np.maximum.accumulate(np.where(differs, place, 0)) if keys.size else place
    ranks: Ints = place - first + 1
    return ranks
