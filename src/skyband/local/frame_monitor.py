"""Continuous queries over data frames that are pushed one after another, for all families.

A family's monitor becomes one of these when it is created with `time`: see `MonitorBase.__new__`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.answers import Answers
from skyband.data.arrow import one
from skyband.errors import InvalidInputError, SkybandError, UnsupportedError
from skyband.local.arrow_source import ArrowSource
from skyband.local.frames import as_table, frames_by_name, is_frame
from skyband.local.pipeline import ANSWER_KINDS, Counts, DeleteCounts, LocalPlan, plan_for, refuse_unsupported_frames
from skyband.local.replay import in_order
from skyband.monitor import MonitorBase, Q
from skyband.queries.workload import Workload
from skyband.sharding.envelope import Envelope
from skyband.sharding.projection import ProjectionRequest
from skyband.sharding.shard import MemorySegments, Shard, shard_type
from skyband.snapshot import StateFormat
from skyband.windows import ALWAYS

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
        **arrays_only: Any,
    ) -> None:
        for name, value in arrays_only.items():
            raise UnsupportedError(
                f"{name}={value!r} is not supported by a monitor with time={time!r}, which takes data frames. Omit it, "
                "or create the monitor without time= and push arrays."
            )
        self._workload = self._checked(queries, computed=True)
        refuse_unsupported_frames(self._workload, algorithm)
        MonitorBase.__init__(self, self._workload.axis, computed=True)  # not that of arrays
        self._algorithm, self._time, self._id = algorithm, time, id
        self._plan: LocalPlan | None = None  # follows from the columns of the first frame
        self._frame_schema: pa.Schema | None = None
        self._shards: list[Shard] = []
        self._counts = self._new_counts()
        self._held: dict[int, int] = {}  # by shard: how many rows, tuples or partials it stores

    @property
    def _workload(self) -> Workload[Q]:
        return self._asked

    @_workload.setter
    def _workload(self, workload: Workload[Q]) -> None:
        self._asked = workload

    @property
    def candidates(self) -> int:
        """The number of rows, tuples or partials that are stored."""
        return sum(self._held.values())

    def push(self, frame: Any, *rest: Any, **named: Any) -> None:
        """Take the rows of a data frame: Arrow, pandas, polars, DuckDB, or a mapping of names to columns.

        Rows within a frame may have any order. No row may be older than the newest row of earlier frames. A rejected
        push changes nothing.
        """
        self._refuse_after_end()
        if rest or named or not is_frame(frame):
            raise InvalidInputError(
                f"this monitor was created with time={self._time!r}, so push() takes one data frame and nothing else. "
                "Create a monitor without time= to push arrays."
            )
        if frames_by_name(frame) is not None:
            raise InvalidInputError(
                f"push() takes one data frame, got a dict of {len(frame)} data frames. Add a column with the name of "
                "the stream and push them as one frame, or use replay(), which takes one frame for each stream."
            )
        table = self._fitting(as_table(frame))
        plan = self._plan
        if plan is None:
            plan = plan_for(table.schema, self._request(self._workload), rows=table)
        newest = self._newest(table)
        counts = self._new_counts()
        arrived = list(plan.envelopes([plan.project(table)], counts))
        shards = self._shards if self._plan is not None else _new_shards(plan)
        self._step(plan, shards, arrived, newest)
        self._take(counts)
        self._frame_schema = table.schema
        self._intake.rows += table.num_rows
        if newest is not None:
            self._intake.position_kind = table.schema.field(self._time_column(table)).type

    def advance_to(self, position: Any) -> None:
        """Move time forward without a row: answers that are due at or before `position` become final."""
        self._refuse_after_end()
        if isinstance(position, datetime) and position.tzinfo is not None:
            position = position.astimezone(UTC)  # frames have instants in UTC
        newest, _ = self._intake.check_time(position)
        if self._plan is None:
            self._intake.newest = newest
        else:
            self._step(self._plan, self._shards, [], newest)

    def answers(self) -> Any:
        """Return what has become final since the last call, by time, query, group and rank."""
        return Answers(super().answers())

    def so_far(self) -> Any:
        """Return the answers of open windows from the rows so far; see `MonitorBase.so_far`."""
        return MonitorBase.so_far(self)

    def _marked(self, table: Any) -> Any:
        return Answers(MonitorBase._marked(self, table))

    def add(self, query: Q) -> Any:
        """Add a query to the running stream; see `MonitorBase.add`."""
        return MonitorBase.add(self, query)

    def snapshot(self) -> bytes:
        """Return the monitor as bytes, including answers not yet fetched."""
        self._put_aside()
        return super().snapshot()

    def metrics(self) -> dict[str, Any]:
        """Return counts: rows pushed, dropped and pruned, windows answered, and what is stored."""
        return {**asdict(self._counts), "candidates": self.candidates, "queries": len(self.queries)}

    def _fitting(self, table: pa.Table) -> pa.Table:
        """Return the frame with the columns of the first one, in their order."""
        if self._frame_schema is None:
            return table
        ArrowSource(table.schema, ())  # rejects names that are not unique
        missing = [name for name in self._frame_schema.names if name not in table.column_names]
        new = [name for name in table.column_names if name not in self._frame_schema.names]
        if missing or new:
            what = f"lacks {missing}" if missing else f"has the new columns {new}"
            raise InvalidInputError(
                f"the data frame {what}; the first one had {self._frame_schema.names}. Answers return whole rows, so "
                "all frames must have the same columns. This push was rejected."
            )
        table = table.select(self._frame_schema.names)
        for field, before in zip(table.schema, self._frame_schema, strict=True):
            if field.type != before.type and not pa.types.is_null(field.type):
                raise InvalidInputError(
                    f"column {field.name!r} changed type from {before.type} to {field.type}; this push was rejected. "
                    "Cast the column to one type."
                )
        return table.cast(self._frame_schema)

    def _request(self, workload: Workload[Q]) -> ProjectionRequest:
        return ProjectionRequest(workload, self._time, self._id, self._algorithm)

    def _newest(self, table: pa.Table) -> int | None:
        """Return the newest position after this frame; a frame with an older row is rejected."""
        ends = pc.min_max(one(table[self._time_column(table)]).cast(pa.int64()))
        oldest, newest = ends["min"].as_py(), ends["max"].as_py()
        before = self._intake.newest
        if oldest is None:
            return before
        if before is not None and oldest < before:
            raise InvalidInputError(
                f"times must not decrease from one frame to the next, got a row at {oldest} after {before} "
                "(microseconds). Windows up to there may already be answered, so this push was rejected."
            )
        return int(newest)

    def _time_column(self, table: pa.Table) -> str:
        return str(next(name for name in table.column_names if name.lower() == self._time.lower()))

    def _new_counts(self) -> Counts:
        deletes = any(getattr(query, "delete", None) is not None for query in self._workload)
        return DeleteCounts() if deletes else Counts()

    def _take(self, counts: Counts) -> None:
        for name, value in asdict(counts).items():
            setattr(self._counts, name, getattr(self._counts, name, 0) + value)

    def _step(
        self,
        plan: LocalPlan,
        shards: list[Shard],
        arrived: list[Envelope],
        newest: int | None,
        *,
        end: bool = False,
    ) -> None:
        """Step the shards to a newest position, and keep what they answer. Rejected rows change nothing."""
        counts, held, pending = self._new_counts(), {}, []
        rejects = any(shard.may_reject for shard in shards)
        before = [(shard.state(), dict(shard.segments)) for shard in shards] if rejects else []  # type: ignore[call-overload]
        for shard in shards:
            mine = [envelope for envelope in arrived if envelope.shard == shard.number]
            try:
                found, tally = shard.step(
                    [one.rows for one in mine], [one.note for one in mine], None, next_watermark=newest, end=end
                )
            except SkybandError:
                if self._plan is not None:
                    for number, (blob, segments) in enumerate(before):
                        kept = MemorySegments(segments)
                        self._shards[number] = type(shards[number]).resume(plan.plan, number, blob, kept)
                raise
            answers = [(shard.number, plan.first_end(table), table) for table in found if table.num_rows]
            merged = list(plan.merged(answers, counts))  # counts windows, if the answers of shards are merged
            counts.add_step(tally, with_windows=not plan.plan.compares_merged)
            held[shard.number] = tally.candidates
            pending += merged
        self._plan, self._shards, self._held = plan, shards, held
        self._pending += pending
        self._intake.newest = newest
        self._take(counts)

    def _move_time(self) -> None:
        if self._plan is not None:
            self._step(self._plan, self._shards, [], self._intake.newest)

    def finish(self) -> None:
        """End the stream: every window that contains a row is answered. Fetch the answers with `answers`."""
        if not self._finished:
            if self._plan is not None:
                self._step(self._plan, self._shards, [], self._intake.newest, end=True)
            self._finished = True

    def _table(self, pending: list[pa.Table]) -> pa.Table:
        if self._plan is not None:
            return in_order(self._plan, pending)
        # Before the first frame: the columns that every answer has. Types that the rows determine are unknown.
        columns = [column for column in self._family().answers.columns if not column.optional]
        return pa.schema([(column.name, ANSWER_KINDS.get(column.kind, pa.null())) for column in columns]).empty_table()

    def _settle(self) -> None:
        """New answers are pending as soon as a step has found them."""

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
        if self._plan is not None and self._frame_schema is not None:
            plan = plan_for(self._frame_schema, self._request(after))
            stored = dict(zip(self._plan.unit_names, self._shards, strict=True))
            newest = max((shard.newest for shard in self._shards), default=ALWAYS)
            shards = plan.resumed({name: (shard.state(), shard.segments) for name, shard in stored.items()}, newest)
            for shard in shards:
                shard.begin_queries(None)
            self._put_aside()
            self._plan, self._shards, self._held = plan, shards, {}
            self._move_time()
        self._workload = after

    def _state(self) -> dict[str, Any]:
        return {
            "frames": True,
            "algorithm": self._algorithm,
            "time": self._time,
            "id": self._id,
            "schema": None if self._frame_schema is None else self._frame_schema.serialize().to_pybytes(),
            "shards": [shard.state() for shard in self._shards],
            "segments": [dict(shard.segments) for shard in self._shards],  # type: ignore[call-overload]
            "counts": asdict(self._counts),
            "held": [self._held.get(shard.number, 0) for shard in self._shards],
        }

    @classmethod
    def _made(cls, queries: list[Q], saved: dict[str, Any]) -> Self:
        return cls(queries, saved["algorithm"], time=saved["time"], id=saved["id"])

    def _load(self, saved: dict[str, Any]) -> None:
        self._counts = type(self._new_counts())(**saved["counts"])
        if saved["schema"] is None:
            return
        self._frame_schema = pa.ipc.read_schema(pa.py_buffer(saved["schema"]))
        self._plan = plan = plan_for(self._frame_schema, self._request(self._workload))
        stored = zip(saved["shards"], saved["segments"], strict=True)
        for number, (blob, segments) in enumerate(stored):
            kept = MemorySegments({int(at): data for at, data in segments.items()})
            self._shards.append(shard_type(plan.plan, number).resume(plan.plan, number, blob, kept))
        self._held = dict(enumerate(saved["held"]))


def _new_shards(plan: LocalPlan) -> list[Shard]:
    return [plan.shard(number) for number in range(plan.plan.units)]
