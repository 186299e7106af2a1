"""Flat answers as the Arrow table a user reads: by window end, query, group and rank."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from skyband.answers import Ranked
from skyband.groups import GroupBook
from skyband.ids import IdBook
from skyband.kernels.stream import Ints
from skyband.query import TopK

__all__ = ["answer_table"]


def answer_table(
    ranked: Ranked,
    queries: tuple[TopK, ...],
    *,
    position_kind: pa.DataType,
    groups: GroupBook | None,
    ids: IdBook | None,
) -> pa.Table:
    """The answers as columns ``query, [group,] window_start, window_end, rank, id, score``."""
    ranked = _sorted(ranked, groups)
    sizes = np.array([query.window.size for query in queries], np.int64)
    ascending = np.array([query.order == "asc" for query in queries])
    begins = np.cumsum(ranked.counts) - ranked.counts

    def per_row(values: Any) -> Any:
        return np.repeat(values, ranked.counts)

    if len(queries) == 1:
        names = pa.repeat(queries[0].name, ranked.keys.size)
    else:
        names = pa.array([query.name for query in queries]).take(pa.array(per_row(ranked.queries)))
    columns: dict[str, Any] = {"query": names}
    if groups is not None:
        codes = pa.array(per_row(ranked.groups), mask=per_row(ranked.groups < 0))
        columns["group"] = groups.column().take(codes)
    columns["window_start"] = pa.array(per_row(ranked.ends - sizes[ranked.queries])).cast(position_kind)
    columns["window_end"] = pa.array(per_row(ranked.ends)).cast(position_kind)
    columns["rank"] = np.arange(1, ranked.keys.size + 1) - per_row(begins)
    columns["id"] = ranked.ids if ids is None else ids.ids_of(ranked.ids)
    columns["score"] = _scores(ranked, ascending)
    return pa.table(columns)


def _scores(ranked: Ranked, ascending: Any) -> Any:
    if not ascending.any():
        return ranked.keys
    # + 0.0: a score of 0.0 went in as the key -0.0 and comes out as itself.
    flipped = np.repeat(ascending[ranked.queries], ranked.counts)
    return np.where(flipped, -ranked.keys + 0.0, ranked.keys)


def _sorted(ranked: Ranked, groups: GroupBook | None) -> Ranked:
    """The windows by end, query and group."""
    keys: list[Ints] = [ranked.queries, ranked.ends]
    if groups is not None:
        ranks = np.append(groups.ranks(), -1)  # code -1, no group, finds the last
        keys.insert(0, ranks[ranked.groups])
    order = np.lexsort(keys)
    if np.array_equal(order, np.arange(order.size)):
        return ranked
    begins = np.cumsum(ranked.counts) - ranked.counts
    counts = ranked.counts[order]
    rows = np.repeat(begins[order] - (np.cumsum(counts) - counts), counts) + np.arange(ranked.keys.size)
    return Ranked(*(column[order] for column in ranked[:3]), counts, ranked.keys[rows], ranked.ids[rows])
