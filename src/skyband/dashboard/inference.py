"""Inference of queries from the columns and ranks of their answers, for folders without a workload file."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.dashboard.file_sources import Ident
from skyband.dashboard.query_info import QueryInfo
from skyband.dashboard.window_spans import coded, moment_column, spelled, start_column
from skyband.durations import format_duration
from skyband.queries.answer_schema import moment_of

__all__ = ["Inferred", "axis_of", "in_order", "is_answers", "with_query"]

MOST_COLUMNS = 4  # columns considered as group columns


def is_answers(names: Sequence[str]) -> bool:
    """Return whether a table with these columns can contain answers: it needs a rank and a moment."""
    return "rank" in names and moment_of(names) in names


def with_query(rows: pa.Table, name: str) -> pa.Table:
    """Return the table with a column `query`, filled with `name` if it is missing or null."""
    if "query" in rows.column_names:
        return rows.set_column(
            rows.column_names.index("query"), "query", rows["query"].cast(pa.string()).fill_null(name)
        )
    return rows.add_column(0, "query", pa.array([name] * rows.num_rows, pa.string()))


def in_order(rows: pa.Table, names: Sequence[str], queries: Any, groups: Mapping[str, Sequence[str]]) -> pa.Table:
    """Return the table sorted by window, oldest first, then by rank.

    `names` are the queries, `queries` has the index of each row's query, and `groups` the group columns by query.
    """
    keys = [rows["rank"].cast(pa.int64()).fill_null(0).to_numpy()]
    for column in {column for mine in groups.values() for column in mine}:
        is_group = np.array([column in groups.get(name, ()) for name in names], bool)[queries]
        keys.append(np.where(is_group, coded(rows[column])[1], 0))
    order = np.lexsort([*keys, queries, moment_column(rows)])
    return rows.take(pa.array(order))


class Inferred:
    """The queries inferred from answers. Further answers may refine them."""

    def __init__(self) -> None:
        self.infos: dict[Ident, QueryInfo] = {}
        self._spans: dict[Ident, _Span] = {}
        self._refuted: dict[Ident, set[tuple[str, ...]]] = {}  # by query: columns that cannot be its groups
        self._holders: dict[Ident, set[Hashable]] = {}  # by query: the files with its answers
        self._found: dict[Hashable, set[Ident]] = {}  # by file: its queries

    def read(
        self,
        key: Hashable,
        rows: pa.Table,
        idents: Sequence[Ident],
        queries: Any,
        stream: str,
        known: Collection[Ident] = (),
    ) -> bool:
        """Infer the queries of the file `key`; return whether the description of any query changed.

        `queries` has, for each row, the index of its query in `idents`. `known` are the queries of the workload file,
        which need no inference.
        """
        unknown = [ident for ident in idents if ident not in known]
        groups = self._groups(rows, idents, queries, unknown) if unknown else {}
        largest = np.zeros(len(idents), np.int64)
        np.maximum.at(largest, queries, rows["rank"].to_numpy())
        for ident, span in (_spans(rows, idents, queries) if unknown else {}).items():
            self._spans[ident] = span.joined(self._spans.get(ident))
        learned = False
        self._found[key] = set(idents)
        for code, ident in enumerate(idents):
            self._holders.setdefault(ident, set()).add(key)
            was = self.infos.get(ident)
            found = QueryInfo(
                ident.name,
                stream,
                ident.family,
                k=max(int(largest[code]), (was.k or 0) if was else 0),
                window=self._spans[ident].text(on_time=ident.axis == "time") if ident in self._spans else None,
                groups=groups.get(ident, ()),
                axis=ident.axis,
            )
            learned |= found != was
            self.infos[ident] = found
        return learned

    def contradicts(self, rows: pa.Table, idents: Sequence[Ident], queries: Any) -> bool:
        """Return whether rows lack a query's group columns but have several groups, so they answer another query."""
        lacking = [
            code
            for code, ident in enumerate(idents)
            if ident in self.infos and any(spelled(rows, column) is None for column in self.infos[ident].groups)
        ]
        return bool(lacking) and bool(_inconsistent(rows, queries, ())[lacking].any())

    def refute(self, ident: Ident) -> bool:
        """Note that the groups of a query are wrong, by files together; return whether that is new."""
        info, refuted = self.infos.get(ident), self._refuted.setdefault(ident, set())
        if info is None or info.groups in refuted:
            return False
        refuted.add(info.groups)
        return True

    def forget(self, key: Hashable) -> bool:
        """Remove the file `key`; return whether a query has no files left."""
        gone = []
        for ident in self._found.pop(key, ()):
            self._holders[ident].discard(key)
            if not self._holders[ident]:
                gone.append(ident)
        for ident in gone:
            for about in (self.infos, self._spans, self._refuted, self._holders):
                about.pop(ident, None)
        return bool(gone)

    def _groups(
        self, rows: pa.Table, idents: Sequence[Ident], queries: Any, unknown: Sequence[Ident]
    ) -> dict[Ident, tuple[str, ...]]:
        """Return the smallest set of group columns with which the ranks of each query are consistent.

        An earlier result stays until a file refutes it. Otherwise files of one source with different columns would
        change the result again and again.
        """
        found: dict[Ident, tuple[str, ...]] = {}
        for columns in _choices(rows):
            waiting = {one for one in unknown if one not in found and columns not in self._refuted.get(one, ())}
            if not waiting:
                continue
            inconsistent = _inconsistent(rows, queries, columns)
            for code, ident in enumerate(idents):
                if ident in waiting and inconsistent[code]:
                    self._refuted.setdefault(ident, set()).add(columns)
                elif ident in waiting:
                    found[ident] = columns
        for ident in unknown:
            before = self.infos.get(ident)
            if before is not None and before.groups not in self._refuted.get(ident, ()):
                found[ident] = before.groups
        return {ident: found.get(ident, ()) for ident in unknown}


