"""Incomplete streams in shards: tuples go to the shard of their object, wait there until time has passed them, and are
ranked in stream order. The best of a shard are not the best of all: answers of shards are merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import one
from skyband.errors import InvalidInputError, SnapshotError, UnknownNameError
from skyband.incomplete.monitor import Monitor
from skyband.incomplete.plan import GatheringPlan, Told
from skyband.incomplete.query import IncompleteTopK
from skyband.sharding.envelope import MILLISECOND, Envelope, Note
from skyband.sharding.grouping import group_rows, shard_of_groups
from skyband.sharding.ordered_shard import Sequencing
from skyband.sharding.row_order import positions_of
from skyband.windows import ALWAYS, NEVER

__all__ = ["TIME", "Gathering", "columns_of", "gather_rows", "merged"]

TIME, ID = "__skyband_time", "__skyband_id"
COUNTING_SHARD = 0


def columns_of(number: int) -> tuple[str, str, str]:
    """The columns that tell a row's object, stream and value to the queries that read the same of it."""
    return f"__skyband_object_{number}", f"__skyband_stream_{number}", f"__skyband_value_{number}"


def gather_rows(plan: GatheringPlan, batches: Iterable[pa.RecordBatch]) -> Iterator[Envelope]:
    """A task's rows as tuples, addressed to the shards of their objects.

    Every shard gets a note with every batch, so that all of them know how far the stream has come.
    """
    for batch in batches:
        if not batch.num_rows:
            continue
        table = pa.Table.from_batches([batch])
        timed = table.filter(pc.is_valid(table[TIME]))
        positions = positions_of(timed, TIME)
        left_out = np.zeros(timed.num_rows, bool)
        parts = []
        for number, told in enumerate(plan.told):
            tuples, lacking = _tuples(plan, number, told, timed, positions)
            left_out |= lacking
            parts.append(tuples)
        tuples = pa.concat_tables(parts)
        newest = int(positions.max(initial=ALWAYS))
        note = Note(newest, int(positions.min(initial=NEVER)), None, {})
        homes = _homes(plan, tuples)
        counts = (table.num_rows, table.num_rows - timed.num_rows + int(left_out.sum()), 0)
        for shard in range(plan.shards):
            mine = tuples if plan.shards == 1 else tuples.filter(pa.array(homes == shard))
            yield Envelope(shard, mine, note, *(counts if shard == COUNTING_SHARD else (0, 0, 0)))


def _tuples(plan: GatheringPlan, number: int, told: Told, table: pa.Table, positions: Any) -> tuple[pa.Table, Any]:
    """What the rows tell some queries, and which rows lack something; rows that the filter removes tell nothing."""
    names = columns_of(number)
    objects, streams, values = (one(table[name]) for name in names)
    asked = values.is_valid().to_numpy(zero_copy_only=False)  # null: the filter; NaN: there is no value
    numbers = values.fill_null(np.nan).to_numpy(zero_copy_only=False)
    there = objects.is_valid().to_numpy(zero_copy_only=False) & streams.is_valid().to_numpy(zero_copy_only=False)
    whole = there & ~np.isnan(numbers)
    places = [plan.queries[place] for place in told.places]
    for query in places:
        _refuse_outside(query, numbers[whole])
    codes = _stream_codes(places[0], streams)
    rows = pa.array(np.flatnonzero(whole))
    tuples = pa.table(
        {
            "told": pa.array(np.full(len(rows), number), pa.int32()),
            "position": pa.array(positions[whole]),
            "id": one(table[ID]).take(rows),
            "object": objects.take(rows),
            "stream": pa.array(codes[whole]),
            "value": pa.array(numbers[whole]),
        }
    )
    return tuples, asked & ~whole


def _refuse_outside(query: IncompleteTopK, numbers: Any) -> None:
    low, high = query.bounds
    outside = (numbers < low) | (numbers > high)
    if outside.any():
        raise InvalidInputError(
            f"query {query.name!r}: a value of {numbers[np.argmax(outside)]} is outside bounds={query.bounds}; how far "
            "a score can rise would be judged wrongly. Widen the bounds, or leave such rows out with where=."
        )


