"""All answers over rows that are in memory: one run of the engine, and one gather of the rows it returns.

A stream is reduced, sent to shards and merged, because its rows are in several places and its end is not known. Here
all rows are in one table. Groups are numbered in the order of their values, so that windows only have to be sorted by
end and query, and the row's other columns are read for the rows of answers only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.answer_log import RankedWindows, chosen, joined
from skyband.data.arrow import from_numpy, one, plain_columns
from skyband.data.group_dictionary import ranks_of
from skyband.data.window_bounds import all_sliding, last_ends, starts_of
from skyband.kernels import expand
from skyband.kernels.stream import Floats, Ints
from skyband.kernels.validation import rows_by_group
from skyband.sharding.pipeline import BoundedRows
from skyband.sharding.rows import Grouping, group_rows, positions_of, scores_of, sorted_rows, without_negative_zero
from skyband.topk.algorithms import engine_named
from skyband.topk.algorithms.panes import Panes
from skyband.topk.group_windows import rank_group_windows
from skyband.topk.plan import TopKPlan
from skyband.topk.query import TopK
from skyband.topk.row_order import decayed_scores, entities_of, keys_of
from skyband.topk.window_ranking import Lined, rank_rows
from skyband.windows import ALWAYS, NEVER

__all__ = ["answer_table"]

SLICE = 1 << 16  # rows of answers gathered at a time: text of this many rows fits Arrow's 32-bit offsets
SPARSE = 2  # if at most one of this many rows is in an answer, the other rows are dropped before answers are gathered
ROOM = (
    4  # windows are sorted by counting if their ends have at most this many times as many values as there are windows
)


class _Answers(NamedTuple):
    """All windows in the order of the table, and their rows."""

    queries: Ints  # per window
    ends: Ints
    counts: Ints
    rows: Ints  # per row: its index in the input
    scores: Floats
    ranks: Ints


def answer_table(plan: TopKPlan, rows: BoundedRows, kinds: pa.Schema) -> pa.Table:
    """Answer every window that contains one of the rows: by end, query, group and rank, with the columns `kinds`."""
    computed = rows.project(list(dict.fromkeys([plan.time, *plan.group_columns, *plan.scores, *plan.extra_columns])))
    if computed[plan.time].null_count:
        timed = computed[plan.time].is_valid()
        rows, computed = _ChosenRows(rows, np.flatnonzero(timed.to_numpy())), computed.filter(timed)
    positions = positions_of(computed, plan.time)
    # Rejects types without a hash, whether or not two rows are equal.
    rows.project_rows(np.empty(0, np.int64), [plan.id])
    ids = partial(_ids, plan, rows)
    found = joined(_rank_scan(plan, number, computed, positions, ids) for number in range(len(plan.scans)))
    answers = _in_order(plan, found)
    if any(plan.orders) or any(scan.rule for scan in plan.scans):
        answers = answers._replace(scores=_scores(plan, computed, positions, answers))
    return _Gather(plan, rows, computed, kinds).table(answers)


def _scores(plan: TopKPlan, computed: pa.Table, positions: Ints, answers: _Answers) -> Floats:
    """Return the scores of answers whose keys are places in an order; decayed ones as of the ends of windows."""
    queries, ends = np.repeat(answers.queries, answers.counts), np.repeat(answers.ends, answers.counts)
    found = np.empty(answers.rows.size)
    for number, scan in enumerate(plan.scans):
        mine = np.isin(queries, scan.places)
        rows = answers.rows[mine]
        found[mine] = scores_of(computed, plan.scores[number])[rows]
        if scan.rule is not None and scan.rule.half_life_ticks is not None:
            found[mine] = decayed_scores(found[mine], positions[rows], ends[mine], scan.rule.half_life_ticks)
    return found


class _ChosenRows(NamedTuple):
    """Some of the rows of an input."""

    rows: BoundedRows
    kept: Ints

    @property
    def size(self) -> int:
        return int(self.kept.size)

    def project(self, names: Sequence[str]) -> pa.Table:
        return self.rows.project_rows(self.kept, names)

    def project_rows(self, rows: Ints, names: Sequence[str]) -> pa.Table:
        return self.rows.project_rows(self.kept[rows], names)


def _ids(plan: TopKPlan, rows: BoundedRows, some: Ints) -> pa.Array:
    """Return the ids of some rows. Only rows with equal times need them, and an id may be a hash of the row."""
    return one(rows.project_rows(some, [plan.id])[plan.id])


def _rank_scan(
    plan: TopKPlan, number: int, computed: pa.Table, positions: Ints, ids: Callable[[Ints], pa.Array]
) -> RankedWindows:
    """Return the windows of one scan, with the input's rows as ids and the workload's indexes of queries."""
    scan, names, newest = plan.scans[number], plan.groups[number], int(positions.max(initial=ALWAYS))
    scores = keys_of(plan, number, computed, scores_of(computed, plan.scores[number]), positions)
    entities = entities_of(plan, number, computed)
    rows = None  # all
    if np.isnan(scores.min(initial=np.inf)):
        rows = np.flatnonzero(~np.isnan(scores))
        scores, positions = scores[rows], positions[rows]
    groups = computed.select([plan.time, *names])
    by_value = [name for name in plan.group_columns if name in names]
    grouping = _by_value(groups if rows is None else groups.take(pa.array(rows)), names, by_value)
    order, begins, in_order = sorted_rows(
        positions,
        grouping,
        lambda places: ids(places if rows is None else rows[places]),
        scores if plan.axis == "time" else None,
    )
    queries = [plan.queries[place] for place in scan.places]
    lined = Lined(scores if order is None else scores[order], in_order, begins)
    if plan.axis == "count":
        counted = np.arange(positions.size) - np.repeat(begins[:-1], np.diff(begins))
        lined, final, first = lined._replace(positions=counted), np.diff(begins), 0
    else:
        last = newest + max(query.window.tail for query in queries)
        final, first = np.full(begins.size - 1, last), int(positions.min(initial=NEVER))
    # The input's row of each place in the stream's order; None: the same number.
    places = rows if order is None else order if rows is None else rows[order]
    if entities is not None:
        lined = lined._replace(entities=entities if places is None else entities[places])
    found = None
    if len(queries) == 1 and plan.algorithm == Panes.name and begins.size > 2 and entities is None:
        inputs = np.arange(positions.size) if places is None else places
        found = rank_group_windows(queries[0], lined, inputs, final, first)
    if found is None:
        found = _ranked(plan, queries, lined, final, first)
        if plan.axis == "time" and not all_sliding(queries):
            found = chosen(found, found.ends <= last_ends(queries, newest)[found.queries])
        found = found if places is None else found._replace(ids=places[found.ids])
    return found._replace(queries=np.array(scan.places, np.int64)[found.queries])


def _ranked(plan: TopKPlan, queries: Sequence[TopK], lined: Lined, final: Ints, first: int) -> RankedWindows:
    groups = lined.begins.size - 1
    found = rank_rows(engine_named(plan.algorithm), queries, lined, np.full(groups, ALWAYS), final).windows
    owner = np.zeros_like(found.ends) if groups == 1 else found.groups
    reported = found.ends <= final[owner]
    if any(query.full_only for query in queries):
        since = np.array([first if query.full_only else ALWAYS for query in queries], np.int64)
        reported &= starts_of(queries, found.queries, found.ends) >= since[found.queries]
    return chosen(found, reported)


def _by_value(table: pa.Table, columns: Sequence[str], by_value: Sequence[str]) -> Grouping:
    """Number the groups in the order of their values, nulls last; `by_value` are the columns in sorting order."""
    grouping = group_rows(table, columns)
    if grouping.size <= 1:
        return grouping
    samples = pa.array(grouping.samples)
    values = plain_columns(table.select(by_value).take(samples))
    ranks = [_ranks(one(values[name])) for name in by_value]
    order = np.lexsort(ranks[::-1])
    numbers = np.empty(order.size, np.int64)
    numbers[order] = np.arange(order.size)
    return Grouping(numbers[grouping.codes], grouping.samples[order])


def _ranks(values: pa.Array) -> Ints:
    """Return the place of each value when values are sorted; equal values have one place."""
    encoded = without_negative_zero(values).dictionary_encode(null_encoding="encode")
    ranks: Ints = ranks_of(encoded.dictionary)[encoded.indices.to_numpy(zero_copy_only=False)]
    return ranks


def _in_order(plan: TopKPlan, found: RankedWindows) -> _Answers:
    """Sort the windows by end and query. Those of one query and end are already sorted by group."""
    if expand.in_order(found.ends, found.queries, np.zeros_like(found.ends), np.zeros(1, np.int64)):
        return _answers(plan, found)
    windows = _by_end(found.ends, found.queries)
    begins = np.cumsum(found.counts) - found.counts
    keys, rows = np.empty(found.keys.size), np.empty(found.keys.size, np.int64)
    expand.gather(windows, begins, found.counts, found.keys, found.ids, keys, rows)
    queries, groups, ends, counts = (column[windows] for column in found[:4])
    return _answers(plan, RankedWindows(queries, groups, ends, counts, keys, rows))


def _answers(plan: TopKPlan, found: RankedWindows) -> _Answers:
    """Compute the scores and ranks of windows in the order of the table."""
    scores, ranks = found.keys, np.empty(found.keys.size, np.int64)
    tied, ascending = (
        np.array(flags, np.int64)
        for flags in zip(*((query.ties == "rank", query.order == "asc") for query in plan.queries), strict=True)
    )
    expand.fill_tied_ranks(found.counts, found.keys, tied[found.queries], ranks)
    if ascending.any():
        scores = np.empty(found.keys.size)
        expand.fill_scores(found.keys, found.queries, found.counts, ascending, scores)
    return _Answers(found.queries, found.ends, found.counts, found.ids, scores, ranks)


def _by_end(ends: Ints, queries: Ints) -> Ints:
    """Return the order of windows by end, then query; stable."""
    if not ends.size:
        return np.empty(0, np.int64)
    low, many = int(ends.min()), int(queries.max()) + 1
    step = int(np.gcd.reduce(ends - low)) or 1
    values = ((int(ends.max()) - low) // step + 1) * many
    if values > ROOM * (ends.size + 1024):
        return np.lexsort([queries, ends])
    order, _ = rows_by_group((ends - low) // step * many + queries, values)
    return order


class _Gather:
    """Builds the table of answers from the rows that it contains."""

    def __init__(self, plan: TopKPlan, rows: BoundedRows, computed: pa.Table, kinds: pa.Schema) -> None:
        self._plan, self._kinds = plan, kinds
        self._rows, self._computed = rows, computed

    def table(self, answer: _Answers) -> pa.Table:
        """Return the table, gathered slice by slice."""
        own = [name for name in self._plan.returned if name not in self._computed.column_names]
        used = np.zeros(self._rows.size, bool)
        used[answer.rows] = True
        kept = np.flatnonzero(used)
        if SPARSE * kept.size <= used.size:
            places = np.empty(used.size, np.int64)
            places[kept] = np.arange(kept.size)
            answer = answer._replace(rows=places[answer.rows])
            returned, self._computed = self._rows.project_rows(kept, own), self._computed.take(pa.array(kept))
        else:
            returned = self._rows.project(own)
        self._columns = {name: one(returned[name]) for name in own}
        self._columns |= {name: one(self._computed[name]) for name in self._computed.column_names}
        self._starts = starts_of(self._plan.queries, answer.queries, answer.ends)
        self._names = pa.array([query.name for query in self._plan.queries])
        if len(self._names) == 1:
            self._names = pa.repeat(self._names[0], min(SLICE, answer.rows.size))
        self._answer = answer
        self._of_row = np.repeat(np.arange(answer.counts.size), answer.counts)
        slices = range(0, answer.rows.size, SLICE)
        if len(slices) > 1 and pa.cpu_count() > 1:
            with ThreadPoolExecutor(min(len(slices), pa.cpu_count())) as pool:
                batches = list(pool.map(self._batches, slices, repeat(SLICE)))
        else:
            batches = [self._batches(low, SLICE) for low in slices]
        return pa.Table.from_batches([batch for some in batches for batch in some], self._kinds)

    def _batches(self, low: int, size: int) -> list[pa.RecordBatch]:
        """Return a slice of the answers as one batch; as several if it has more text than one batch can have."""
        try:
            return [self._batch(low, size)]
        except pa.ArrowInvalid:
            if size == 1 or low + 1 >= self._answer.rows.size:
                raise
            half = min(size, self._answer.rows.size - low) // 2
            return self._batches(low, half) + self._batches(low + half, size - half)

    def _batch(self, low: int, size: int) -> pa.RecordBatch:
        answer, part = self._answer, slice(low, low + size)
        window, rows = self._of_row[part], from_numpy(answer.rows[part], pa.int64())
        queries = answer.queries[window]
        bound = self._kinds.field("window_end").type
        own: dict[str, Any] = {
            "query": self._names_of(queries),
            "window_start": from_numpy(self._starts[window], bound),
            "window_end": from_numpy(answer.ends[window], bound),
            "rank": from_numpy(answer.ranks[part], pa.int64()),
            "score": from_numpy(answer.scores[part], pa.float64()),
        }
        own |= {name: pa.repeat(value, rows.size) for name, value in self._plan.emission.marks().items()}
        for name in self._plan.group_columns:
            own[name] = self._group(name, queries, rows)
        arrays = [own[name] if name in own else self._columns[name].take(rows) for name in self._kinds.names]
        return pa.RecordBatch.from_arrays(
            [array.cast(field.type) for array, field in zip(arrays, self._kinds, strict=True)], schema=self._kinds
        )

    def _names_of(self, queries: Ints) -> pa.Array:
        """Return the names of queries by index; the slices of a single query share one array."""
        if len(self._plan.queries) == 1:
            return self._names.slice(0, queries.size)
        return self._names.take(pa.array(queries))

    def _group(self, name: str, queries: Ints, rows: pa.Array) -> pa.Array:
        """Return a group column; it is null in the answers of queries without it, unless it is a column of the row."""
        found = self._columns[name].take(rows).cast(self._kinds.field(name).type)
        valued = np.array([self._plan.has_group_value(number, name) for number in self._scan_of_query], bool)
        if valued.all():
            return found
        return pc.if_else(pa.array(valued[queries]), found, pa.scalar(None, found.type))

    @property
    def _scan_of_query(self) -> Iterator[int]:
        by_place = {place: number for number, scan in enumerate(self._plan.scans) for place in scan.places}
        return (by_place[place] for place in range(len(self._plan.queries)))
