"""One stream of a local job: its files, its queries and its sinks. A bounded input is answered at its end."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from time import monotonic
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from skyband.connectors.arrow.batches import FileRows
from skyband.connectors.arrow.rows import LocalRows
from skyband.connectors.dead_folder import LARGEST_LETTER, LocalDeadFolder
from skyband.connectors.files import FilesSource
from skyband.connectors.row_identity import ends_of
from skyband.jobs.local_state import has_local_state, has_spark_state
from skyband.jobs.outputs import Mode, discard, open_outputs, refuse_foreign_files, refuse_undiscardable
from skyband.local.pipeline import plan_for
from skyband.local.replay import in_order
from skyband.queries.families import family_of, refuse_unsupported
from skyband.sharding.delivery import (
    Folder,
    Wanted,
    check_servers,
    clear_servers,
    has_old_scores,
    output_of,
    parts_of,
    prepare_servers,
    servers_among,
)
from skyband.sharding.projection import ProjectionRequest
from skyband.spark.checkpoint_lock import OutputLocks
from skyband.workload_file import WorkloadFile

__all__ = ["BoundedStream", "LocalStream", "StoppedError"]

PART_ROWS = 500_000  # answer rows that sinks receive at a time, as on Spark


class StoppedError(Exception):
    """The job was stopped before its end."""


class LocalStream:
    """A stream and the receivers of its answers. Creating it validates all of it, reads no rows and changes nothing."""

    mode: ClassVar[Mode] = "once"

    def __init__(
        self, file: WorkloadFile, name: str, watchers: Sequence[Wanted], locks: OutputLocks, *, fresh: bool
    ) -> None:
        self.name, self.file = name, file
        stream, self.workload = file.streams[name], file.workloads[name]
        assert isinstance(stream, FilesSource)  # the job rejects other sources
        self.stream = stream
        self.outputs = open_outputs(lambda: self.file, name, None, watchers, has_state=self.mode != "once")
        self.output = output_of(self.outputs.wanted)
        dead = stream.dead_letter_folder
        self.dead = None if dead is None else LocalDeadFolder(dead, name, LARGEST_LETTER)
        places = (*(one.outlet for one in self.outputs.wanted), self.dead)
        self.folders = [place for place in places if isinstance(place, Folder)]
        self.is_fresh = fresh
        locks.take(self.folders)
        for server in servers_among(self.outputs.wanted):
            server.reach()
        self._has_state = not fresh and self.check_state()
        if fresh:
            refuse_undiscardable(file.checkpoint_of(name), self.folders)
        else:
            refuse_foreign_files(self.folders, name, has_state=self._has_state, mode=self.mode)
        self.rows = LocalRows(name, stream, known=self.known_columns())
        self.plan = plan_for(self.rows.schema, self.request(), rank=pa.int32())
        self.check_plan()
        check_servers(self.outputs.wanted, self.workload, self.output, self.plan.empty())
        self.counts, self.read, self.malformed, self.unreadable = self.plan.counts(), 0, 0, 0
        self.answers = self.batches = 0
        self.seconds = 0.0

    def open_outputs(self) -> None:
        """Open the outputs; remove what earlier runs have stored, if requested. Called when all streams are valid."""
        if self.is_fresh:
            discard(self.file.checkpoint_of(self.name), self.folders)
        replace, empty = self.is_fresh or self.mode == "once", self.plan.empty()
        prepare_servers(self.outputs.wanted, self.workload, self.output, empty, replace=replace, kept=self._has_state)
        if self.is_fresh:
            clear_servers(self.outputs.wanted)

    def run(self, stop: threading.Event) -> None:
        """Process the stream until it ends or `stop` is set."""
        raise NotImplementedError

    @property
    def is_busy(self) -> bool:
        """Whether rows are processed; a stream that waits for files is not busy."""
        return True

    def check_state(self) -> bool:
        """Check the state of earlier runs, and return whether there is one."""
        checkpoint = self.file.checkpoint_of(self.name)
        return has_spark_state(checkpoint) or has_local_state(checkpoint)

    def known_columns(self) -> pa.Schema | None:
        """Return the columns of the files, if an earlier run has stored them."""
        return None

    def check_plan(self) -> None:
        """Check that the queries can continue from the stored state."""

    def request(self) -> ProjectionRequest:
        """Return what concerns single rows, or reject what the queries' family does not support."""
        workload, algorithm = self.workload, self.file.algorithm_of(self.name)
        family = family_of(workload)
        if algorithm != "auto":
            refuse_unsupported(family, "algorithm", f"algorithm={algorithm!r}")
        declared = getattr(family.part("projection"), "declared", None)
        if declared is not None:
            for query in workload:
                declared(query, None)
        emission = self.stream.emission
        for is_requested, feature, given in emission.features:
            if is_requested:
                refuse_unsupported(family, feature, given)
        emission.refuse_other_late_rows(self.file.engine.late)
        return ProjectionRequest(
            workload,
            str(self.stream.time),
            self.stream.id,
            algorithm,
            self.output,
            emission=emission,
            old_scores=has_old_scores(self.outputs.wanted),
        )

    def metrics(self) -> dict[str, Any]:
        """Return the metrics of a run on Spark."""
        return {
            "algorithm": self.plan.plan.method_name,
            "reader": "arrow",
            "batches": self.batches,
            **asdict(self.counts),
            "rows": self.read,
            "answers": self.answers,
            "malformed": self.malformed,
            "unreadable": self.unreadable,
            "candidates": 0,
            "state_bytes": 0,
            "bound": self.plan.plan.bound,
            "emit_lag": None,
            "seconds": round(self.seconds, 3),
            "queries": len(self.workload),
            "changes": 0,
            "dropped_queries": 0,
            "dropped": {},
        }

    def tables(self, batches: Iterable[FileRows], letters: list[pa.Table], stop: threading.Event) -> Iterator[pa.Table]:
        """Yield the well-formed rows, and collect the dead letters if there is a folder for them."""
        for batch in batches:
            if stop.is_set():
                raise StoppedError
            self.read += batch.read
            self.malformed += batch.malformed.num_rows
            if self.dead is not None and batch.malformed.num_rows:
                letters.append(batch.malformed)
            if batch.unreadable is not None:
                self.unreadable += batch.unreadable.num_rows
                letters.append(batch.unreadable)
            if batch.rows.num_rows:
                yield batch.rows

    def deliver(self, number: int, answers: pa.Table) -> None:
        """Pass the answers of a micro-batch to all receivers."""
        for outlet, rows in parts_of(answers, self.outputs.wanted, self.workload, self.output):
            outlet.take(number, rows)
        self.answers += answers["change"].null_count if self.output == "both" else answers.num_rows
        self.batches += 1


