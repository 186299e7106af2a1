"""Answers as the Arrow table a user reads: by time, query and rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.kernels.stream import Floats

__all__ = ["Part", "answer_table", "schema", "widened"]


class Part(NamedTuple):
    """One answer of one query."""

    time: int
    place: int  # of the query in the workload, which orders answers of one time
    name: str
    ids: Any
    scores: Floats
    probabilities: Floats
    expected_ranks: Floats | None
    streams: pa.Array | None  # None: the query ranks tuples


def schema(
    position_kind: pa.DataType | None, id_kind: pa.DataType | None, *, expected: bool, stream_kind: pa.DataType | None
) -> pa.Schema:
    """The columns, with `expected_rank` where a query asks for it, and `stream` where one ranks streams."""
    columns = {
        "query": pa.string(),
        "time": position_kind or pa.int64(),
        "rank": pa.int64(),
        "id": id_kind or pa.int64(),
        "score": pa.float64(),
        "probability": pa.float64(),
    }
    if expected:
        columns["expected_rank"] = pa.float64()
    if stream_kind is not None:
        columns["stream"] = stream_kind
    return pa.schema(list(columns.items()))


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
    if "stream" in wanted.names:
        kind = wanted.field("stream").type
        labels = [pa.nulls(part.scores.size, kind) if part.streams is None else part.streams for part in parts]
        columns["stream"] = pa.concat_arrays(labels)
    return pa.table(columns, wanted)


def widened(table: pa.Table, wanted: pa.Schema) -> pa.Table:
    """The table with a column that was not asked for when it was made."""
    for name in wanted.names:
        if name not in table.column_names:
            table = table.append_column(name, pa.nulls(table.num_rows, wanted.field(name).type))
    return table.select(wanted.names).cast(wanted)
