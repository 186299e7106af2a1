"""Answers whose queries nobody wrote down: what was asked is read off their columns and ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.duration import format_duration
from skyband.page.asked import Asked
from skyband.page.cutting import coded, moment_column

__all__ = ["Inferred", "in_order", "is_answers", "with_query"]

MOST_COLUMNS = 4  # that groups are looked for among


def is_answers(names: Sequence[str]) -> bool:
    """Whether columns of these names can be answers: something is ranked, at some moment."""
    return "rank" in names and ("window_end" in names or "time" in names)


def with_query(rows: pa.Table, name: str) -> pa.Table:
    """The table with a column `query`; answers of one query may come without."""
    if "query" in rows.column_names:
        return rows.set_column(
            rows.column_names.index("query"), "query", rows["query"].cast(pa.string()).fill_null(name)
        )
    return rows.add_column(0, "query", pa.array([name] * rows.num_rows, pa.string()))


def in_order(rows: pa.Table, groups: Mapping[str, Sequence[str]]) -> pa.Table:
    """The table with its windows one after another, oldest first, and best rows first; `groups` are those by query."""
    names, queries = coded(rows["query"])
    keys = [rows["rank"].cast(pa.int64()).fill_null(0).to_numpy()]
    for column in {column for mine in groups.values() for column in mine}:
        tells = np.array([column in groups.get(name, ()) for name in names], bool)[queries]
        keys.append(np.where(tells, coded(rows[column])[1], 0))
    order = np.lexsort([*keys, queries, moment_column(rows)])
    return rows.take(pa.array(order))


class Inferred:
    """What was asked, as far as answers tell. More answers may tell more."""

    def __init__(self) -> None:
        self.asked: dict[str, Asked] = {}
        self._spans: dict[str, _Span] = {}
        self._refuted: dict[str, set[tuple[str, ...]]] = {}  # by query: columns that cannot be its groups

    def read(self, rows: pa.Table, stream: str, known: Mapping[str, Asked]) -> bool:
        """Learn from a table; return whether groups turned out to be others than was thought.

        `known` are queries that somebody wrote down, of which nothing needs to be guessed.
        """
        names, queries = coded(rows["query"])
        unknown = [name for name in names if name not in known]
        if not unknown:
            return False
        before = {name: self.asked[name].groups for name in unknown if name in self.asked}
        groups = self._groups(rows, names, queries, set(unknown))
        ranks = rows["rank"].cast(pa.int64()).fill_null(0).to_numpy()
        largest = np.zeros(len(names), np.int64)
        np.maximum.at(largest, queries, ranks)
        for name, span in _spans(rows, names, queries).items():
            self._spans[name] = span.joined(self._spans.get(name))
        for code, name in enumerate(names):
            if name in known:
                continue
            was = self.asked.get(name)
            self.asked[name] = Asked(
                name,
                stream,
                _family(rows.column_names),
                k=max(int(largest[code]), (was.k or 0) if was else 0),
                window=self._spans[name].told(on_time=_axis(rows) == "time") if name in self._spans else None,
                groups=groups[name],
                axis=_axis(rows),
            )
        return any(self.asked[name].groups != thought for name, thought in before.items())

    def _groups(self, rows: pa.Table, names: list[str], queries: Any, unknown: set[str]) -> dict[str, tuple[str, ...]]:
        """The fewest columns by which the ranks of each query make sense."""
        found: dict[str, tuple[str, ...]] = {}
        for columns in _choices(rows):
            waiting = {name for name in unknown - found.keys() if columns not in self._refuted.get(name, ())}
            if not waiting:
                continue
            senseless = _senseless(rows, queries, columns)
            for code, name in enumerate(names):
                if name in waiting and senseless[code]:
                    self._refuted.setdefault(name, set()).add(columns)
                elif name in waiting:
                    found[name] = columns
        return {name: found.get(name, ()) for name in unknown}


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


def _spans(rows: pa.Table, names: list[str], queries: Any) -> dict[str, _Span]:
    """How long the windows of each query are, and how far apart in this table."""
    if "window_start" not in rows.column_names or "window_end" not in rows.column_names:
        return {}
    ends, starts = (
        moment_column(rows),
        moment_column(rows.drop_columns(["window_end"]).rename_columns({"window_start": "window_end"})),
    )
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


def _family(columns: Sequence[str]) -> str:
    if "probability" in columns:
        return "uncertain"
    if "window_end" not in columns:
        return "incomplete"
    return "aggregate" if "key" in columns else "topk"


def _axis(rows: pa.Table) -> str:
    kind = rows["window_end" if "window_end" in rows.column_names else "time"].type
    return "count" if pa.types.is_integer(kind) else "time"
