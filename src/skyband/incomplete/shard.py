"""Incomplete streams in shards.

Tuples go to the shard of their object, are buffered there until the clock passes them, and are ranked in stream order.
The answers of all shards are merged into the overall top k.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.answer_table import shared_ranks
from skyband.data.arrow import one
from skyband.data.group_key import GROUP
from skyband.errors import SnapshotError
from skyband.incomplete.monitor import Monitor
from skyband.incomplete.plan import IncompletePlan
from skyband.incomplete.query import IncompleteTopK
from skyband.queries.sharing import places_by
from skyband.sharding.ordered_shard import OrderedShard
from skyband.sharding.shard import Segments
from skyband.snapshot import StateFormat, unchanged

__all__ = ["SHARD", "IncompleteShard", "merged"]

_KEY = "__skyband_key"  # the score, negated if lower scores are better


def _from_version_2(saved: dict[str, Any]) -> dict[str, Any]:
    return {
        **saved,
        "monitors": list(zip(([query["name"]] for query in saved["queries"]), saved["monitors"], strict=True)),
    }


class _Group(NamedTuple):
    """Queries that share a monitor, by their places in the workload."""

    monitor: Monitor
    places: tuple[int, ...]


class IncompleteShard(OrderedShard):
    """State of a workload for the objects of one shard."""

    state_format = StateFormat("incomplete shard", [unchanged, _from_version_2])
    order = ("id", "stream", "value")

    def __init__(self, plan: IncompletePlan, number: int, segments: Segments | None = None) -> None:
        super().__init__(plan, number, segments)
        self.groups = [
            self._group(tuple(scan.places[at] for at in alike))
            for scan in plan.scans
            for alike in places_by(_streams, [plan.queries[place] for place in scan.places]).values()
        ]

    def _group(self, places: tuple[int, ...]) -> _Group:
        queries = [_without_filter(self.plan.queries[place]) for place in places]
        return _Group(Monitor(queries, lasts=True, computed=True), places)

    @property
    def owner_columns(self) -> Sequence[str]:
        return (GROUP,) if self.plan.group_columns else ()

    @property
    def candidates(self) -> int:
        return sum(group.monitor.candidates for group in self.groups)

    @property
    def over_limit(self) -> int:
        return sum(group.monitor.metrics()["over_limit"] for group in self.groups)

    def due_times(self) -> Iterator[int]:
        oldest = self.oldest_waiting
        for group in self.groups:
            for query in group.monitor.queries:
                if group.monitor.candidates:
                    yield query.window.first_end_after(self.clock)
                if oldest is not None:
                    yield query.window.first_end_after(max(oldest, self.clock))

    def rank(self, ready: pa.Table | None) -> list[pa.Table]:
        scan_of = {place: number for number, scan in enumerate(self.plan.scans) for place in scan.places}
        out = []
        for group in self.groups:
            mine = None if ready is None else ready.filter(pc.equal(ready["told"], scan_of[group.places[0]]))
            self._push(group, mine)
            out.append(self._answers(group))
        return out

    def _push(self, group: _Group, tuples: pa.Table | None) -> None:
        on_time = self.plan.axis == "time"
        if tuples is not None and tuples.num_rows:
            # Stream numbers are places in the streams of the first query of the scan.
            scan = next(scan for scan in self.plan.scans if group.places[0] in scan.places)
            names = pa.array(list(self.plan.queries[scan.places[0]].streams or ()))
            columns = (one(tuples["object"]), names.take(one(tuples["stream"])), one(tuples["value"]))
            groups = one(tuples[GROUP]) if scan.partition_by else None
            group.monitor.push(one(tuples["position"]) if on_time else None, *columns, groups=groups)
        if on_time:
            group.monitor.advance_to(self.clock)

    def _answers(self, group: _Group) -> pa.Table:
        table = group.monitor.answers()
        if self.plan.group_columns and GROUP not in table.column_names:
            table = table.append_column(GROUP, pa.nulls(table.num_rows, pa.binary()))
        kept = np.ones(table.num_rows, bool)
        places = np.zeros(table.num_rows, np.int32)
        for place in group.places:
            query = self.plan.queries[place]
            mine = pc.equal(table["query"], query.name).to_numpy(zero_copy_only=False).astype(bool)
            places[mine] = place
            since = self.since.get(query.name)
            if since is not None:
                kept &= ~mine | (pc.subtract(table["time"], query.window.size).to_numpy() >= since)
        return table.append_column("place", pa.array(places)).filter(pa.array(kept))

    def save(self) -> dict[str, Any]:
        return {
            **super().save(),
            "queries": [query.to_dict() for query in self.plan.queries],
            "since": self.since,
            "monitors": [
                ([self.plan.queries[place].name for place in group.places], group.monitor.snapshot())
                for group in self.groups
            ],
        }

    def load(self, saved: dict[str, Any]) -> None:
        super().load(saved)
        before = {fields["name"]: IncompleteTopK(**fields) for fields in saved["queries"]}
        places = {query.name: place for place, query in enumerate(self.plan.queries)}
        same = {query.name for query in self.plan.queries if before.get(query.name) == query}
        self.groups = []
        for names, blob in saved["monitors"]:
            kept = [name for name in names if name in same]
            if kept:
                monitor = Monitor.resume(blob)
                for name in set(names).difference(kept):
                    monitor.remove(name)
                self.groups.append(_Group(monitor, tuple(places[name] for name in kept)))
        self.since |= {name: since for name, since in saved["since"].items() if name in same}
        for query in self.plan.queries:
            if query.name in same:
                continue
            if self.plan.axis == "count":
                raise SnapshotError(
                    f"query {query.name!r} is not in this checkpoint. Count windows cannot be added to a running "
                    "stream, because tuples processed before are not counted for them. Remove the query, or start it "
                    "with a new checkpoint."
                )
            self.groups.append(self._group((places[query.name],)))
            self.joining.append(query.name)
        self.load_reports(saved, same)


SHARD = IncompleteShard


def _streams(query: IncompleteTopK) -> frozenset[str | int]:
    return frozenset(query.streams or ())


def _without_filter(query: IncompleteTopK) -> IncompleteTopK:
    """Return the query without `where`: filtered rows are already dropped."""
    return IncompleteTopK(**{**query.to_dict(), "where": None})


def merged(plan: IncompletePlan, tables: Sequence[pa.Table]) -> pa.Table:
    """Merge the answers of all shards: the top k per query, time and group, by score, then last seen, then object."""
    table = pa.concat_tables(tables, promote_options="default")
    order = [("time", "ascending"), ("place", "ascending")]
    order += [(GROUP, "ascending")] if plan.group_columns else []
    key = "score"
    if any(query.ascending for query in plan.queries):
        signs = np.array([-1.0 if query.ascending else 1.0 for query in plan.queries])
        key, signed = _KEY, pc.multiply(table["score"], pa.array(signs[one(table["place"]).to_numpy()]))
        table = table.append_column(_KEY, signed)
    order += [(name, "descending") for name in (key, "last", "object")]
    table = table.take(pc.sort_indices(table, order))
    moments, places = table["time"].to_numpy(), table["place"].to_numpy()
    first = np.ones(table.num_rows, bool)
    first[1:] = (moments[1:] != moments[:-1]) | (places[1:] != places[:-1])
    if plan.group_columns:
        groups = one(table[GROUP]).dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
        first[1:] |= groups[1:] != groups[:-1]
    begins = np.flatnonzero(first)
    counts = np.diff(begins, append=table.num_rows)
    ranks = np.arange(table.num_rows) - np.repeat(begins, counts) + 1
    tied = np.array([query.ties == "rank" for query in plan.queries])
    if tied.any():
        ranks = np.where(tied[places], shared_ranks(counts, one(table["score"]).to_numpy()), ranks)
    ks = np.array([query.k for query in plan.queries])
    table = table.set_column(table.column_names.index("rank"), "rank", pa.array(ranks))
    return table.filter(pa.array(ranks <= ks[places]))
