"""A stream of a local job whose state is stored: resumed when it starts, committed after each micro-batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Self

import pyarrow as pa

from skyband.connectors.arrow.rows import LocalRows
from skyband.durations import parse_duration
from skyband.errors import SnapshotError
from skyband.jobs.history import LoggedPast, refuse_without_past
from skyband.jobs.local_state import FolderSegments, LocalCheckpoint
from skyband.jobs.local_stream import LocalStream
from skyband.local.micro_batches import MicroBatches
from skyband.local.pipeline import plan_for
from skyband.queries.families import family_of, refuse_unsupported
from skyband.sharding.delivery import Wanted, check_servers, prepare_servers, refuse_newer_batches
from skyband.sharding.envelope import MILLISECOND
from skyband.sharding.plan import source_columns
from skyband.sharding.projection import ProjectionRequest
from skyband.snapshot import resuming
from skyband.spark.checkpoint_lock import OutputLocks
from skyband.windows import ALWAYS
from skyband.workload_file import WorkloadFile

__all__ = ["StoredStream"]


class StoredStream(LocalStream):
    """A stream with micro-batches, which continue from the stored state."""

    engine: MicroBatches  # set when the plan is checked
    state_bytes = 0  # of the last commit
    changed_past: Mapping[str, int] | None = None  # of a change of queries: those whose past is read, and how much

    def __init__(
        self, file: WorkloadFile, name: str, watchers: Sequence[Wanted], locks: OutputLocks, *, fresh: bool
    ) -> None:
        self.checkpoint = LocalCheckpoint(file.checkpoint_of(name), fresh=fresh)
        self._saved: dict[str, Any] | None = None
        super().__init__(file, name, watchers, locks, fresh=fresh)

    def check_state(self) -> bool:
        """Read the state of earlier runs, and check that it is not older than the answers in the folders."""
        self._saved = self.checkpoint.read()
        last = self.checkpoint.log.last
        if self._saved is not None:
            refuse_newer_batches(
                self.folders, self.name, self.checkpoint.checkpoint, lambda _: -1 if last is None else last.number
            )
        return self._saved is not None

    def known_columns(self) -> pa.Schema | None:
        """Return the columns of the files when the stream first started; those files may no longer exist."""
        if self._saved is None:
            return None
        with resuming():
            return pa.ipc.read_schema(pa.py_buffer(self._saved["schema"]))

    def request(self) -> ProjectionRequest:
        """Return what concerns single rows, with the watermark and the handling of late rows."""
        refused = self.file.engine.late == "refuse"
        self._delay = -(-parse_duration(self.stream.watermark, field="watermark") // MILLISECOND) * MILLISECOND
        if refused:
            refuse_unsupported(family_of(self.workload), "rejecting late rows", f"late={self.file.engine.late!r}")
        return super().request()._replace(may_be_late=not refused, refuse_late=refused, delay=self._delay)

    def check_plan(self) -> None:
        """Resume the shards, or reject a workload that cannot continue from the stored state."""
        before = {} if self._saved is None else self._saved["description"]
        for what, value in self._description.items() if before else ():
            if what in before and not _agree(before[what], value, partly=self.plan.plan.has_shards_by_scan):
                raise SnapshotError(
                    f"checkpoint {self.checkpoint.checkpoint!r} was written with {what}={before[what]!r} and cannot be "
                    f"resumed with {what}={value!r}. Restore the previous value, use another checkpoint, or start over "
                    "with --fresh."
                )
        known = self._saved or {"watermark": None, "newest": ALWAYS, "units": []}
        with resuming():
            units = known["units"]
            stored = {unit["name"]: (unit["state"], self.checkpoint.segments(unit["segments"])) for unit in units}
            watermark, newest = known["watermark"], known["newest"]
        self.engine = MicroBatches(
            self.plan,
            self.rows.time,
            self._delay,
            watermark=watermark,
            newest=newest,
            stored=stored,
            segments_of_new=self.checkpoint.segments,
            past=self.past,
        )
        refuse_without_past(self.plan, self.missing_past())

    @property
    def past(self) -> Mapping[str, int]:
        """The queries whose past is read if the stored state does not have them, and how much of it."""
        return self.file.since if self.changed_past is None else self.changed_past

    def missing_past(self) -> dict[str, int]:
        """Return the queries that the stored state does not have and whose past is to be read; and how much of it."""
        return {name: self.past[name] for name in self.engine.joined if name in self.past}

    def history(self, past: Mapping[str, int]) -> LoggedPast:
        """Return the reader of what these queries lack."""
        rows = LocalRows(self.name, self.stream, known=self.rows.reader.schema)
        return LoggedPast(rows, self.plan, self._delay, past, self.checkpoint.log.path)

    def planned(self, file: WorkloadFile, past: Mapping[str, int]) -> Self:
        """Return the stream with the queries of another file, without a state. This stream is unchanged.

        `past` names added queries whose past is read.
        """
        other = copy(self)
        other.changed_past = past
        other.file, other.workload = file, file.workloads[self.name]
        other.plan = plan_for(other.rows.schema, other.request(), rank=pa.int32())
        return other

    def switch(self, other: Self, history: LoggedPast | None, number: int) -> None:
        """Continue with the queries of `other` after the batch `number`. If this fails, nothing has changed."""
        other._saved = self.checkpoint.read()
        other.check_plan()
        check_servers(self.outputs.wanted, other.workload, self.output, other.plan.empty())
        prepare_servers(self.outputs.wanted, other.workload, self.output, other.plan.empty(), kept=True)
        if history is not None:
            history.read(number)
            history.join(other.engine, self.checkpoint.segments)
        other.commit(number)
        self.file, self.workload, self.plan, self.engine = other.file, other.workload, other.plan, other.engine

    def open_checkpoint(self) -> int:
        """Store the first state, or remove what a killed run left; return the number of the last complete batch."""
        self.checkpoint.open()
        if self._saved is None:
            self.commit(-1)
            return -1
        committed = [name for unit in self._saved["units"] for name in unit["segments"].values()]
        current = [name for shard in self.engine.shards for name in _segments(shard).stored.values()]
        self.checkpoint.sweep([*committed, *current])
        return int(self._saved["batch"])

    def commit(self, number: int) -> None:
        """Store the state after a micro-batch; afterwards the batch is not repeated."""
        units = [
            {
                "name": name,
                "state": shard.state(),  # writes segments
                "segments": {str(at): file for at, file in _segments(shard).stored.items()},
            }
            for name, shard in zip(self.plan.unit_names, self.engine.shards, strict=True)
        ]
        self.state_bytes = self.checkpoint.commit(
            {
                "batch": number,
                "description": self._description,
                "schema": self.rows.reader.schema.serialize().to_pybytes(),
                "watermark": self.engine.watermark,
                "newest": self.engine.newest,
                "units": units,
            }
        )
        for shard in self.engine.shards:
            segments = _segments(shard)
            self.checkpoint.remove_segments(segments.stale)
            segments.stale = []

    @property
    def _description(self) -> dict[str, Any]:
        """What a stored state must agree with, beside the checks of the shards."""
        plan = self.plan.plan
        return {
            "family": plan.family,
            "axis": plan.axis,
            "columns": dict(self.plan.types),
            **source_columns(plan, str(self.stream.time), self.stream.id),
        }


def _segments(shard: Any) -> FolderSegments:
    segments: FolderSegments = shard.segments
    return segments


def _agree(before: Any, now: Any, *, partly: bool) -> bool:
    """Return whether a stored value agrees with the current one; `partly`: types of columns that both have."""
    if partly and isinstance(before, dict):
        return all(now[name] == kind for name, kind in before.items() if name in now)
    return bool(before == now)
