"""Answers whose queries nobody wrote down: what was asked is read off their columns and ranks."""

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

MOST_COLUMNS = 4  # that groups are looked for among


def is_answers(names: Sequence[str]) -> bool:
    """Whether columns of these names can be answers: something is ranked, at some moment."""
    return "rank" in names and moment_of(names) in names


def with_query(rows: pa.Table, name: str) -> pa.Table:
    """The table with a column `query`; answers of one query may come without."""
    if "query" in rows.column_names:
        return rows.set_column(
            rows.column_names.index("query"), "query", rows["query"].cast(pa.string()).fill_null(name)
        )
    return rows.add_column(0, "query", pa.array([name] * rows.num_rows, pa.string()))


def in_order(rows: pa.Table, names: Sequence[str], queries: Any, groups: Mapping[str, Sequence[str]]) -> pa.Table:
    """The table with its windows one after another, oldest first, and best rows first.

    `names` are the queries, `queries` has for each row the place of its query among them; `groups` are those by query.
    """
    keys = [rows["rank"].cast(pa.int64()).fill_null(0).to_numpy()]
    for column in {column for mine in groups.values() for column in mine}:
        tells = np.array([column in groups.get(name, ()) for name in names], bool)[queries]
        keys.append(np.where(tells, coded(rows[column])[1], 0))
    order = np.lexsort([*keys, queries, moment_column(rows)])
    return rows.take(pa.array(order))


class Inferred:
    """What was asked, as far as answers tell. More answers may tell more."""

    def __init__(self) -> None:
        self.asked: dict[Ident, QueryInfo] = {}
        self._spans: dict[Ident, _Span] = {}
        self._refuted: dict[Ident, set[tuple[str, ...]]] = {}  # by query: columns that cannot be its groups
        self._holders: dict[Ident, set[Hashable]] = {}  # by query: where answers of it are
        self._found: dict[Hashable, set[Ident]] = {}  # and the other way round

    def read(
        self,
        key: Hashable,
        rows: pa.Table,
        idents: Sequence[Ident],
        queries: Any,
        stream: str,
        known: Collection[Ident] = (),
    ) -> bool:
        """Learn from what is found at `key`; return whether anything is thought of queries that was not before.

        `queries` has for each row the place of its query among `idents`; `known` are those that somebody wrote down, of
        which nothing needs to be guessed.
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
            was = self.asked.get(ident)
            found = QueryInfo(
                ident.name,
                stream,
                ident.family,
                k=max(int(largest[code]), (was.k or 0) if was else 0),
                window=self._spans[ident].told(on_time=ident.axis == "time") if ident in self._spans else None,
                groups=groups.get(ident, ()),
                axis=ident.axis,
            )
            learned |= found != was
            self.asked[ident] = found
        return learned

    def contradicts(self, rows: pa.Table, idents: Sequence[Ident], queries: Any) -> bool:
        """Whether rows lack the columns of a query's groups, and yet have several groups: they answer another query."""
        lacking = [
            code
            for code, ident in enumerate(idents)
            if ident in self.asked and any(spelled(rows, column) is None for column in self.asked[ident].groups)
        ]
        return bool(lacking) and bool(_senseless(rows, queries, ())[lacking].any())

    def forget(self, key: Hashable) -> bool:
        """What was found at `key` has gone; return whether nothing is left of some query."""
        gone = []
        for ident in self._found.pop(key, ()):
            self._holders[ident].discard(key)
            if not self._holders[ident]:
                gone.append(ident)
        for ident in gone:
            for about in (self.asked, self._spans, self._refuted, self._holders):
                about.pop(ident, None)
        return bool(gone)

    def _groups(
        self, rows: pa.Table, idents: Sequence[Ident], queries: Any, unknown: Sequence[Ident]
    ) -> dict[Ident, tuple[str, ...]]:
        """The fewest columns by which the ranks of each query make sense.

        Where files of one source have different columns, what was thought before stays until a file refutes it: they
        would contradict each other for ever.
        """
        found: dict[Ident, tuple[str, ...]] = {}
        for columns in _choices(rows):
            waiting = {one for one in unknown if one not in found and columns not in self._refuted.get(one, ())}
            if not waiting:
                continue
            senseless = _senseless(rows, queries, columns)
            for code, ident in enumerate(idents):
                if ident in waiting and senseless[code]:
                    self._refuted.setdefault(ident, set()).add(columns)
                elif ident in waiting:
                    found[ident] = columns
        for ident in unknown:
            before = self.asked.get(ident)
            if before is not None and before.groups not in self._refuted.get(ident, ()):
                found[ident] = before.groups
        return {ident: found.get(ident, ()) for ident in unknown}


def _choices(rows: pa.Table) -> Iterator[tuple[str, ...]]:
    """What groups may be told by: columns between the query and the window, which is where they stand."""
    columns = rows.column_names
    end = columns.index("window_start") if "window_start" in columns else columns.index("query") + 1
    between = [name for name in columns[columns.index("query") + 1 : end] if name != "rank"][:MOST_COLUMNS]
    for count in range(len(between) + 1):
        yield from combinations(between, count)


def _senseless(rows: pa.Table, queries: Any, columns: Sequence[str]) -> Any:
    """For each query, whether its ranks are none of windows and groups by these columns.

    In a window a row's rank is one more than the number of rows before those that tie with it. A part of a window may
    lack rows, so that ranks can be larger than that, but never smaller; and who shares a rank has the same score.
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
    """How long a query's windows are and how far apart, in ticks, as far as is known."""

    size: int
    every: int | None
    last: int  # end

    def told(self, *, on_time: bool) -> str:
        """In words."""
        every = "" if self.every is None else f", every {_length(self.every, on_time=on_time)}"
        return _length(self.size, on_time=on_time) + every

    def joined(self, before: _Span | None) -> _Span:
        """With what was known before."""
        if before is None:
            return self
        steps = [self.every, before.every, abs(self.last - before.last)]
        every = min((step for step in steps if step), default=None)
        return _Span(self.size, every, max(self.last, before.last))


def _spans(rows: pa.Table, names: Sequence[Ident], queries: Any) -> dict[Ident, _Span]:
    """How long the windows of each query are, and how far apart in this table."""
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
    """Whether windows are of time or of a number of objects."""
    kind = rows[moment_of(rows.column_names)].type
    return "count" if pa.types.is_integer(kind) else "time"