def _stream_codes(query: IncompleteTopK, streams: pa.Array) -> Any:
    declared = [str(name) for name in query.streams or ()]
    encoded = streams.dictionary_encode()
    known = np.full(len(encoded.dictionary) + 1, -1, np.int64)
    for code, name in enumerate(encoded.dictionary.to_pylist()):
        if name not in declared:
            raise UnknownNameError.among(f"stream (of query {query.name!r})", name, declared)
        known[code] = declared.index(name)
    return known[encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)]


def _homes(plan: GatheringPlan, tuples: pa.Table) -> Any:
    grouping = group_rows(tuples, ["object"])
    return shard_of_groups(tuples, ["object"], grouping, plan.shards)[grouping.codes]


class Gathering(Sequencing):
    """The part of a workload's state that some objects live in."""

    order = ("id", "stream", "value")

    def __init__(self, plan: GatheringPlan, number: int) -> None:
        super().__init__(plan, number)
        self.monitors = [Monitor(_without_filter(query), lasts=True, computed=True) for query in plan.queries]
        self.since: dict[str, int] = {}  # by query that joined later: the smallest window start it answers for
        self._joining: list[str] = []

    @property
    def held(self) -> int:
        return sum(monitor.candidates for monitor in self.monitors)

    @property
    def too_often(self) -> int:
        return sum(monitor.metrics()["too_often"] for monitor in self.monitors)

    def end_of_stream(self) -> int:
        return int(max(query.window.size for query in self.plan.queries))

    def dues(self) -> Iterator[int]:
        oldest = self.oldest_waiting
        for query, monitor in zip(self.plan.queries, self.monitors, strict=True):
            if monitor.candidates:
                yield query.window.first_end_after(self.clock)
            if oldest is not None:
                yield query.window.first_end_after(max(oldest, self.clock))

    def hand_on(self, ready: pa.Table | None) -> list[pa.Table]:
        out = []
        for number, told in enumerate(self.plan.told):
            mine = None if ready is None else ready.filter(pc.equal(ready["told"], number))
            for place in told.places:
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

    def settle(self, watermark: int | None) -> None:
        """A query that joins is exact from the first window on that begins after all that was seen."""
        seen = self.newest
        if watermark is not None:
            seen = max(seen, watermark + self.plan.delay + MILLISECOND - 1)
        if seen != ALWAYS:
            self.since |= dict.fromkeys(self._joining, seen + 1)
        self._joining = []

    def inner_state(self) -> dict[str, Any]:
        return {
            "queries": [query.to_dict() for query in self.plan.queries],
            "since": self.since,
            "monitors": [monitor.snapshot() for monitor in self.monitors],
        }

    def inner_load(self, state: dict[str, Any]) -> None:
        known = {
            fields["name"]: (IncompleteTopK(**fields), blob)
            for fields, blob in zip(state["queries"], state["monitors"], strict=True)
        }
        for place, query in enumerate(self.plan.queries):
            before = known.get(query.name)
            if before is not None and before[0] == query:
                self.monitors[place] = Monitor.resume(before[1])
                if query.name in state["since"]:
                    self.since[query.name] = state["since"][query.name]
            elif self.plan.axis == "count":
                raise SnapshotError(
                    f"query {query.name!r} is new to this checkpoint, and tuples that have gone are not counted anew "
                    "for it: its windows would be wrong. Remove it, or start it with a new checkpoint."
                )
            else:
                self._joining.append(query.name)


def _without_filter(query: IncompleteTopK) -> IncompleteTopK:
    """The query as it is asked of tuples: rows that its filter removes have become none."""
    return IncompleteTopK(**{**query.to_dict(), "where": None})


def merged(plan: GatheringPlan, tables: Sequence[pa.Table]) -> pa.Table:
    """The answers of all shards in one: of each query and moment the k best, by score, then seen last, then object."""
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
