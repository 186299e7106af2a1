"""Answers as the Arrow table a user reads: by time, query and rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.kernels.stream import Floats

__all__ = ["Part", "answer_table", "schema"]


class Part(NamedTuple):
    """One answer of one query."""

    time: int
    place: int  # of the query in the workload, which orders answers of one time
    name: str
    ids: Any
    scores: Floats
    probabilities: Floats
    expected_ranks: Floats | None


def schema(position_kind: pa.DataType | None, id_kind: pa.DataType | None, expected: bool) -> pa.Schema:
    """The columns, with `expected_rank` where a query asks for it."""
    columns = {
        "query": pa.string(),
        "time": position_kind or pa.int64(),
        "rank": pa.int64(),
        "id": id_kind or pa.int64(),
        "score": pa.float64(),
        "probability": pa.float64(),
    }
    return pa.schema([*columns.items(), *([("expected_rank", pa.float64())] if expected else [])])


def answer_table(parts: Sequence[Part], wanted: pa.Schema) -> pa.Table:
    """The answers, in these columns."""
    if not parts:
        return wanted.empty_table()
    parts = sorted(parts, key=lambda part: (part.time, part.place))
    counts = np.array([part.scores.size for part in parts])
    rows = int(counts.sum())
    begins = np.cumsum(counts) - counts
    columns = {
        "query": pa.array([part.name for part in parts]).take(pa.array(np.repeat(np.arange(len(parts)), counts))),
        "time": pa.array(np.repeat([part.time for part in parts], counts)).cast(wanted.field("time").type),
        "rank": np.arange(1, rows + 1) - np.repeat(begins, counts),
        "id": pa.array(np.concatenate([part.ids for part in parts]), wanted.field("id").type),
        "score": np.concatenate([part.scores for part in parts]),
        "probability": np.concatenate([part.probabilities for part in parts]),
    }
    if "expected_rank" in wanted.names:
        known = [
            np.full(part.scores.size, np.nan) if part.expected_ranks is None else part.expected_ranks for part in parts
        ]
        ranks = np.concatenate(known)
        columns["expected_rank"] = pa.array(ranks, mask=np.isnan(ranks))
    return pa.table(columns, wanted)
