"""Drives the library with the oracle's plain values, and reads its tables back into them."""

from __future__ import annotations

import numpy as np
import pytest

import skyband as sb
from skyband.topk.algorithms import ENGINES
from skyband.topk.query import ListedTopK
from skyband.windows import ListedWindows

ALGORITHMS = sorted(ENGINES)
WITH_TIES = sorted(name for name in ENGINES if ENGINES[name].ranks_ties)

WITH_LISTS = sorted(name for name in ENGINES if ENGINES[name].takes_lists)

# Every engine under each policy for ties that it serves.
POLICIES = [*((name, False) for name in ALGORITHMS), *((name, True) for name in WITH_TIES)]
under_each_policy = pytest.mark.parametrize(
    ("algorithm", "tied"), POLICIES, ids=[f"{name}-{'rank' if tied else 'row_number'}" for name, tied in POLICIES]
)


def time_query(asked, **more):
    """The time-window query that `asked` stands for, a microsecond a tick."""
    if asked.listed:
        return ListedTopK(
            k=asked.k,
            windows=ListedWindows(*zip(*asked.listed, strict=True)),
            full_only=asked.full_only,
            order="asc" if asked.ascending else "desc",
            ties="rank" if asked.tied else "row_number",
            **more,
        )
    return sb.TopK(
        k=asked.k,
        size=f"{asked.size} microseconds",
        slide=f"{asked.slide} microseconds",
        origin=asked.origin,
        full_only=asked.full_only,
        order="asc" if asked.ascending else "desc",
        ties="rank" if asked.tied else "row_number",
        **more,
    )


def count_query(asked, **more):
    """The count-window query that `asked` stands for."""
    return sb.TopK(
        k=asked.k,
        size=asked.size,
        slide=asked.slide,
        origin=asked.origin,
        full_only=asked.full_only,
        order="asc" if asked.ascending else "desc",
        ties="rank" if asked.tied else "row_number",
        **more,
    )


def time_columns(rows):
    """Rows ``(position, score, id)`` as arrays."""
    kinds = (np.int64, np.float64, np.int64)
    return [np.array([row[field] for row in rows], kind) for field, kind in enumerate(kinds)]


def push_time(monitor, rows):
    """Push rows ``(position, score, id)``."""
    monitor.push(*time_columns(rows))


def push_count(monitor, rows):
    """Push rows ``(score, id)``."""
    monitor.push(None, np.array([row[0] for row in rows], float), np.array([row[1] for row in rows], np.int64))


def read(table, *names):
    """The table's rows as tuples ``(window_start, window_end, rank, id, score)``, `names` in front."""
    columns = [*names, "window_start", "window_end", "rank", "id", "score"]
    return list(zip(*(table[name].to_pylist() for name in columns), strict=True))


def run(query, algorithm, batches, push):
    """All answers over the batches, fetched once at the end."""
    monitor = sb.Monitor(query, algorithm)
    for batch in batches:
        push(monitor, batch)
    monitor.finish()
    return read(monitor.answers())


def held(monitor):
    """The ids of all objects held."""
    return [id_ for engine in monitor._executors.engines for id_ in map(int, engine.objects().ids)]
