"""Convert answers over an uncertain stream to a table, sorted by time, query and rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.data.answer_table import answer_table, names_of_rows, ranks_of_rows
from skyband.data.group_dictionary import GroupDictionary, ranks_of
from skyband.kernels.stream import Floats

__all__ = ["Part", "answer_rows"]


class Part(NamedTuple):
    """One answer of one query."""

    time: int
    place: int  # workload index of the query, the order of answers with the same time
    name: str
    ids: Any
    scores: Floats
    probabilities: Floats
    expected_ranks: Floats | None
    values: Floats | None  # of the ranking function
    streams: pa.Array | None  # None: the query ranks tuples
    group: int = -1  # code of the group; -1 without groups


def answer_rows(parts: Sequence[Part], wanted: pa.Schema, groups: GroupDictionary | None = None) -> pa.Table:
    """Return the answers with the columns of `wanted`. Columns that a query does not have are null."""
    if groups is None:
        parts = sorted(parts, key=lambda part: (part.time, part.place))
    else:
        values, at = groups.values_of(np.array([part.group for part in parts]))
        ranks = ranks_of(values)
        by_group = {part.group: (int(ranks[place]), int(place)) for part, place in zip(parts, at, strict=True)}
        parts = sorted(parts, key=lambda part: (part.time, part.place, by_group[part.group][0]))
    counts = np.array([part.scores.size for part in parts])
    columns = {
        "query": names_of_rows([part.name for part in parts], np.arange(counts.size), counts),
        "time": np.repeat([part.time for part in parts], counts),
        "rank": ranks_of_rows(counts),
        "id": pa.array(np.concatenate([part.ids for part in parts]), wanted.field("id").type),
        "score": np.concatenate([part.scores for part in parts]),
        "probability": np.concatenate([part.probabilities for part in parts]),
    }
    for name, field in (("expected_rank", "expected_ranks"), ("prf", "values")):
        if name in wanted.names:
            columns[name] = _optional(parts, field)
    if groups is not None:
        rows = np.repeat([by_group[part.group][1] for part in parts], counts)
        columns["group"] = values.take(pa.array(rows))
    if "stream" in wanted.names:
        kind = wanted.field("stream").type
        labels = [pa.nulls(part.scores.size, kind) if part.streams is None else part.streams for part in parts]
        columns["stream"] = pa.concat_arrays(labels)
    return answer_table(columns, wanted)


def _optional(parts: Sequence[Part], field: str) -> pa.Array:
    """Return a column of numbers that only some queries have."""
    known = [getattr(part, field) for part in parts]
    filled = [
        np.full(part.scores.size, np.nan) if mine is None else mine for part, mine in zip(parts, known, strict=True)
    ]
    found = np.concatenate(filled)
    return pa.array(found, mask=np.isnan(found))