class BoundedStream(LocalStream):
    """A stream whose input is read completely before a window is answered."""

    def run(self, stop: threading.Event) -> None:
        """Read the rows, compute all answers, and write them. Earlier answers are removed after all are computed."""
        began = monotonic()
        try:
            letters: list[pa.Table] = []
            rows = self.tables(self.rows.read(), letters, stop)
            tables = list(self.plan.bounded(map(self.plan.project, rows), self.counts))
            answers = in_order(self.plan, tables)
            clear_servers(self.outputs.wanted)
            for folder in self.folders:
                folder.clear()
            if self.dead is not None and letters:
                self.dead.take(pa.concat_tables(letters), 0)
            for number, part in enumerate(_parts(answers)):
                self.deliver(number, part)
        finally:
            self.seconds = monotonic() - began

    def metrics(self) -> dict[str, Any]:
        """Return the metrics of a run on Spark that reads a bounded input. Nothing is held after the end."""
        return {**super().metrics(), "tasks": 0, "tasks_done": 0}


def _parts(answers: pa.Table) -> Iterator[pa.Table]:
    """Yield the answers by time, in parts of about PART_ROWS rows; a window is never split."""
    if answers.num_rows <= PART_ROWS:
        yield answers
        return
    ends, low = ends_of(answers), 0
    while low < answers.num_rows:
        high = min(low + PART_ROWS, answers.num_rows)
        if high < answers.num_rows:
            begins = int(np.searchsorted(ends, ends[high]))
            high = begins if begins > low else int(np.searchsorted(ends, ends[high], side="right"))
        yield answers.slice(low, high - low)
        low = high
