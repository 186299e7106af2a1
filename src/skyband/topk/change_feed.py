"""The change feed in process: converts answers to the differences from the previous window."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import one
from skyband.data.columns import position_column
from skyband.data.window_comparison import Comparison, WindowRows, compare
from skyband.errors import InvalidInputError
from skyband.kernels.stream import Ints
from skyband.kernels.window_comparison import ENTERED, LEFT, MOVED
from skyband.queries.workload import Workload, of_family
from skyband.topk.query import TopK
from skyband.topk.window_bounds import starts_of, steps_after

__all__ = ["CHANGES", "ChangeFeed"]

CHANGES = {ENTERED: "entered", LEFT: "left", MOVED: "moved"}  # the numbers are 0, 1, 2
_LONG_AGO = -(2**62)


class ChangeFeed:
    """Convert the answers of a monitor to changes: rows that entered, left or moved, with old and new rank.

    The feed keeps the newest answer of each query and group and compares the next one with it, by id.

    Parameters
    ----------
    queries
        The queries whose answers are compared.

    Examples
    --------
    >>> import skyband as sb
    >>> query = sb.TopK(k=2, size="10 seconds", slide="5 seconds")
    >>> feed = sb.ChangeFeed(query)
    >>> answers = sb.replay(query, [1_000_000, 2_000_000, 7_000_000], [5.0, 9.0, 7.0])
    >>> for row in feed.take(answers).to_pylist():
    ...     print(row["window_end"], row["change"], row["id"], row["rank"], row["old_rank"])
    5000000 entered 1 1 None
    5000000 entered 0 2 None
    10000000 left 0 None 2
    10000000 entered 2 2 None
    15000000 left 1 None 1
    15000000 moved 2 1 2
    """

    def __init__(self, queries: TopK | Iterable[TopK] | Workload) -> None:
        self._queries = of_family(queries, TopK, "skyband.ChangeFeed").queries
        self._shown: pa.Table | None = None

    def take(self, answers: pa.Table, now: Any = None) -> pa.Table:
        """Return the changes between these answers and the previous ones. Pass tables from `Monitor.answers`.

        If `now` is given, windows that end by then and have no answer are empty: all their rows have left. Without
        `now`, this is reported when a later window has an answer.

        >>> import skyband as sb
        >>> query = sb.TopK(k=2, size="10 seconds")
        >>> feed = sb.ChangeFeed(query)
        >>> answers = sb.replay(query, [1_000_000], [5.0])
        >>> feed.take(answers)["change"].to_pylist()
        ['entered']
        >>> feed.take(answers.slice(0, 0), now=30_000_000).to_pylist()[0]["window_end"]
        20000000
        """
        known = 0 if self._shown is None else self._shown.num_rows
        table = answers if self._shown is None else pa.concat_tables([self._shown, answers], promote_options="default")
        begins, queries, owners = self._windows_of(table)
        ends = one(table["window_end"]).cast(pa.int64()).to_numpy(zero_copy_only=False)
        ids = one(table["id"]).dictionary_encode(null_encoding="encode")
        objects_of_rows: Ints = ids.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        found = compare(
            WindowRows(
                owners=owners,
                steps=steps_after(self._queries, queries, ends[begins]),
                ends=ends[begins],
                known=(begins < known).astype(np.int64),
                counts=np.diff(begins, append=table.num_rows),
                rows=objects_of_rows,
                ranks=one(table["rank"]).cast(pa.int64()).to_numpy(zero_copy_only=False),
            ),
            _LONG_AGO if now is None else int(position_column([now]).values[0]),
            len(ids.dictionary),
        )
        last = np.zeros(begins.size, bool)
        last[found.last] = True
        self._shown = table.filter(pa.array(np.repeat(last, np.diff(begins, append=table.num_rows))))
        return self._table(table, found, begins, queries, objects_of_rows)

    def _windows_of(self, table: pa.Table) -> tuple[Ints, Ints, Ints]:
        """Where each window's rows begin, the index of its query, and a number for its query and group."""
        names = [query.name for query in self._queries]
        places = pc.index_in(one(table["query"]), pa.array(names))
        if places.null_count:
            strange = table["query"].filter(pc.is_null(places))[0].as_py()
            raise InvalidInputError(
                f"the answers contain query {strange!r}, which is not a query of this ChangeFeed. "
                f"Its queries are {', '.join(map(repr, names))}."
            )
        queries: Ints = places.to_numpy(zero_copy_only=False).astype(np.int64)
        groups = np.zeros(table.num_rows, np.int64)
        if "group" in table.column_names:
            groups = one(table["group"]).dictionary_encode(null_encoding="encode").indices.to_numpy().astype(np.int64)
        owners = queries * (int(groups.max(initial=0)) + 1) + groups
        ends = one(table["window_end"]).cast(pa.int64()).to_numpy(zero_copy_only=False)
        first = np.ones(table.num_rows, bool)
        first[1:] = (owners[1:] != owners[:-1]) | (ends[1:] != ends[:-1])
        begins = np.flatnonzero(first)
        return begins, queries[begins], owners[begins]

    def _table(
        self, table: pa.Table, found: Comparison, begins: Ints, queries: Ints, objects_of_rows: Ints
    ) -> pa.Table:
        samples = np.empty(int(objects_of_rows.max(initial=-1)) + 1, np.int64)
        samples[objects_of_rows] = np.arange(objects_of_rows.size)
        objects = table.take(pa.array(samples[found.rows]))
        windows = table.take(pa.array(begins[found.windows]))
        kind = table.schema.field("window_end").type
        starts = starts_of(self._queries, queries[found.windows], found.ends)
        columns = {"query": windows["query"]}
        if "group" in table.column_names:
            columns["group"] = windows["group"]
        columns |= {
            "window_start": pa.array(starts).cast(kind),
            "window_end": pa.array(found.ends).cast(kind),
            "change": pa.array(CHANGES.values()).take(pa.array(found.kinds)),
            "rank": _ranks(found.ranks),
            "old_rank": _ranks(found.old_ranks),
            "id": objects["id"],
            "score": objects["score"],
        }
        return pa.table(columns)


def _ranks(ranks: Ints) -> pa.Array:
    return pa.array(ranks, mask=ranks == 0)
