"""The change feed of all families: converts answers to the differences from the previous window."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import one
from skyband.data.columns import position_column
from skyband.data.window_comparison import WindowRows, compare
from skyband.errors import InvalidInputError
from skyband.kernels.stream import Ints
from skyband.kernels.window_comparison import ENTERED, LEFT, MOVED
from skyband.queries import Query
from skyband.queries.answer_schema import CHANGE_COLUMNS, FINAL, OLD_SCORE, REVISION
from skyband.queries.families import family_of
from skyband.queries.workload import Workload
from skyband.windows import SlidingWindow

__all__ = ["CHANGES", "UPDATED", "ChangeFeed"]

UPDATED = 3  # the rank is the same, but the score or another value of the row is not
CHANGES = {ENTERED: "entered", LEFT: "left", MOVED: "moved", UPDATED: "updated"}  # the numbers are 0, 1, 2, 3
_LONG_AGO = -(2**62)


class ChangeFeed:
    """Convert the answers of a monitor to changes: rows that entered, left, moved or got other values.

    The feed keeps the newest answer of each query and group and compares the next one with it, by id, key or object.

    Parameters
    ----------
    queries
        The queries whose answers are compared. They can be of any family.

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

    The score of a key can change while its rank does not:

    >>> clicks = sb.AggregateTopK(k=1, size="10 seconds", slide="5 seconds", aggregate="count")
    >>> feed = sb.ChangeFeed(clicks)
    >>> for row in feed.take(sb.aggregate.replay(clicks, [1_000_000, 7_000_000], ["home", "home"])).to_pylist():
    ...     print(row["window_end"], row["change"], row["key"], row["rank"], row["score"])
    5000000 entered home 1 1.0
    10000000 updated home 1 2.0
    15000000 updated home 1 1.0
    """

    def __init__(self, queries: Query | Iterable[Query] | Workload[Any]) -> None:
        workload: Workload[Any] = Workload(queries)
        self._queries: tuple[Query, ...] = workload.queries
        self._schema = family_of(self._queries[0]).answers
        self._moment = self._schema.moment
        self._groups: tuple[str, ...] = ("group",)
        self._shown: pa.Table | None = None
        self._old_scores = False

    @classmethod
    def of_groups(cls, queries: Sequence[Query], groups: Sequence[str], *, old_scores: bool = False) -> ChangeFeed:
        """Return a feed of answers whose groups are in these columns, with the scores of the previous window or not."""
        feed = cls(queries)
        feed._groups, feed._old_scores = tuple(groups), old_scores
        return feed

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
        answers = _without_marks(answers, self._moment)
        known = 0 if self._shown is None else self._shown.num_rows
        table = answers if self._shown is None else pa.concat_tables([self._shown, answers], promote_options="default")
        queries, owners = self._owners_of(table)
        ends = self._ends_of(table)
        first = np.ones(table.num_rows, bool)
        first[1:] = (owners[1:] != owners[:-1]) | (ends[1:] != ends[:-1])
        begins = np.flatnonzero(first)
        counts = np.diff(begins, append=table.num_rows)
        objects = self._objects_of(table, np.cumsum(first))
        ranks = one(table["rank"]).cast(pa.int64()).to_numpy(zero_copy_only=False)
        highest = int(ranks.max(initial=0)) + 1  # ranks and versions are compared together, as one number
        who = int(objects.max(initial=-1)) + 1
        found = compare(
            WindowRows(
                owners=owners[begins],
                steps=self._steps(queries[begins], ends[begins]),
                ends=ends[begins],
                known=(begins < known).astype(np.int64),
                counts=counts,
                rows=objects,
                ranks=ranks + highest * self._versions_of(table),
            ),
            _LONG_AGO if now is None else int(position_column([now]).values[0]),
            who,
            with_before=self._old_scores,
        )
        last = np.zeros(begins.size, bool)
        last[found.last] = True
        self._shown = table.filter(pa.array(np.repeat(last, counts)))
        new_ranks, old_ranks = found.ranks % highest, found.old_ranks % highest
        kinds = np.where((found.kinds == MOVED) & (new_ranks == old_ranks), UPDATED, found.kinds)
        keys = np.repeat(np.arange(begins.size), counts) * who + objects
        rows = table.take(pa.array(_places(keys, found.windows * who + found.rows)))
        asked = queries[begins[found.windows]] if begins.size else found.windows
        changes = self._table(rows, asked, found.ends, kinds, new_ranks, old_ranks)
        if found.before is None:
            return changes
        stayed = np.flatnonzero(kinds != ENTERED)
        places = np.zeros(kinds.size, np.int64)
        places[stayed] = _places(keys, found.before[stayed] * who + found.rows[stayed])
        scores = table["score"].take(pa.array(places, mask=kinds == ENTERED))
        return changes.append_column(OLD_SCORE.name, scores)

    def recall(self, known: pa.Table, fresh: pa.Table) -> None:
        """Continue after answers that were reported before `fresh`; those of other feeds than this one.

        Of several windows of a query and group, the newest one before the fresh ones counts.
        """
        together = pa.concat_tables([known, fresh], promote_options="default")
        if self._shown is not None:
            together = pa.concat_tables([together, self._shown], promote_options="default")
        _, owners = self._owners_of(together)
        ends, size = self._ends_of(together), int(owners.max(initial=-1)) + 1
        first_fresh = np.full(size, np.iinfo(np.int64).max)
        np.minimum.at(first_fresh, owners[known.num_rows :], ends[known.num_rows :])
        mine, its_ends = owners[: known.num_rows], ends[: known.num_rows]
        shown = np.zeros(size, bool)
        shown[owners[known.num_rows + fresh.num_rows :]] = True
        usable = (its_ends < first_fresh[mine]) & ~shown[mine]
        newest = np.full(size, _LONG_AGO)
        np.maximum.at(newest, mine[usable], its_ends[usable])
        kept = known.filter(pa.array(usable & (its_ends == newest[mine])))
        self._shown = kept if self._shown is None else pa.concat_tables([self._shown, kept], promote_options="default")

    def _owners_of(self, table: pa.Table) -> tuple[Ints, Ints]:
        """Per row: the index of its query, and a number for its query and group."""
        names = [query.name for query in self._queries]
        places = pc.index_in(one(table["query"]), pa.array(names))
        if places.null_count:
            strange = table["query"].filter(pc.is_null(places))[0].as_py()
            raise InvalidInputError(
                f"the answers contain query {strange!r}, which is not a query of this ChangeFeed. "
                f"Its queries are {', '.join(map(repr, names))}."
            )
        queries: Ints = places.to_numpy(zero_copy_only=False).astype(np.int64)
        groups = [name for name in self._groups if name in table.column_names]
        return queries, _codes([queries, *(_encoded(table[name]) for name in groups)])

    def _ends_of(self, table: pa.Table) -> Ints:
        ends: Ints = one(table[self._moment]).cast(pa.int64()).to_numpy(zero_copy_only=False)
        return ends

    def _objects_of(self, table: pa.Table, windows: Ints) -> Ints:
        """Return a number for the object of each row. A repeated object of a window has one for each place."""
        objects = _codes([_encoded(table[name]) for name in self._identity(table)])
        order = np.lexsort([objects, windows])
        repeats = np.zeros(objects.size, np.int64)
        same = np.zeros(objects.size, bool)
        same[1:] = (objects[order][1:] == objects[order][:-1]) & (windows[order][1:] == windows[order][:-1])
        if not same.any():
            return objects
        runs = np.maximum.accumulate(np.where(same, 0, np.arange(objects.size)))
        repeats[order] = np.arange(objects.size) - runs
        return _codes([objects, repeats])

    def _identity(self, table: pa.Table) -> list[str]:
        """Return the columns that identify the object of a row. If a key has several, they precede the score."""
        names = list(table.column_names)
        found = [name for name in self._schema.identity if name in names]
        own = None if self._schema.row_id is None else self._schema.row_id.name
        found = found or [name for name in names[names.index("rank") + 1 : names.index("score")] if name != own]
        if not found:
            raise InvalidInputError(
                f"the answers have no column {' or '.join(map(repr, self._schema.identity))}, by which a ChangeFeed "
                "recognizes rows, so nothing was compared. Answer data frames that have a column of this name."
            )
        return found

    def _versions_of(self, table: pa.Table) -> Ints:
        """Return a number for the values of each row: its score, and whatever else may change while it stays."""
        framing = {"query", "window_start", "window_end", "time", "rank", *self._groups, *self._identity(table)}
        return _codes([np.zeros(table.num_rows, np.int64)] + [
            _encoded(table[name]) for name in table.column_names if name not in framing
        ])  # fmt: skip

    def _steps(self, queries: Ints, ends: Ints) -> Ints:
        """The distance to the next end of the same query; 0 on a count axis, where no window is empty."""
        if self._queries[0].axis == "count":
            return np.zeros(ends.size, np.int64)
        steps = np.zeros(ends.size, np.int64)
        for place, query in enumerate(self._queries):
            mine = queries == place
            if isinstance(query.window, SlidingWindow):
                steps[mine] = query.window.slide
            else:
                some, at = np.unique(ends[mine], return_inverse=True)
                found = np.array([query.window.first_end_after(int(end)) - int(end) for end in some], np.int64)
                steps[mine] = found[at.reshape(-1)]
        return steps

    def _starts(self, queries: Ints, ends: Ints) -> Ints:
        starts = np.zeros(ends.size, np.int64)
        for place, query in enumerate(self._queries):
            mine = queries == place
            some, at = np.unique(ends[mine], return_inverse=True)
            found = np.array([query.window.start(int(end)) for end in some], np.int64)
            starts[mine] = found[at.reshape(-1)]
        return starts

    def _table(self, rows: pa.Table, queries: Ints, ends: Ints, kinds: Ints, ranks: Ints, old_ranks: Ints) -> pa.Table:
        bound = rows.schema.field(self._moment).type
        change, old_rank = CHANGE_COLUMNS
        columns: dict[str, Any] = {}
        for name in rows.column_names:
            if name == "window_start":
                columns[name] = pa.array(self._starts(queries, ends)).cast(bound)
            elif name == self._moment:
                columns[name] = pa.array(ends).cast(bound)
            elif name == "rank":
                columns[change.name] = pa.array(CHANGES.values()).take(pa.array(kinds))
                columns[name], columns[old_rank.name] = _ranks(ranks), _ranks(old_ranks)
            else:
                columns[name] = rows[name]
        return pa.table(columns)


def _without_marks(answers: pa.Table, moment: str) -> pa.Table:
    """Return final answers without the columns that mark them; reject provisional and corrected ones.

    The marks follow the window end. A column of the row can have the same name.
    """
    names = list(answers.column_names)
    at = names.index(moment) + 1 if moment in names else len(names)
    while at < len(names) and names[at] in (FINAL, REVISION):
        name, column = names.pop(at), answers.column(at)
        wrong = pc.sum(pc.invert(column) if name == FINAL else pc.greater(column, 0)).as_py()
        if wrong:
            kind = "are of open windows (final is false)" if name == FINAL else "correct final windows (revision > 0)"
            raise InvalidInputError(
                f"{wrong} of {answers.num_rows} rows {kind}, but a ChangeFeed compares each window once, when it is "
                "final; the rows of two answers of one window would be taken for one answer. Pass Monitor.answers(), "
                f"or only rows whose {'final is true' if name == FINAL else 'revision is 0'}. Nothing was changed."
            )
        answers = answers.remove_column(at)
    return answers


def _encoded(column: pa.ChunkedArray) -> Ints:
    """Return a number for each value of a column: equal values, and nulls, have equal numbers."""
    array = one(column)
    if pa.types.is_nested(array.type):  # Arrow does not encode lists, maps and structs
        array = pa.array(map(repr, array.to_pylist()), pa.string())
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.int64)
    numbers: Ints = array.dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
    return numbers.astype(np.int64)


def _codes(columns: Sequence[Ints]) -> Ints:
    """Return a number for the values of each row, from numbers of its values; they are dense."""
    codes = columns[0]
    for column in columns[1:]:
        pairs = codes * (int(column.max(initial=0)) + 1) + column
        codes = np.unique(pairs, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return codes


def _places(keys: Ints, wanted: Ints) -> Ints:
    """Return where each wanted key is; all of them are there, once."""
    order = np.argsort(keys, kind="stable")
    found: Ints = order[np.searchsorted(keys, wanted, sorter=order)] if keys.size else wanted
    return found


def _ranks(ranks: Ints) -> pa.Array:
    return pa.array(ranks, mask=ranks == 0)
