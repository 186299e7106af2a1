"""Convert answers of engines over incomplete streams to a table, sorted by time, query and rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from skyband.data.answer_table import answer_table, arrow_schema, names_of_rows, ranks_of_rows, shared_ranks
from skyband.data.group_dictionary import GroupDictionary, ranks_of
from skyband.data.key_dictionary import restored
from skyband.incomplete.engine import ObjectAnswers
from skyband.incomplete.query import APPROXIMATE, IncompleteTopK, optional_columns
from skyband.kernels.stream import Ints
from skyband.queries.families import FAMILIES

__all__ = ["answer_rows", "wanted_columns"]

_SCHEMA = FAMILIES["incomplete"].answers


def wanted_columns(
    queries: Sequence[IncompleteTopK],
    position_kind: pa.DataType | None,
    object_kind: pa.DataType | None,
    lasts: bool,
    group_kind: pa.DataType | None = None,
) -> pa.Schema:
    """Return the schema of the answers, with the optional columns of the queries and the group."""
    own = {"time": position_kind, "object": object_kind}
    columns = arrow_schema(_SCHEMA, own, group=group_kind, wanted=optional_columns(queries))
    return columns.append(pa.field("last", position_kind or pa.int64())) if lasts else columns


def answer_rows(
    found: Sequence[ObjectAnswers],
    queries: Sequence[IncompleteTopK],
    wanted: pa.Schema,
    values_of: Callable[[Ints], pa.Array],
    groups: GroupDictionary | None = None,
) -> pa.Table:
    """Return the answers of all queries as one table."""
    tables = [_rows(one, query, wanted, values_of) for one, query in zip(found, queries, strict=True)]
    table = pa.concat_tables(tables)
    if len(queries) == 1 and groups is None:
        return table
    times = np.concatenate([np.repeat(one.ends, one.counts) for one in found])
    places = np.repeat(np.arange(len(tables)), [one.num_rows for one in tables])
    if groups is None:
        return table.take(np.lexsort([places, times]))
    codes = np.concatenate([_codes(one) for one in found])
    values, at = groups.values_of(codes)
    at = np.where(codes < 0, -1, at)
    group = values.take(pa.array(at, mask=at < 0))
    table = table.set_column(1, wanted.field("group"), group.cast(wanted.field("group").type))
    ranks = np.append(ranks_of(values), -1)[at]
    return table.take(np.lexsort([ranks, places, times]))


def _codes(found: ObjectAnswers) -> Ints:
    """Return the group of each row, -1 for a query without groups."""
    groups = found.groups if found.groups.size else np.full(found.counts.size, -1)
    return np.repeat(groups, found.counts)


def _rows(
    found: ObjectAnswers, query: IncompleteTopK, wanted: pa.Schema, values_of: Callable[[Ints], pa.Array]
) -> pa.Table:
    columns = {
        "query": names_of_rows([query.name], np.zeros_like(found.counts), found.counts),
        "time": np.repeat(found.ends, found.counts),
        "rank": shared_ranks(found.counts, found.scores) if query.ties == "rank" else ranks_of_rows(found.counts),
        "object": restored(values_of(found.objects), wanted.field("object").type),
        "score": found.scores,
        "last": found.lasts,
    }
    if query.intervals:
        columns |= {"best": found.best, "sure": found.sure.astype(bool)}
    approximate = query.method in APPROXIMATE
    columns["exact"] = found.exact.astype(bool) if approximate else np.ones(found.scores.size, bool)
    return answer_table(columns, wanted)
