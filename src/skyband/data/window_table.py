"""Window answers as an Arrow table for the user, by window end, query, group and rank.

The table is built in chunks of about a million rows. Scores and ids are not copied. Columns that are equal in every
chunk (the name of a single query, the ranks of answers of equal length) are shared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.data.answer_log import RankedWindows, joined
from skyband.data.arrow import from_numpy
from skyband.data.group_dictionary import GroupDictionary, ranks_of
from skyband.kernels import expand
from skyband.kernels.stream import Ints
from skyband.windows import NEVER

__all__ = ["WindowQueries", "window_table"]

_CHUNK = 1 << 20  # rows: small enough for Arrow's 32-bit text offsets, large enough for few chunks
_MOST_LETTERS = 2**31 - 1  # bytes of a text column with these offsets: an answer with ties may exceed a chunk
_SMALL = 1 << 16  # rows: copied, so that a short answer does not keep the engines' large buffers alive


class WindowQueries(NamedTuple):
    """The properties of the queries that the table needs, in workload order."""

    names: Sequence[str]
    sizes: Sequence[int]  # of the windows
    ascending: Sequence[bool] = ()  # whether lower scores are better; then the key is the negated score
    tied: Sequence[bool] = ()  # whether equal scores share a rank
    starts: Callable[[Ints, Ints], Ints] | None = None  # of windows by query and end, if sizes do not determine them


def window_table(
    parts: Iterable[RankedWindows],
    queries: WindowQueries,
    wanted: pa.Schema,
    groups: GroupDictionary | None,
    row_columns: Callable[[Ints], Mapping[str, pa.Array]],
) -> pa.Table:
    """Return the answers as a table with schema `wanted`.

    `row_columns` returns the remaining columns (not query, group, window, rank or score) for given ids. It is called
    once per chunk.
    """
    columns = _Columns(queries, wanted, groups, row_columns)
    return pa.Table.from_batches([batch for chunk in _chunks(list(parts), groups) for batch in columns.batches(chunk)])


class _Columns:
    """Builds the columns of each chunk."""

    def __init__(
        self,
        queries: WindowQueries,
        wanted: pa.Schema,
        groups: GroupDictionary | None,
        row_columns: Callable[[Ints], Mapping[str, pa.Array]],
    ) -> None:
        self._wanted = wanted
        self._row_columns = row_columns
        self._groups: Any = groups
        self._starts_of = queries.starts
        self._sizes = np.array(queries.sizes, np.int64)
        self._ascending = np.array(queries.ascending or np.zeros(len(queries.names)), np.int64)
        self._tied = np.array(queries.tied or np.zeros(len(queries.names)), np.int64)
        names = [name.encode() for name in queries.names]
        self._letters = np.frombuffer(b"".join(names), np.uint8).copy()
        self._name_begins = np.cumsum([0, *map(len, names)], dtype=np.int64)
        self._one_name: pa.Array | None = None
        self._ranks = np.empty(0, np.int64)
        self._ranks_of = 0

    def batches(self, chunk: RankedWindows) -> Iterator[pa.RecordBatch]:
        """Yield the chunk as one batch, or as several if its name column would be too long."""
        found = self._without_names(chunk)
        columns = [found[name] for name in self._wanted.names[1:]]
        step = max(1, _MOST_LETTERS // int(np.diff(self._name_begins).max()))
        rows = chunk.keys.size
        if rows <= step:
            yield pa.record_batch([self._names(chunk), *columns], self._wanted.names)
            return
        queries = np.repeat(chunk.queries, chunk.counts)
        for low in range(0, rows, step):
            mine = queries[low : low + step]
            names = self._written_names(mine, np.ones_like(mine), mine.size)
            yield pa.record_batch([names, *(one.slice(low, step) for one in columns)], self._wanted.names)

    def _without_names(self, chunk: RankedWindows) -> dict[str, pa.Array]:
        columns = dict(self._row_columns(chunk.ids))
        if self._groups is not None:
            columns["group"] = self._groups_of(chunk)
        if self._starts_of is None:
            starts, ends = np.empty(chunk.keys.size, np.int64), np.empty(chunk.keys.size, np.int64)
            expand.fill_bounds(chunk.ends, self._sizes, chunk.queries, chunk.counts, starts, ends)
        else:
            begun = self._starts_of(chunk.queries, chunk.ends)
            if chunk.starts.size:
                begun = np.where(chunk.starts == NEVER, begun, chunk.starts)
            starts, ends = np.repeat(begun, chunk.counts), np.repeat(chunk.ends, chunk.counts)
        columns["window_start"] = from_numpy(starts, self._wanted.field("window_start").type)
        columns["window_end"] = from_numpy(ends, self._wanted.field("window_end").type)
        columns["rank"] = from_numpy(self._ranks_in(chunk), pa.int64())
        scores = chunk.keys
        if self._ascending.any():
            scores = np.empty(chunk.keys.size)
            expand.fill_scores(chunk.keys, chunk.queries, chunk.counts, self._ascending, scores)
        columns["score"] = from_numpy(scores, pa.float64())
        return columns

    def _names(self, chunk: RankedWindows) -> pa.Array:
        rows = chunk.keys.size
        if self._sizes.size > 1:
            return self._written_names(chunk.queries, chunk.counts, rows)
        if self._one_name is None or len(self._one_name) < rows:
            length = self._letters.size
            offsets = np.arange(0, length * rows + 1, length, dtype=np.int32)
            letters = self._letters.tobytes() * rows
            self._one_name = pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(letters))
        return self._one_name.slice(0, rows)

    def _written_names(self, queries: Ints, counts: Ints, rows: int) -> pa.Array:
        lengths = np.diff(self._name_begins)
        offsets = np.empty(rows + 1, np.int32)
        letters = np.empty(int(lengths[queries] @ counts), np.uint8)
        expand.fill_names(queries, counts, self._name_begins, self._letters, offsets, letters)
        return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(letters))

    def _groups_of(self, chunk: RankedWindows) -> pa.Array:
        values, places = self._groups.values_of(chunk.groups)
        rows = np.repeat(places, chunk.counts)
        missing = rows < 0
        return values.take(pa.array(rows, mask=missing) if missing.any() else from_numpy(rows, pa.int64()))

    def _ranks_in(self, chunk: RankedWindows) -> Ints:
        """Return the ranks of all rows; reuse those of an earlier chunk if all answers have the same length."""
        counts, rows = chunk.counts, chunk.keys.size
        if self._tied.any():
            ranks = np.empty(rows, np.int64)
            expand.fill_tied_ranks(counts, chunk.keys, self._tied[chunk.queries], ranks)
            return ranks
        equally = int(counts[0]) if rows and counts[0] == counts.min() == counts.max() else 0
        if equally and equally == self._ranks_of and rows <= self._ranks.size:
            return self._ranks[:rows]
        ranks = np.empty(rows, np.int64)
        expand.fill_ranks(counts, ranks)
        if equally:
            self._ranks, self._ranks_of = ranks, equally
        return ranks


def _chunks(parts: list[RankedWindows], groups: GroupDictionary | None) -> Iterator[RankedWindows]:
    """Yield the answers by window end, query and group in chunks of about `_CHUNK` rows; at least one chunk."""
    ends, queries, codes = (
        np.concatenate([np.empty(0, np.int64), *(getattr(part, name) for part in parts)])
        for name in ("ends", "queries", "groups")
    )
    ranks = np.array([-1], np.int64)  # code -1 indexes the last
    if groups is not None and codes.size:
        values, codes = groups.values_of(codes)
        ranks = np.append(ranks_of(values), -1)
    if not expand.in_order(ends, queries, codes, ranks):
        yield from _sorted(joined(parts), np.lexsort([ranks[codes], queries, ends]))
        return
    together: list[RankedWindows] = []
    rows = 0
    for part in parts:
        if together and rows + part.keys.size > _CHUNK:
            yield _one(together, rows)
            together, rows = [], 0
        together.append(part)
        rows += part.keys.size
    yield _one(together, rows)


def _one(parts: list[RankedWindows], rows: int) -> RankedWindows:
    if len(parts) == 1 and rows < _SMALL:
        return RankedWindows(**{name: column.copy() for name, column in parts[0]._asdict().items()})
    return joined(parts)


def _sorted(ranked: RankedWindows, order: Ints) -> Iterator[RankedWindows]:
    """Yield the windows in `order`, in chunks."""
    begins = np.cumsum(ranked.counts) - ranked.counts
    stops = np.cumsum(ranked.counts[order])
    low = 0
    while low < order.size:
        before = stops[low - 1] if low else 0
        high = max(low + 1, int(np.searchsorted(stops, before + _CHUNK, side="right")))
        windows = order[low:high]
        rows = int(stops[high - 1] - before)
        keys, ids = np.empty(rows), np.empty(rows, np.int64)
        expand.gather(windows, begins, ranked.counts, ranked.keys, ranked.ids, keys, ids)
        yield RankedWindows(
            ranked.queries[windows],
            ranked.groups[windows],
            ranked.ends[windows],
            ranked.counts[windows],
            keys,
            ids,
            ranked.starts[windows] if ranked.starts.size else ranked.starts,
        )
        low = high
