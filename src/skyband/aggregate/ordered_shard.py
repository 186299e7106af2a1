"""Shards of groups, for windows that follow from the order of all rows of a group: rows in stream order, and a monitor.

Each group is in one shard, so the answers of a shard are complete. They are merged only to be sorted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.aggregate.answer_table import ROW, answer_table, tuples_of
from skyband.aggregate.monitor import Monitor
from skyband.aggregate.ordered_rows import GROUP, KEY, POSITION, VALUE, order_of
from skyband.aggregate.ordered_rows import ROW as PART
from skyband.aggregate.plan import AggregatePlan, is_key_name
from skyband.aggregate.query import AggregateTopK
from skyband.aggregate.reducer import AggregateNote
from skyband.aggregate.row_store import NumberedRows
from skyband.data.arrow import from_bytes, one, to_bytes
from skyband.errors import SnapshotError
from skyband.kernels.stream import Ints
from skyband.sharding.ordered_shard import OrderedShard
from skyband.sharding.rows import group_rows
from skyband.sharding.shard import Segments, Tally
from skyband.snapshot import StateFormat
from skyband.windows import NEVER

__all__ = ["SHARD", "OrderedAggregateShard", "in_answer_order"]

_BOUNDS = ("error", "guaranteed")
FEW = 1024  # groups that are kept without looking for unused ones


class OrderedAggregateShard(OrderedShard):
    """The groups of one scan that hash to this shard. Rows without groups are in the first shard of their scan."""

    plan: AggregatePlan
    state_format = StateFormat("ordered aggregate shard", [])
    note_type = AggregateNote
    end_column = "end"

    def __init__(self, plan: AggregatePlan, number: int, segments: Segments | None = None) -> None:
        self.scan = number // plan.shards
        self._columns = plan.groups[self.scan]
        super().__init__(plan, number, segments)
        self.order = order_of(plan, self.scan)
        self._queries = [plan.queries[place] for place in plan.scans[self.scan].places]
        self._places = {plan.queries[place].name: place for place in plan.scans[self.scan].places}
        self._monitor = Monitor(self._queries, computed=True)
        self._groups: dict[int, tuple[Any, ...]] = {}  # group values by the code that the monitor knows
        self._codes: dict[tuple[Any, ...], int] = {}
        self._next_code = 0
        self._forget_at = FEW
        self._kinds = pa.schema([])  # of the group columns
        self._rows = NumberedRows()  # the rows that answers may return
        self._counted = self._counts()

    @property
    def may_reject(self) -> bool:  # type: ignore[override]  # depends on the queries here
        """Whether a step may raise an error about its rows."""
        return any(query.max_keys for query in self._queries)

    @property
    def owner_columns(self) -> Sequence[str]:
        """The group columns of its tables."""
        return self._columns

    @property
    def candidates(self) -> int:
        return self._monitor.candidates

    def due_times(self) -> Iterable[int]:
        if (end := self._monitor.next_end) < NEVER:
            yield end
        if (oldest := self.oldest_waiting) is not None:
            yield min(query.window.first_end_from(oldest) for query in self._queries)

    def begin_queries(self, watermark: int | None) -> None:
        joining = self.joining
        if joining and self.plan.axis == "count":
            _refuse_joining(joining[0])
        super().begin_queries(watermark)
        self._join([query for query in self._queries if query.name in joining and query.name not in self.past])

    def _join(self, queries: Sequence[AggregateTopK]) -> None:
        """Pass new queries to the monitor, which knows the rows from their beginning on."""
        known = {query.name for query in self._monitor.queries}
        for query in queries:
            if query.name not in known:
                self._monitor.add(query)
            if query.name in self.since:
                self._monitor.begin_at([query.name], self.since[query.name])

    def advance(self, before: int) -> tuple[list[pa.Table], Tally]:
        found, tally = super().advance(before)
        earlier, self._counted = self._counted, self._counts()
        more = {name: count - earlier[name] for name, count in self._counted.items()}
        return found, tally._replace(**more)

    def _counts(self) -> dict[str, int]:
        """Return what the monitor has counted since the stream began."""
        metrics = self._monitor.metrics()
        return {name: metrics.get(name, 0) for name in ("unrankable", "unknown_deletes")}

    def rank(self, ready: pa.Table | None) -> list[pa.Table]:
        if ready is not None and ready.num_rows:
            self._push(ready)
        if self.plan.axis == "time":
            self._monitor.advance_to(self.clock)
        found = self._answers()
        if self._rows.is_full:
            self._rows.retain(self._monitor.row_ids())
        if len(self._groups) > self._forget_at:
            self._forget_groups()
        return [found]

    def _forget_groups(self) -> None:
        """Drop the values of groups that no later answer can be of."""
        used = sorted(self._monitor.groups_in_use())
        self._groups = {code: self._groups[code] for code in used}
        self._codes = {group: code for code, group in self._groups.items()}
        self._forget_at = max(FEW, 2 * len(used))

    def _push(self, rows: pa.Table) -> None:
        columns: dict[str, Any] = {"keys": one(rows[KEY])}
        if VALUE in rows.column_names:
            columns["values"] = one(rows[VALUE])
        if self.plan.has_deletes(self.scan):
            columns["deletes"] = pc.is_nan(columns["values"])  # NaN stands for a delete
        if any(query.row for query in self._queries):
            parts = [name for name in rows.column_names if name.startswith(PART)]
            columns["ids"] = self._rows.add(rows.select(parts).rename_columns([_field(name) for name in parts]))
        if self._columns:
            columns["groups"] = self._group_codes(rows)
        self._monitor.push(one(rows[POSITION]) if self.plan.axis == "time" else None, **columns)

    def _group_codes(self, rows: pa.Table) -> Ints:
        names = [f"{GROUP}{number}" for number in range(len(self._columns))]
        self._kinds = pa.schema([rows.schema.field(name) for name in names])
        grouping = group_rows(rows, names)
        found = np.empty(grouping.size, np.int64)
        for place, group in enumerate(tuples_of(rows.select(names).take(pa.array(grouping.samples)))):
            code = self._codes.setdefault(group, self._next_code)
            if code == self._next_code:
                self._groups[code] = group
                self._next_code += 1
            found[place] = code
        return found[grouping.codes]

    def _answers(self) -> pa.Table:
        """Return the answers of the monitor with the columns of shards, see `answer_table`."""
        table = self._monitor.answers()
        for name, start in self.since.items():  # windows before were answered by another shard, or are not complete
            mine, earlier = pc.equal(table["query"], name), pc.less(table["window_start"].cast(pa.int64()), start)
            table = table.filter(pc.invert(pc.and_(mine, earlier)))
        if not table.num_rows:
            return pa.table({"rank": pa.array([], pa.int64())})
        names = list(self._places)
        places = pa.array(list(self._places.values()), pa.int64())
        columns: dict[str, Any] = {"query": places.take(pc.index_in(table["query"], pa.array(names)))}
        if self._columns:
            owners = one(table["group"]).to_pylist()
            values = self._group_table([self._groups[code] for code in owners])
            columns |= {name: one(values[part]) for name, part in zip(self._columns, values.column_names, strict=True)}
        columns |= {name: one(table[f"window_{name}"]).cast(pa.int64()) for name in ("start", "end")}
        columns |= {"rank": one(table["rank"]), self.plan.keys[self.scan]: one(table["key"])}
        columns |= {name: one(table[name]) for name in ("score", "share", *_BOUNDS) if name in table.column_names}
        if "id" in table.column_names:
            rows = self._rows.take(one(table["id"]))
            columns |= {f"{ROW}{name}": one(rows[name]) for name in rows.column_names}
        return pa.table(columns)

    def _group_table(self, groups: list[tuple[Any, ...]]) -> pa.Table:
        columns = list(zip(*groups, strict=True)) if groups else [()] * len(self._kinds)
        return pa.table(
            {field.name: pa.array(values, field.type) for field, values in zip(self._kinds, columns, strict=True)}
        )

    def save(self) -> dict[str, Any]:
        self._rows.retain(self._monitor.row_ids())
        self._forget_groups()
        return {
            **super().save(),
            "queries": [query.to_dict() for query in self._queries],
            "unit": self.number,
            "since": self.since,
            "monitor": self._monitor.snapshot(),
            "codes": np.array(list(self._groups), np.int64),
            "groups": to_bytes(self._group_table(list(self._groups.values()))) if self._groups else None,
            "rows": self._rows.state(),
        }

    def load(self, saved: dict[str, Any]) -> None:
        super().load(saved)
        before = {fields["name"]: AggregateTopK(**fields) for fields in saved["queries"]}
        first = next(iter(before.values()))
        moved = self.plan.shards > 1 and saved["unit"] != self.number
        if moved or first.scan_key() != self._queries[0].scan_key() or first.axis != self.plan.axis:
            raise SnapshotError(
                "the stored shard belongs to a workload with other keys, values, groups or windows. Nothing was "
                "resumed. Use key=, value=, where=, delete= and partition_by= as stored, or a new checkpoint."
            )
        self._monitor = Monitor.resume(saved["monitor"])
        same = {query.name for query in self._queries if before.get(query.name) == query}
        self.since = {name: since for name, since in saved["since"].items() if name in same}
        for query in self._queries:
            if query.name not in same:
                if self.plan.axis == "count":
                    _refuse_joining(query.name)  # before anything else of the stream is changed
                self.joining.append(query.name)
        self._remove_others(same)
        if saved["groups"] is not None:
            table = from_bytes(saved["groups"])
            self._kinds = table.schema
            self._groups = dict(zip(saved["codes"].tolist(), tuples_of(table), strict=True))
            self._codes = {group: code for code, group in self._groups.items()}
            self._next_code = max(self._groups) + 1
        self._rows.load(saved["rows"])
        self._counted = self._counts()
        self.load_reports(saved, same, lambda name: self.plan.keys[self.scan] if is_key_name(name) else name)

    def _remove_others(self, same: set[str]) -> None:
        """Remove the queries of the monitor that the scan does not have any more. If none remains, begin again."""
        if not same:
            self._monitor = Monitor(self._queries, computed=True)
            return
        for query in self._monitor.queries:
            if query.name not in same:
                self._monitor.remove(query.name)


SHARD = OrderedAggregateShard


def _field(name: str) -> str:
    return name.removeprefix(PART)


def _refuse_joining(name: str) -> None:
    raise SnapshotError(
        f"query {name!r} is not in this checkpoint. Count windows cannot be added to a running stream, because rows "
        "processed before are not counted for them. Remove the query, or start it with a new checkpoint."
    )


def in_answer_order(plan: AggregatePlan, scan: int, tables: Sequence[pa.Table]) -> pa.Table:
    """Return the answers of a scan's shards, each of which has whole groups, as answers of the workload."""
    table = pa.concat_tables(tables, promote_options="default").combine_chunks()
    windows = pa.array(group_rows(table, ["query", *plan.groups[scan], "end"]).codes)
    names = ("end", "query", "window", "rank")
    table = table.take(pc.sort_indices(table.append_column("window", windows), [(name, "ascending") for name in names]))
    rows = table.num_rows
    found = {
        "score": one(table["score"]),
        "share": one(table["share"]) if "share" in table.column_names else pa.nulls(rows, pa.float64()),
        "window_start": one(table["start"]),
        "window_end": one(table["end"]),
        "rank": one(table["rank"]).cast(pa.int32()),
        "error": one(table["error"]) if "error" in table.column_names else pa.repeat(0.0, rows),
        "guaranteed": one(table["guaranteed"]) if "guaranteed" in table.column_names else pa.repeat(True, rows),
    }
    return answer_table(plan, scan, table, found)
