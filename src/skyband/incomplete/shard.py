"""Incomplete streams in shards.

Tuples go to the shard of their object, are buffered there until the clock passes them, and are ranked in stream order.
The answers of all shards are merged into the overall top k.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import one
from skyband.errors import SnapshotError
from skyband.incomplete.monitor import Monitor
from skyband.incomplete.plan import IncompletePlan
from skyband.incomplete.query import IncompleteTopK
from skyband.sharding.ordered_shard import OrderedShard
from skyband.sharding.shard import Segments
from skyband.snapshot import StateFormat, unchanged

__all__ = ["SHARD", "IncompleteShard", "merged"]


class IncompleteShard(OrderedShard):
    """State of a workload for the objects of one shard."""

    state_format = StateFormat("incomplete shard", [unchanged])
    order = ("id", "stream", "value")

    def __init__(self, plan: IncompletePlan, number: int, segments: Segments | None = None) -> None:
        super().__init__(plan, number, segments)
        self.monitors = [Monitor(_without_filter(query), lasts=True, computed=True) for query in plan.queries]

    @property
    def candidates(self) -> int:
        return sum(monitor.candidates for monitor in self.monitors)

    @property
    def over_limit(self) -> int:
        return sum(monitor.metrics()["over_limit"] for monitor in self.monitors)

    def due_times(self) -> Iterator[int]:
        oldest = self.oldest_waiting
        for query, monitor in zip(self.plan.queries, self.monitors, strict=True):
            if monitor.candidates:
                yield query.window.first_end_after(self.clock)
            if oldest is not None:
                yield query.window.first_end_after(max(oldest, self.clock))

    def rank(self, ready: pa.Table | None) -> list[pa.Table]:
        out = []
        for number, scan in enumerate(self.plan.scans):
            mine = None if ready is None else ready.filter(pc.equal(ready["told"], number))
            for place in scan.places:
                self._push(place, mine)
                out.append(self._answers(place))
        return out

    def _push(self, place: int, tuples: pa.Table | None) -> None:
        monitor, query = self.monitors[place], self.plan.queries[place]
        on_time = self.plan.axis == "time"
        if tuples is not None and tuples.num_rows:
            names = pa.array(list(query.streams or ()))
            columns = (one(tuples["object"]), names.take(one(tuples["stream"])), one(tuples["value"]))
            monitor.push(one(tuples["position"]) if on_time else None, *columns)
        if on_time:
            monitor.advance_to(self.clock)

    def _answers(self, place: int) -> pa.Table:
        query, table = self.plan.queries[place], self.monitors[place].answers()
        table = table.append_column("place", pa.array(np.full(table.num_rows, place), pa.int32()))
        since = self.since.get(query.name)
        if since is None:
            return table
        return table.filter(pc.greater_equal(pc.subtract(table["time"], query.window.size), since))

    def save(self) -> dict[str, Any]:
        return {
            **super().save(),
            "queries": [query.to_dict() for query in self.plan.queries],
            "since": self.since,
            "monitors": [monitor.snapshot() for monitor in self.monitors],
        }

    def load(self, saved: dict[str, Any]) -> None:
        super().load(saved)
        known = {
            fields["name"]: (IncompleteTopK(**fields), blob)
            for fields, blob in zip(saved["queries"], saved["monitors"], strict=True)
        }
        for place, query in enumerate(self.plan.queries):
            before = known.get(query.name)
            if before is not None and before[0] == query:
                self.monitors[place] = Monitor.resume(before[1])
                if query.name in saved["since"]:
                    self.since[query.name] = saved["since"][query.name]
            elif self.plan.axis == "count":
                raise SnapshotError(
                    f"query {query.name!r} is not in this checkpoint. Count windows cannot be added to a running "
                    "stream, because tuples processed before are not counted for them. Remove the query, or start it "
                    "with a new checkpoint."
                )
            else:
                self.joining.append(query.name)


SHARD = IncompleteShard


def _without_filter(query: IncompleteTopK) -> IncompleteTopK:
    """Return the query without `where`: filtered rows are already dropped."""
    return IncompleteTopK(**{**query.to_dict(), "where": None})


def merged(plan: IncompletePlan, tables: Sequence[pa.Table]) -> pa.Table:
    """Merge the answers of all shards: the top k per query and time, by score, then last seen, then object."""
    table = pa.concat_tables(tables)
    order = [("time", "ascending"), ("place", "ascending")]
    order += [(name, "descending") for name in ("score", "last", "object")]
    table = table.take(pc.sort_indices(table, order))
    moments, places = table["time"].to_numpy(), table["place"].to_numpy()
    first = np.ones(table.num_rows, bool)
    first[1:] = (moments[1:] != moments[:-1]) | (places[1:] != places[:-1])
    begins = np.flatnonzero(first)
    ranks = np.arange(table.num_rows) - np.repeat(begins, np.diff(begins, append=table.num_rows)) + 1
    ks = np.array([query.k for query in plan.queries])
    table = table.set_column(table.column_names.index("rank"), "rank", pa.array(ranks))
    return table.filter(pa.array(ranks <= ks[places]))