def _choices(rows: pa.Table) -> Iterator[tuple[str, ...]]:
    """Yield the candidate sets of group columns: columns between `query` and `window_start`, fewest first."""
    columns = rows.column_names
    end = columns.index("window_start") if "window_start" in columns else columns.index("query") + 1
    between = [name for name in columns[columns.index("query") + 1 : end] if name != "rank"][:MOST_COLUMNS]
    for count in range(len(between) + 1):
        yield from combinations(between, count)


def _inconsistent(rows: pa.Table, queries: Any, columns: Sequence[str]) -> Any:
    """Return, for each query, whether its ranks are impossible for windows grouped by these columns.

    In a window, the rank of a row is one more than the number of rows before those that tie with it. Rows may be
    missing, so ranks can be larger than that, but never smaller. Rows with the same rank have the same score.
    """
    ranks = rows["rank"].cast(pa.int64()).fill_null(0).to_numpy()
    codes = [coded(rows[column])[1] for column in columns]
    keys = [queries, moment_column(rows), *codes]
    order = np.lexsort([ranks, *reversed(keys)])
    fresh = np.ones(ranks.size, bool)
    fresh[1:] = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
    ranks = ranks[order]
    places = np.arange(ranks.size)
    begins = np.maximum.accumulate(np.where(fresh, places, 0))
    new_rank = fresh.copy()
    new_rank[1:] |= ranks[1:] != ranks[:-1]
    first_of_rank = np.maximum.accumulate(np.where(new_rank, places, 0))
    wrong = ranks < first_of_rank - begins + 1
    if "score" in rows.column_names:
        scores = rows["score"].cast(pa.float64(), safe=False).fill_null(0.0).to_numpy()[order]
        wrong[1:] |= ~new_rank[1:] & (scores[1:] != scores[:-1])
    found = np.zeros(int(queries.max()) + 1 if queries.size else 0, bool)
    found[queries[order][wrong]] = True
    return found


class _Span(NamedTuple):
    """The length and slide of a query's windows, in ticks, where known."""

    size: int
    every: int | None
    last: int  # end of the last window

    def text(self, *, on_time: bool) -> str:
        """Return length and slide as text."""
        every = "" if self.every is None else f", every {_length(self.every, on_time=on_time)}"
        return _length(self.size, on_time=on_time) + every

    def joined(self, before: _Span | None) -> _Span:
        """Return this span merged with the earlier one."""
        if before is None:
            return self
        steps = [self.every, before.every, abs(self.last - before.last)]
        every = min((step for step in steps if step), default=None)
        return _Span(self.size, every, max(self.last, before.last))


def _spans(rows: pa.Table, names: Sequence[Ident], queries: Any) -> dict[Ident, _Span]:
    """Return the length and slide of each query's windows in this table."""
    if "window_start" not in rows.column_names or "window_end" not in rows.column_names:
        return {}
    ends, starts = moment_column(rows), start_column(rows)
    order = np.lexsort([ends, queries])
    mine, ends, starts = queries[order], ends[order], starts[order]
    steps = np.diff(ends)
    counts = (np.diff(mine) == 0) & (steps > 0)
    shortest = np.full(len(names), np.iinfo(np.int64).max)
    np.minimum.at(shortest, mine[1:][counts], steps[counts])
    lasts = np.searchsorted(mine, np.arange(len(names)), side="right") - 1
    return {
        name: _Span(
            int(ends[last] - starts[last]), None if least == np.iinfo(np.int64).max else int(least), int(ends[last])
        )
        for name, last, least in zip(names, lasts.tolist(), shortest.tolist(), strict=True)
    }


def _length(ticks: int, *, on_time: bool) -> str:
    return format_duration(ticks) if on_time and ticks >= 0 else f"{ticks:,} rows"


def axis_of(rows: pa.Table) -> str:
    """Return "count" if the moments are integers, else "time"."""
    kind = rows[moment_of(rows.column_names)].type
    return "count" if pa.types.is_integer(kind) else "time"
