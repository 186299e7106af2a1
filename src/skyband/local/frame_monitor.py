"""Continuous queries over data frames that are pushed one after another, for all families.

A family's monitor becomes one of these when it is created with `time`: see `MonitorBase.__new__`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.answers import Answers
from skyband.data.arrow import one
from skyband.errors import InvalidInputError
from skyband.local.frames import as_table, is_frame
from skyband.local.pipeline import Counts, LocalPlan, plan_for
from skyband.local.replay import in_order
from skyband.monitor import MonitorBase, Q
from skyband.queries.workload import Workload, of_family
from skyband.sharding.projection import ProjectionRequest
from skyband.sharding.shard import MemorySegments, Shard, shard_type
from skyband.snapshot import StateFormat

__all__ = ["FrameMonitorBase"]


class FrameMonitorBase(MonitorBase[Q, pa.Table]):
    """Answers queries over data frames. Their expressions are evaluated over the columns of each frame."""

    state_format = StateFormat("frame monitor", [])

    def __init__(
        self,
        queries: Q | Iterable[Q] | Workload[Q],
        algorithm: str = "auto",
        *,
        time: str,
        id: str | None = None,  # noqa: A002 - the name that Spark's calls have for it
    ) -> None:
        self._workload = of_family(queries, self.asks, self._family().monitor)
        MonitorBase.__init__(self, self._workload.axis, computed=True)  # not that of arrays
        self._algorithm, self._time, self._id = algorithm, time, id
        self._plan: LocalPlan | None = None  # follows from the columns of the first frame
        self._schema: pa.Schema | None = None
        self._shards: list[Shard] = []
        self._counts = Counts()
        self._held: dict[int, int] = {}  # by shard: how many rows, tuples or partials it stores

    @property
    def candidates(self) -> int:
        """The number of rows, tuples or partials that are stored."""
        return sum(self._held.values())

    def push(self, frame: Any, *rest: Any, **named: Any) -> None:
        """Take the rows of a data frame: Arrow, pandas, polars, DuckDB, or a mapping of names to columns.

        Rows within a frame may have any order. No row may be older than the newest row of earlier frames.
        """
        self._refuse_after_end()
        if rest or named or not is_frame(frame):
            raise InvalidInputError(
                f"this monitor was created with time={self._time!r}, so push() takes one data frame and nothing else. "
                "Create a monitor without time= to push arrays."
            )
        table = self._fitting(as_table(frame))
        plan = self._planned(table.schema)
        newest = self._newest(table)
        counts = Counts()
        arrived = list(plan.envelopes([table], counts))
        self._take(counts)
        self._intake.newest = newest
        for shard in self._shards:
            mine = [envelope for envelope in arrived if envelope.shard == shard.number]
            self._step(shard, [one.rows for one in mine], [one.note for one in mine])

    def advance_to(self, position: Any) -> None:
        """Move time forward without a row: answers that are due at or before `position` become final."""
        self._refuse_after_end()
        self._intake.newest, _ = self._intake.check_time(position)
        self._move_time()

    def answers(self) -> Any:
        """Return what has become final since the last call, by time, query, group and rank."""
        return Answers(super().answers())

    def snapshot(self) -> bytes:
        """Return the monitor as bytes, including answers not yet fetched."""
        self._put_aside()
        return super().snapshot()

    def metrics(self) -> dict[str, Any]:
        """Return counts: rows pushed, dropped and pruned, windows answered, and what is stored."""
        return {**asdict(self._counts), "candidates": self.candidates, "queries": len(self.queries)}

    def _fitting(self, table: pa.Table) -> pa.Table:
        """Return the frame with the columns of the first one, in their order."""
        if self._schema is None:
            return table
        missing = [name for name in self._schema.names if name not in table.column_names]
        new = [name for name in table.column_names if name not in self._schema.names]
        if missing or new:
            what = f"lacks {missing}" if missing else f"has the new columns {new}"
            raise InvalidInputError(
                f"the data frame {what}; the first one had {self._schema.names}. Answers return whole rows, so all "
                "frames must have the same columns. This push was rejected."
            )
        table = table.select(self._schema.names)
        for field, before in zip(table.schema, self._schema, strict=True):
            if field.type != before.type and not pa.types.is_null(field.type):
                raise InvalidInputError(
                    f"column {field.name!r} changed type from {before.type} to {field.type}; this push was rejected. "
                    "Cast the column to one type."
                )
        return table.cast(self._schema)

    def _planned(self, schema: pa.Schema) -> LocalPlan:
        if self._plan is None:
            self._plan = plan_for(schema, self._request(self._workload))
            self._schema = schema
            self._shards = [self._plan.shard(number) for number in range(self._plan.plan.units)]
        return self._plan

    def _request(self, workload: Workload[Q]) -> ProjectionRequest:
        return ProjectionRequest(workload, self._time, self._id, self._algorithm)

    def _newest(self, table: pa.Table) -> int | None:
        """Return the newest position after this frame; a frame with an older row is rejected."""
        name = next(name for name in table.column_names if name.lower() == self._time.lower())
        ends = pc.min_max(one(table[name]).cast(pa.int64()))
        oldest, newest = ends["min"].as_py(), ends["max"].as_py()
        before = self._intake.newest
        if oldest is None:
            return before
        if before is not None and oldest < before:
            raise InvalidInputError(
                f"times must not decrease from one frame to the next, got a row at {oldest} after {before} "
                "(microseconds). Windows up to there may already be answered, so this push was rejected."
            )
        self._intake.position_kind = table.schema.field(name).type
        return int(newest)

    def _take(self, counts: Counts) -> None:
        for name, value in asdict(counts).items():
            setattr(self._counts, name, getattr(self._counts, name) + value)

    def _step(self, shard: Shard, tables: list[pa.Table], notes: list[Any], *, end: bool = False) -> None:
        found, tally = shard.step(tables, notes, None, next_watermark=self._intake.newest, end=end)
        counts = Counts()
        counts.add_step(tally)
        self._take(counts)
        self._held[shard.number] = tally.candidates
        plan = self._plan
        if plan is not None:
            answers = [(shard.number, plan.first_end(table), table) for table in found if table.num_rows]
            self._pending += list(plan.merged(answers))

    def _move_time(self) -> None:
        for shard in self._shards:
            self._step(shard, [], [])

    def _end(self, beyond: int) -> None:
        for shard in self._shards:
            self._step(shard, [], [], end=True)

    def finish(self) -> None:
        """End the stream: every window that contains a row is answered. Fetch the answers with `answers`."""
        if not self._finished:
            self._finished = True
            self._end(0)

    def _table(self, pending: list[pa.Table]) -> pa.Table:
        return pa.table({}) if self._plan is None else in_order(self._plan, pending)

    def _refuse_unknown_groups(self, query: Q) -> None:
        """Groups are computed from the rows, so a query may have any."""

    def _add(self, query: Q, after: Workload[Q]) -> None:
        self._change(after)
        starts = [shard.since[query.name] for shard in self._shards if query.name in shard.since]
        if starts:
            self._valid_from[query.name] = query.window.first_end_from(max(starts))

    def _remove(self, name: str, after: Workload[Q]) -> None:
        self._change(after)

    def _change(self, after: Workload[Q]) -> None:
        """Continue with other queries, from the rows that are stored."""
        if self._plan is not None and self._schema is not None:
            plan = plan_for(self._schema, self._request(after))
            shards = self._carried_over(self._plan, plan)
            self._put_aside()
            self._plan, self._shards, self._held = plan, shards, {}
            self._move_time()
        self._workload = after

    def _carried_over(self, old: LocalPlan, new: LocalPlan) -> list[Shard]:
        """Return the shards of another plan with the state of those that read the same of a row."""
        before = dict(zip(old.unit_names, self._shards, strict=True))
        found = []
        for number, name in enumerate(new.unit_names):
            shard = before.get(name)
            if shard is None:
                shard = new.shard(number)
                shard.newest = max((other.newest for other in self._shards), default=shard.newest)
                shard.joining = [query.name for query in new.plan.queries]
            else:
                shard = shard_type(new.plan).resume(new.plan, number, shard.state(), shard.segments)
            shard.begin_queries(None)
            found.append(shard)
        return found

    def _state(self) -> dict[str, Any]:
        return {
            "frames": True,
            "algorithm": self._algorithm,
            "time": self._time,
            "id": self._id,
            "schema": None if self._schema is None else self._schema.serialize().to_pybytes(),
            "shards": [shard.state() for shard in self._shards],
            "segments": [dict(shard.segments) for shard in self._shards],  # type: ignore[call-overload]
            "counts": asdict(self._counts),
            "held": [self._held.get(shard.number, 0) for shard in self._shards],
        }

    @classmethod
    def _made(cls, queries: list[Q], saved: dict[str, Any]) -> Self:
        return cls(queries, saved["algorithm"], time=saved["time"], id=saved["id"])

    def _load(self, saved: dict[str, Any]) -> None:
        self._counts = Counts(**saved["counts"])
        if saved["schema"] is None:
            return
        plan = self._planned(pa.ipc.read_schema(pa.py_buffer(saved["schema"])))
        kind = shard_type(plan.plan)
        self._shards = [
            kind.resume(plan.plan, number, blob, MemorySegments({int(at): data for at, data in segments.items()}))
            for number, (blob, segments) in enumerate(zip(saved["shards"], saved["segments"], strict=True))
        ]
        self._held = dict(enumerate(saved["held"]))
