"""Aggregate queries over shards of keys: partials in, the top keys of each shard out, and the merge of shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.aggregate.addends import Addends
from skyband.aggregate.answer_table import ROW, answer_table, tuples_of
from skyband.aggregate.extreme_rows import PartialLayout, added, row_columns
from skyband.aggregate.item_engine import ItemEngine, engine_of
from skyband.aggregate.kernels.partials import NEVER, NONE
from skyband.aggregate.key_panes import KeyPanes, refuse_more_keys
from skyband.aggregate.open_panes import OpenPanes
from skyband.aggregate.open_sketches import ClosedSketch
from skyband.aggregate.partial_columns import column_of, numbers_of, partials_of
from skyband.aggregate.plan import ITEM, AggregatePlan, is_key_name
from skyband.aggregate.query import AggregateTopK
from skyband.aggregate.reducer import AggregateNote, pane_ends
from skyband.aggregate.row_store import RowStore
from skyband.aggregate.shape import AggregateShape
from skyband.aggregate.sketched_panes import BOUND, BOUNDS, SketchedPanes, merged_bounds
from skyband.aggregate.state_store import StateStore, packed, unpacked
from skyband.aggregate.window_totals import window_totals
from skyband.data.answer_table import shared_ranks
from skyband.data.arrow import from_bytes, one, to_bytes
from skyband.data.key_dictionary import KeyDictionary, key_column, restored
from skyband.data.window_bounds import all_sliding, last_ends, starts_of
from skyband.errors import InvalidInputError, SnapshotError
from skyband.kernels.stream import Floats, Ints
from skyband.queries.windowed import refuse_past_landmark
from skyband.sharding.rows import group_rows
from skyband.sharding.shard import Segments, Shard, Tally
from skyband.snapshot import StateFormat, unchanged
from skyband.windows import ALWAYS, AXIS_LIMIT

__all__ = ["SHARD", "AggregateShard", "merged"]

_HELD = "held."  # prefix of the columns with the exact sums of a key, or of all keys if the key is null


def _from_version_2(saved: dict[str, Any]) -> dict[str, Any]:
    none = np.zeros((saved["totals"]["ladder"].size, 0), np.int64)
    return {**saved, "totals": {**saved["totals"], "ats": none, "ids": none}, "rows": None}


class AggregateShard(Shard):
    """The keys of one scan that hash to this shard, with their totals.

    All windows up to the clock have been answered. The clock is the same in all shards: it is computed from the
    watermark, from messages to all shards, and from the newest row, which every shard receives.
    """

    plan: AggregatePlan
    state_format = StateFormat("aggregate shard", [unchanged, _from_version_2], pack=packed, unpack=unpacked)
    note_type = AggregateNote
    end_column = "end"

    def __init__(self, plan: AggregatePlan, number: int, segments: Segments | None = None) -> None:
        self.scan = number // plan.shards
        super().__init__(plan, number, segments)
        self._columns = plan.groups[self.scan]
        self.since: dict[str, int] = {}  # per query added later: the smallest window start it answers
        self._engine = engine_of(plan.shape(self.scan))
        self._book = KeyDictionary(self._engine.unused, bool(self._columns))
        self._store = StateStore(self._engine, self.segments)
        self._panes = self._engine.shape.panes
        self._sketches: SketchedPanes | None = None
        key = plan.keys[self.scan]
        if self._engine.shape.counters is not None:
            self._sketches = SketchedPanes(self._engine.shape, self._panes, plan.groups[self.scan], key)
        self._waiting = OpenPanes(self.segments, self._panes, key) if self._sketches is None else self._sketches
        self._arrived: pa.Table | None = None  # partials of this step
        self._rows = RowStore()  # the rows that answers may return
        self._groups: list[tuple[Any, ...]] = []  # group values by code
        self._codes: dict[tuple[Any, ...], int] = {}
        self._kinds: pa.Schema | None = None  # of the groups and the key
        self._first = AXIS_LIMIT  # first position of the stream
        self._unrankable = 0
        self._limited = [(query, query.max_keys) for query in self._engine.shape.queries if query.max_keys]
        follows_keys = self._limited or plan.has_deletes(self.scan)
        self._key_panes = KeyPanes(self._first_start) if follows_keys else None
        self._unknown_deletes = 0  # of this step

    @property
    def may_reject(self) -> bool:  # type: ignore[override]  # depends on the queries here
        """Whether a step may raise an error about its rows."""
        return bool(self._limited)

    @property
    def owner_columns(self) -> Sequence[str]:
        """The group columns of its tables."""
        return self.plan.groups[self.scan]

    def accept(self, arrived: Sequence[pa.Table], notes: Sequence[AggregateNote], limit: int) -> int:
        """Accept partials and return the number of late rows.

        If a partial's pane ended at or before `limit`, all of its rows are late.
        """
        for note in notes:
            self._first = min(self._first, int(note.pane_firsts[note.pane_ends > limit].min(initial=AXIS_LIMIT)))
        if not arrived:
            return 0
        late = 0
        table = pa.concat_tables(arrived, promote_options="default").combine_chunks()
        timely = pane_ends(table, self._panes) > limit
        if not timely.all():
            late = int(numbers_of(table["count"])[~timely].sum())
            if self.plan.refuse_late:
                raise InvalidInputError(
                    f"a row at {int(numbers_of(table['last'])[~timely].min())} is behind the watermark {limit} "
                    "(microseconds), and late='refuse'. Use late='count' or a longer watermark."  # words: allow
                )
            table = table.filter(pa.array(timely))
        self._arrived = table
        return late

    def first_change(self, note: AggregateNote, limit: int) -> int:  # type: ignore[override]  # its own notes
        """Return the position before the end of the first pane with rows that has not ended at `limit`."""
        return int(note.pane_ends[note.pane_ends > limit].min(initial=AXIS_LIMIT)) - 1

    def rows_before(self, arrived: Sequence[pa.Table], notes: Sequence[AggregateNote], limit: int) -> int:
        """Return the number of rows in panes that ended at or before `limit`."""
        ended = ((table, pane_ends(table, self._panes) <= limit) for table in arrived)
        return sum(int(numbers_of(table["count"])[behind].sum()) for table, behind in ended)

    def begin_queries(self, watermark: int | None) -> None:
        """Determine where the queries of a new shard begin. Those of a resumed one begin when it is loaded."""
        if self.joining:
            joining = self.joining
            super().begin_queries(watermark)
            for query in self._engine.shape.queries:
                if query.name in joining and query.name not in self.past and query.name in self.since:
                    refuse_past_landmark(query, self.since[query.name])
            self._answer_since()

    def replace(self, before: AggregateShard, reported_from: Mapping[str, int]) -> None:
        """Continue the stream of another shard with this state."""
        super().replace(before, reported_from)
        self._answer_since()

    def advance(self, before: int) -> tuple[list[pa.Table], Tally]:
        """Pass the partials of closed panes to the engine and answer the windows that have ended."""
        closed = self._waiting.take(self._arrived, self.clock)
        found = []
        self._arrived = None
        if isinstance(closed, pa.Table):
            self._take_in(closed)
        elif closed is not None:
            for sketch in closed:
                found += self._take_sketch(sketch)
        self._engine.advance(self.clock, self._book.keys, max(1, len(self._groups)), self._first)
        unrankable = self._engine.counters()["unrankable"]
        more, self._unrankable = unrankable - self._unrankable, unrankable
        held = self._engine.partials + len(self._waiting)
        found += self._answers()
        if self._rows.is_full:
            self._engine.renumber_rows(self._rows.retain)
        unknown, self._unknown_deletes = self._unknown_deletes, 0
        return found, Tally(candidates=held, unrankable=more, unknown_deletes=unknown)

    @property
    def next_end(self) -> int | None:
        """End of the next non-empty window, None if there is none."""
        end, oldest = self._engine.next_end, self._waiting.oldest
        if oldest is not None:
            queries = self._engine.shape.queries
            end = min(end, *(query.window.first_end_after(oldest) for query in queries))
        return None if end >= NEVER else end

    def _take_in(self, table: pa.Table) -> None:
        name = self.plan.keys[self.scan]
        self._kinds = pa.schema([table.schema.field(column) for column in (*self._columns, name)])
        shape = self._engine.shape
        if shape.identified:  # the rows of extremes are compared here: the engine does not see their ids
            panes = pa.array(self._panes.marks_of(numbers_of(table["pane"])))
            table = table.set_column(table.column_names.index("pane"), "pane", panes)
            table = added(PartialLayout.of(self.plan, self.scan), table)
        table = table.take(pc.sort_indices(table["pane"]))
        codes = self._group_codes(table) if self._columns else None
        slots = self._book.slots_of(key_column(one(table[name])).stored, codes)
        if self._key_panes is not None:
            self._follow_keys(self._key_panes, table, slots)
        if isinstance(self._engine, ItemEngine):
            slots = self._engine.slots_of(key_column(one(table[ITEM])).stored, slots)
        partials, addends = partials_of(shape, table, slots, lambda extreme: self._added_rows(table, extreme))
        self._engine.take_partials(partials, addends, self._book.keys, max(1, len(self._groups)), self._first)

    def _follow_keys(self, keys: KeyPanes, table: pa.Table, slots: Ints) -> None:
        """Count unknown deletes, and reject more keys in a window than its query allows."""
        marks, values = numbers_of(table["pane"]), np.zeros(table.num_rows)
        if self.plan.has_deletes(self.scan):
            values = numbers_of(column_of(table, "latest", -np.inf))
            self._unknown_deletes += keys.unknown_deletes(slots, marks, values, numbers_of(table["count"]))
        limited = [
            (query, most, self.since.get(query.name, ALWAYS)) for query, most in self._limited if len(self._book) > most
        ]
        where = f" in one of {self.plan.shards} shards" if self.plan.shards > 1 else ""
        refuse_more_keys(keys, limited, slots, marks, values, where)

    def _first_start(self, mark: int) -> int:
        """Return the earliest start of the windows that end next after a pane begins."""
        queries = self._engine.shape.queries
        ends = ((query, query.window.first_end_after(mark)) for query in queries)
        return min(max(query.window.start(end), self.since.get(query.name, ALWAYS)) for query, end in ends)

    def _take_sketch(self, sketch: ClosedSketch) -> list[pa.Table]:
        """Pass the counters of a pane to the engine. Return the answers of the windows that ended before it."""
        assert self._sketches is not None
        name = self.plan.keys[self.scan]
        self._kinds = pa.schema([sketch.rows.schema.field(column) for column in (*self._columns, name)])
        codes = self._group_codes(sketch.rows) if self._columns else np.zeros(sketch.rows.num_rows, np.int64)
        slots = self._book.slots_of(key_column(one(sketch.rows[name])).stored, codes if self._columns else None)
        rows, addends = self._sketches.close(sketch, slots, codes)
        self._engine.take_partials(rows, addends, self._book.keys, max(1, len(self._groups)), self._first)
        found = self._answers()
        self._sketches.forget(sketch.mark)
        return found

    def _added_rows(self, table: pa.Table, extreme: str) -> Ints:
        """Store the rows of an extreme, if answers return them, and return their numbers."""
        found = {
            name: column for name, column in row_columns(table, extreme).items() if name in self.plan.stored_fields
        }
        if not found:
            return np.full(table.num_rows, NONE)
        return self._rows.add(pa.table({name: one(table[column]) for name, column in found.items()}))

    def _change_queries(self, before: tuple[AggregateTopK, ...], since: dict[str, int]) -> None:
        """Continue with changed queries. New queries start after the newest row.

        All shards know the same newest row, so a new query starts with the same window in all of them.
        """
        known = {query.name: query for query in before}
        for query in self._engine.shape.queries:
            if known.get(query.name) == query:
                self.since |= {name: at for name, at in since.items() if name == query.name}
            elif self.newest != ALWAYS:
                if query.name not in self.past:
                    refuse_past_landmark(query, self.newest + 1)
                self.since[query.name] = self.newest + 1
                self.joined.append(query.name)
                self._first = min(self._first, self.newest)  # may be unset if no query had full_only
        self._answer_since()

    def _answer_since(self) -> None:
        self._engine.answer_since([self.since.get(query.name, ALWAYS) for query in self._engine.shape.queries])

    def _group_codes(self, table: pa.Table) -> Ints:
        grouping = group_rows(table, self._columns)
        samples = table.select(list(self._columns)).take(pa.array(grouping.samples))
        found = np.empty(grouping.size, np.int64)
        for place, group in enumerate(tuples_of(samples)):
            code = self._codes.setdefault(group, len(self._groups))
            if code == len(self._groups):
                self._groups.append(group)
            found[place] = code
        return found[grouping.codes]

    def _answers(self) -> list[pa.Table]:
        found = self._engine.answers()
        if not found or self._kinds is None:
            return []
        tables = []
        names = list(self._kinds.names)
        places = np.array(self.plan.scans[self.scan].places, np.int64)
        groups = self._group_table(self._groups)
        for part in found:
            windows, more, held, addends = part if self._sketches is None else self._sketches.bounded(part)
            columns: dict[str, Any] = {"query": pa.array(np.repeat(places[windows.queries], windows.counts))}
            codes = pa.array(np.repeat(windows.groups, windows.counts))
            for name in self._columns:
                columns[name] = one(groups[name]).take(codes)
            columns["end"] = pa.array(np.repeat(windows.ends, windows.counts))
            columns["last"] = pa.array(more["last"])
            if self.plan.stored_fields:
                returned = np.array([query.row for query in self._engine.shape.queries])[windows.queries]
                numbers = np.where(np.repeat(returned, windows.counts), more["row"], NONE)
                rows = self._rows.take(numbers)
                columns |= {f"{ROW}{name}": one(rows[name]) for name in rows.column_names}
            columns[names[-1]] = restored(self._book.values(windows.ids), self._kinds.field(names[-1]).type)
            columns["score"] = pa.array(windows.keys)
            columns |= {f"{BOUND}{name}": pa.array(more[name]) for name in BOUNDS if name in more}
            if self._engine.shape.totals:
                columns |= {f"{_HELD}{name}": pa.array(held[:, at]) for at, name in enumerate(addends.names)}
            tables.append(self._until_end(pa.table(columns)))
        return [pa.concat_tables(tables, promote_options="default")]

    def _until_end(self, table: pa.Table) -> pa.Table:
        """Return the answers that the end of the stream allows: without end, windows of a landmark do not stop."""
        queries = self._engine.shape.queries
        if self.clock <= self.reached or all_sliding(queries):
            return table
        last = last_ends(self.plan.queries, self.newest)
        return table.filter(pa.array(numbers_of(table["end"]) <= last[numbers_of(table["query"])]))

    def _group_table(self, groups: list[tuple[Any, ...]]) -> pa.Table:
        kinds = self._kinds or pa.schema([])
        columns = list(zip(*groups, strict=True)) if groups else [()] * len(self._columns)
        return pa.table(
            {
                name: pa.array(values, kinds.field(name).type)
                for name, values in zip(self._columns, columns, strict=True)
            }
        )

    def save(self) -> dict[str, Any]:
        """Write the segments and return the rest of the state for `load`."""
        items = self._engine.saved_items() if isinstance(self._engine, ItemEngine) else None
        book = self._book.state()
        slots = book["slots"]
        self._engine.renumber_rows(self._rows.retain)
        used, codes = np.unique(book["groups"], return_inverse=True)
        groups = [self._groups[code] for code in used.tolist()] if self._columns else []  # unused groups are dropped
        keys = pa.table({"key": self._book.values(slots)})
        return {
            "queries": [query.to_dict() for query in self._engine.shape.queries],
            "since": self.since,
            "unit": self.number,
            "clock": self.clock,
            "newest": self.newest,
            "first": self._first,
            "waiting": self._waiting.state(),
            "kinds": None if self._kinds is None else self._kinds.serialize().to_pybytes(),
            "groups": to_bytes(self._group_table(groups)) if self._columns and self._kinds is not None else None,
            "book": {**book, "slots": slots.astype(np.int32), "groups": codes.astype(np.int32)},
            "keys": to_bytes(keys),
            "totals": self._store.spill(slots if items is None else items["slots"]),
            "items": None if items is None else {name: _as_int32(part) for name, part in items.items()},
            "rows": self._rows.state(),
            **({} if self._key_panes is None else {"key_panes": self._key_panes.state(slots)}),
            **({} if self._sketches is None else {"bounds": self._sketches.closed(used)}),
            **self.saved_reports(),
        }

    def load(self, saved: dict[str, Any]) -> None:
        """Continue from what `save` returned."""
        now = self._engine.shape.queries
        before = now
        # Usually the queries are the same. To parse thousands of them would take longer than the rest of a step.
        if saved["queries"] != [query.to_dict() for query in now]:
            before = tuple(AggregateTopK(**fields) for fields in saved["queries"])
        moved = self.plan.shards > 1 and saved["unit"] != self.number
        if moved or _source(before[0]) != _source(now[0]):
            raise SnapshotError(
                "the stored shard belongs to a workload with other keys, values or groups. Nothing was resumed. Use "
                "key=, value=, where=, delete=, half_life= and partition_by= as stored, or a new checkpoint."
            )
        self.clock, self.newest, self._first = saved["clock"], saved["newest"], saved["first"]
        self._change_queries(before, saved["since"])
        changed = before != now and AggregateShape(before).panes != self._panes
        self._waiting.load(saved["waiting"], self.newest if changed else None)
        if saved["kinds"] is not None:
            kinds = pa.ipc.read_schema(pa.py_buffer(saved["kinds"]))
            self._kinds = kinds.set(len(kinds) - 1, kinds.field(-1).with_name(self.plan.keys[self.scan]))
        if saved["groups"] is not None:
            self._groups = list(tuples_of(from_bytes(saved["groups"])))
            self._codes = {group: code for code, group in enumerate(self._groups)}
        book = {**saved["book"], **{name: saved["book"][name].astype(np.int64) for name in ("slots", "groups")}}
        self._book.load(book, one(from_bytes(saved["keys"])["key"]))
        used, size = book["slots"], self._book.keys.prefix.size
        if isinstance(self._engine, ItemEngine):
            items = saved["items"]
            used = items["slots"].astype(np.int64)
            self._engine.load_items({**items, "slots": used, "groups": items["groups"].astype(np.int64)})
            size = self._engine.book.keys.prefix.size
        self._store.restore(AggregateShape(before), saved["totals"], used, size)
        if self._key_panes is not None:
            lasts = self.newest if isinstance(self._engine, ItemEngine) else self._engine.last_seen(book["slots"])
            self._key_panes.load(saved.get("key_panes"), book["slots"], lasts)
        self._rows.load(saved["rows"])
        if self._sketches is not None:
            self._sketches.load_closed(saved["bounds"])
        self._unrankable = self._engine.counters()["unrankable"]
        same = {query.name for query in now if query in before}
        self.load_reports(saved, same, lambda name: self.plan.keys[self.scan] if is_key_name(name) else name)


SHARD = AggregateShard


def _source(query: AggregateTopK) -> tuple[Any, ...]:
    return query.scan_key()


def merged(plan: AggregatePlan, scan: int, tables: Sequence[pa.Table]) -> pa.Table:
    """Merge the answers of a scan's shards into the top k of each window.

    Each key belongs to one shard, so the overall top k is contained in the shards' top k.
    """
    table = pa.concat_tables(tables, promote_options="default").combine_chunks()
    groups, key = plan.groups[scan], plan.keys[scan]
    windows = group_rows(table, ["query", *groups, "end"]).codes
    ends, queries = numbers_of(table["end"]), numbers_of(table["query"])
    # Windows are numbered by their first row; sorting by end and query first gives the order of the answers.
    order = pc.sort_indices(
        table.append_column("window", pa.array(windows)),
        [
            ("end", "ascending"),
            ("query", "ascending"),
            ("window", "ascending"),
            ("score", "descending"),
            ("last", "descending"),
            (key, "descending"),
        ],
    )
    order = order.to_numpy().astype(np.int64)
    all_keys = one(table[key]).is_null().to_numpy(zero_copy_only=False)  # rows with the sums of all keys
    order = order[~all_keys[order]]
    begins = np.flatnonzero(np.diff(windows[order], prepend=-1))
    ranks = np.arange(order.size) - np.repeat(begins, np.diff(begins, append=order.size)) + 1
    ks = np.array([query.k for query in plan.queries], np.int64)
    tied = np.array([query.shares_ranks for query in plan.queries])
    if tied.any():
        shared = shared_ranks(np.diff(begins, append=order.size), numbers_of(table["score"])[order])
        ranks = np.where(tied[queries[order]], shared, ranks)
    best = ranks <= ks[queries[order]]
    order, ranks = order[best], ranks[best]
    directions = np.array([-1.0 if query.ascending else 1.0 for query in plan.queries])
    scores, shares = numbers_of(table["score"])[order] * directions[queries[order]], np.full(order.size, np.nan)
    if (decay := plan.shape(scan).decay) is not None:
        scores = decay.as_of(scores, ends[order])
    if plan.shape(scan).totals:
        order, ranks, scores, shares = _with_totals(plan, scan, table, windows, all_keys, order, ranks, scores)
    found = {
        "score": pa.array(scores),
        "share": pa.array(shares, mask=np.isnan(shares)),
        "window_start": pa.array(starts_of(plan.queries, queries[order], ends[order])),
        "window_end": pa.array(ends[order]),
        "rank": pa.array(ranks.astype(np.int32)),
        **merged_bounds(table, windows, order),
    }
    return answer_table(plan, scan, table.take(pa.array(order)), found)


def _with_totals(
    plan: AggregatePlan,
    scan: int,
    table: pa.Table,
    windows: Ints,
    all_keys: Any,
    order: Ints,
    ranks: Ints,
    scores: Floats,
) -> tuple[Ints, Ints, Floats, Floats]:
    """Add a row for the other keys of a window where a query has it, and compute shares.

    `order` has the ranked rows of the table; the result has rows of all keys after them where they are those of the
    other keys.
    """
    queries = numbers_of(table["query"])
    first = np.zeros(int(windows.max()) + 1, np.int64) if windows.size else np.zeros(0, np.int64)
    first[windows] = queries  # the query of each window
    asked = [plan.queries[place] for place in first.tolist()]
    uses, others, counted = (
        np.array([getattr(query, name) for query in asked], bool) for name in ("totals", "others", "counts_rows")
    )
    addends = Addends(plan.shape(scan).powers).named_in(
        name.removeprefix(_HELD) for name in table.column_names if name.startswith(_HELD)
    )
    rows = np.concatenate([order, np.flatnonzero(all_keys)])
    rows = rows[uses[windows[rows]]]
    held = np.stack([numbers_of(column_of(table, f"{_HELD}{name}", 0)) for name in addends.names], axis=1)
    found = window_totals(windows[rows], all_keys[rows], held[rows], addends, counted)
    samples = np.full(first.size, NONE)
    samples[windows[all_keys]] = np.flatnonzero(all_keys)
    ranked = np.bincount(windows[order], minlength=first.size)
    more = np.flatnonzero(others & (ranked > 0) & (found.other_rows > 0) & (samples != NONE))
    # Rows of other keys follow the ranked ones of their window.
    at = np.zeros(first.size, np.int64)
    at[windows[order]] = np.arange(order.size)
    sorting = np.argsort(np.concatenate([np.arange(order.size), at[more] + 0.5]), kind="stable")
    order = np.concatenate([order, samples[more]])[sorting]
    ranks = np.concatenate([ranks, ranked[more] + 1])[sorting]
    scores = np.concatenate([scores, found.others[more]])[sorting]
    shared = np.array([query.share for query in asked], bool)[windows[order]]
    return order, ranks, scores, np.where(shared, found.share(scores, windows[order]), np.nan)


def _as_int32(part: Any) -> Any:
    return part.astype(np.int32) if isinstance(part, np.ndarray) else part
