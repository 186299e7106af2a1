"""Aggregate answers as the Arrow table a user reads: by window end, query, group and rank."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from skyband.aggregate.executor import KeyedAnswers
from skyband.aggregate.query import AggregateTopK
from skyband.data.answer_log import joined
from skyband.data.group_dictionary import GroupDictionary, ranks_of
from skyband.data.key_dictionary import restored
from skyband.kernels.stream import Ints

__all__ = ["answer_table"]


def answer_table(
    parts: Sequence[KeyedAnswers],
    queries: tuple[AggregateTopK, ...],
    *,
    position_kind: pa.DataType,
    key_kind: pa.DataType,
    groups: GroupDictionary | None,
) -> pa.Table:
    """The answers as columns ``query, [group,] window_start, window_end, rank, key, score``."""
    windows = joined([part.windows for part in parts])
    ranks, places_of, values = np.array([-1], np.int64), windows.groups, None
    if groups is not None:
        values, places_of = groups.values_of(windows.groups)
        ranks = np.append(ranks_of(values), -1)  # place -1 finds the last
    order = np.lexsort([ranks[places_of], windows.queries, windows.ends])
    counts = windows.counts[order]
    rows = _rows_of(windows.counts, order)
    sizes = np.array([query.window.size for query in queries], np.int64)
    ends, places = np.repeat(windows.ends[order], counts), np.repeat(windows.queries[order], counts)
    columns = {"query": pa.array([query.name for query in queries], pa.string()).take(pa.array(places))}
    if values is not None:
        codes = np.repeat(places_of[order], counts)
        columns["group"] = values.take(pa.array(codes, mask=codes < 0))
    columns["window_start"] = pa.array(ends - sizes[places]).cast(position_kind)
    columns["window_end"] = pa.array(ends).cast(position_kind)
    columns["rank"] = pa.array(np.arange(rows.size) - np.repeat(np.cumsum(counts) - counts, counts) + 1, pa.int64())
    stored = [part.keys for part in parts if len(part.keys)]
    keys = pa.concat_arrays(stored).take(pa.array(rows)) if stored else pa.array([], key_kind)
    columns["key"] = restored(keys, key_kind)
    columns["score"] = pa.array(windows.keys[rows], pa.float64())
    return pa.table(columns)


def _rows_of(counts: Ints, order: Ints) -> Ints:
    """The rows of the windows in `order`, where the windows' rows stand one after another."""
    begins = np.cumsum(counts) - counts
    mine = counts[order]
    inside = np.arange(int(mine.sum())) - np.repeat(np.cumsum(mine) - mine, mine)
    return np.repeat(begins[order], mine) + inside
