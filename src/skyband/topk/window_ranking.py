"""One engine for many groups: their streams are placed one after another on one axis, without shared windows.

Engines do not know groups. If a group is shifted by a multiple of every slide, its windows stay on the same lattice.
One run over the long axis then answers the windows of all groups, thousands of them, in compiled code. Irregular
windows cannot be shifted; their groups are segments of one executor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from math import lcm
from typing import NamedTuple

import numpy as np

from skyband.data.answer_log import AnswerLog, RankedWindows, chosen, joined
from skyband.data.window_bounds import all_sliding
from skyband.kernels.stream import Floats, Ints, Rows
from skyband.topk.algorithms import Engine
from skyband.topk.algorithms.grouped_panes import GroupedPanes
from skyband.topk.algorithms.panes import Candidates, Panes
from skyband.topk.distinct_ranking import rank_distinct
from skyband.topk.kernels.group_runs import ArrivedRows, JoinStarts
from skyband.topk.query import TopK
from skyband.windows import ALWAYS, AXIS_LIMIT

__all__ = ["Lined", "Ranking", "rank_rows"]


class Lined(NamedTuple):
    """Rows by group, and in each group in stream order."""

    scores: Floats
    positions: Ints
    begins: Ints  # (groups + 1): where each group's rows begin
    entities: Ints | None = None  # if an answer contains at most one row of each


class Ranking(NamedTuple):
    """The windows of all groups, by query, and the rows that later windows need."""

    windows: RankedWindows  # `ids` are row indexes; without windows up to their group's `answered`
    needed: Ints  # indexes of rows that unlisted windows need


def rank_rows(engine: type[Engine], queries: Sequence[TopK], rows: Lined, answered: Ints, final: Ints) -> Ranking:
    """Rank the rows of every window that ends after its group's entry in `answered`.

    The result contains all windows that end at or before their group's entry in `final`, and some later ones. For the
    other windows it contains the rows that they need.
    """
    parts: list[RankedWindows] = []
    needed: list[Ints] = []
    for together in _together(engine, tuple(queries)):
        mine = _plain(tuple(queries[place] for place in together))
        keys = -rows.scores if mine[0].order == "asc" else rows.scores
        if rows.entities is not None:
            for place in together:
                found, rest = rank_distinct(
                    queries[place], keys, rows.positions, rows.entities, rows.begins, answered, final
                )
                needed.append(rest)
                parts.append(found._replace(queries=np.full(found.ends.size, place, np.int64)))
            continue
        if rows.begins.size == 2:
            found, rest = _rank_one(engine, mine, rows._replace(scores=keys), int(answered[0]), int(final[0]))
        else:
            found, rest = _rank_many(engine, mine, rows._replace(scores=keys), answered, final)
        needed.append(rest)
        parts.append(found._replace(queries=np.array(together, np.int64)[found.queries]))
    return Ranking(joined(parts), np.concatenate([np.empty(0, np.int64), *needed]))


def _rank_one(
    engine: type[Engine], queries: tuple[TopK, ...], rows: Lined, answered: int, final: int
) -> tuple[RankedWindows, Ints]:
    since = [ALWAYS] * len(queries)
    if answered > ALWAYS:
        since = [query.window.start(query.window.first_end_after(answered)) for query in queries]
    newest = int(rows.positions[-1]) if rows.positions.size else answered
    until = max(newest, min(final, newest + max(query.window.longest for query in queries)))
    running, log = engine(queries, since), AnswerLog(_expected(queries, rows.positions, until))
    log.begin(0, range(len(queries)))
    old = 0
    if answered > ALWAYS and isinstance(running, Panes) and not all_sliding(queries):
        # The windows that have been answered since these rows may be many: continue after them.
        old = int(np.searchsorted(rows.positions, answered))
        if old:
            running.take_over(_candidates(rows, 0, old), answered)
    running.advance(Rows(rows.scores[old:], rows.positions[old:], np.empty(0, np.int64), 0, old), until, ALWAYS, log)
    found = joined(log.take())
    # An engine without objects may report windows that are already answered.
    held = running.objects().ids
    oldest = min(query.window.start(query.window.first_end_after(until)) for query in queries)
    return chosen(found, found.ends > answered), held[rows.positions[held] >= oldest]


def _expected(queries: Sequence[TopK], positions: Ints, until: int) -> int:
    """Return how many rows the windows up to `until` have at most, and 0 if that is not known."""
    if not positions.size or not all_sliding(queries):
        return 0
    span = until - int(positions[0])
    return sum((span // query.sliding.slide + 2) * min(query.k, positions.size) for query in queries)


def _rank_many(
    engine: type[Engine], queries: tuple[TopK, ...], rows: Lined, answered: Ints, final: Ints
) -> tuple[RankedWindows, Ints]:
    if not all_sliding(queries):
        if issubclass(engine, Panes):
            return _rank_in_segments(queries, rows, answered, final)
        return _rank_in_turn(engine, queries, rows, answered, final)
    groups = rows.begins.size - 1
    step = lcm(*(query.sliding.slide for query in queries))
    low = int(rows.positions.min(initial=2**62)) // step * step if rows.positions.size else 0
    span = int(rows.positions.max(initial=low)) - low + 1 + max(query.window.longest for query in queries)
    stride = -(-span // step) * step
    if groups * stride >= AXIS_LIMIT // 2:
        return _rank_in_turn(engine, queries, rows, answered, final)
    code = np.repeat(np.arange(groups), np.diff(rows.begins))
    positions = rows.positions - low + code * stride
    running, log = engine(queries), AnswerLog()
    log.begin(0, range(len(queries)))
    running.advance(Rows(rows.scores, positions, np.empty(0, np.int64), 0, 0), groups * stride, ALWAYS, log)
    found = joined(log.take())
    owner = (found.ends - 1) // stride
    ends = found.ends - owner * stride + low
    return chosen(found._replace(ends=ends, groups=owner), ends > answered[owner]), np.empty(0, np.int64)


def _candidates(rows: Lined, begin: int, stop: int) -> Candidates:
    """Some rows of one group as candidates, best first, with their indexes as ids."""
    keys, positions = rows.scores[begin:stop], rows.positions[begin:stop]
    order = np.lexsort([-np.arange(keys.size), -positions, -keys])
    return Candidates(keys[order], positions[order], begin + order, np.zeros(order.size, np.int64))


def _rank_in_segments(
    queries: tuple[TopK, ...], rows: Lined, answered: Ints, final: Ints
) -> tuple[RankedWindows, Ints]:
    """Run the groups in one executor, for irregular windows. Rows before `answered` have been ranked before."""
    groups, pool, log = rows.begins.size - 1, GroupedPanes(queries), AnswerLog()
    pool.reserve(groups)
    begins = rows.begins.copy()
    since = [ALWAYS] * len(queries)
    if groups and int(answered[0]) > ALWAYS:  # on a time axis, all groups are answered up to one position
        since = [query.window.start(query.window.first_end_after(int(answered[0]))) for query in queries]
        for group in range(groups):
            begin, stop = int(rows.begins[group]), int(rows.begins[group + 1])
            old = begin + int(np.searchsorted(rows.positions[begin:stop], answered[group]))
            if old > begin:
                pool.put_in(group, _candidates(rows, begin, old))
            begins[group] = old
    lengths = rows.begins[1:] - begins[:-1]
    new = np.repeat(begins[:-1] - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())
    until = final.copy()
    np.maximum.at(until, np.repeat(np.arange(groups), lengths), rows.positions[new])
    arrived = ArrivedRows(
        rows.scores[new],
        rows.positions[new],
        new,
        np.arange(groups),
        np.concatenate([[0], np.cumsum(lengths)]),
        answered,
        until,
    )
    joining = JoinStarts(np.array([since], np.int64), np.zeros(groups, np.int64))
    log.begin(-1, range(len(queries)))
    pool.advance(arrived, joining, ALWAYS, log)
    found = joined(log.take())
    pool.settle(joining, until)
    return chosen(found, found.ends > answered[found.groups]), pool.group_objects().objects.ids


def _rank_in_turn(
    engine: type[Engine], queries: tuple[TopK, ...], rows: Lined, answered: Ints, final: Ints
) -> tuple[RankedWindows, Ints]:
    """Run group by group, for irregular windows, or if the common multiple of the slides is too large for the axis."""
    parts, needed = [], [np.empty(0, np.int64)]
    for group, (begin, stop) in enumerate(zip(rows.begins[:-1], rows.begins[1:], strict=True)):
        mine = Lined(rows.scores[begin:stop], rows.positions[begin:stop], np.array([0, stop - begin]))
        found, rest = _rank_one(engine, queries, mine, int(answered[group]), int(final[group]))
        needed.append(rest + begin)
        parts.append(found._replace(groups=np.full(found.ends.size, group, np.int64), ids=found.ids + begin))
    return joined(parts), np.concatenate(needed)


@lru_cache(maxsize=256)
def _plain(queries: tuple[TopK, ...]) -> tuple[TopK, ...]:
    """The queries with every window reported; the shards decide later which windows begin late enough."""
    return tuple(replace(query, full_only=False) if query.full_only else query for query in queries)


@lru_cache(maxsize=256)
def _together(engine: type[Engine], queries: tuple[TopK, ...]) -> list[tuple[int, ...]]:
    """The indexes of the queries that one engine serves: one direction and one tie policy, if the engine shares."""
    if not engine.shares:
        return [(place,) for place in range(len(queries))]
    kinds = product(("desc", "asc"), ("row_number", "rank"))
    found = [tuple(p for p, query in enumerate(queries) if (query.order, query.ties) == kind) for kind in kinds]
    return [places for places in found if places]
