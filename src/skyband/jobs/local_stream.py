"""One stream of a local job: reads its files, answers its queries in this process, and writes to its sinks."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.connectors.arrow.rows import LocalRows
from skyband.connectors.dead_folder import LocalDeadFolder
from skyband.connectors.files import FilesSource
from skyband.connectors.row_identity import ends_of
from skyband.errors import UnsupportedError
from skyband.jobs.outputs import discard, open_outputs, refuse_foreign_files
from skyband.local.pipeline import Counts, plan_for
from skyband.local.replay import in_order
from skyband.queries.families import family_of, refuse_unsupported
from skyband.sharding.delivery import (
    Folder,
    Wanted,
    clear_servers,
    output_of,
    parts_of,
    prepare_servers,
    servers_among,
)
from skyband.sharding.plan import Output
from skyband.sharding.projection import ProjectionRequest
from skyband.workload_file import WorkloadFile

__all__ = ["LocalStream", "StoppedError", "refuse_unsupported_file"]

PART_ROWS = 500_000  # answer rows that sinks receive at a time, as on Spark
LARGEST_LETTER = 1_000_000  # characters of a dead letter


class StoppedError(Exception):
    """The job was stopped before its end."""


class LocalStream:
    """A stream and the receivers of its answers. Creating it validates all of it, and reads no rows."""

    def __init__(self, file: WorkloadFile, name: str, watchers: Sequence[Wanted], *, fresh: bool) -> None:
        self.name, self._file = name, file
        stream, workload = file.streams[name], file.workloads[name]
        assert isinstance(stream, FilesSource)  # the job rejects other sources
        self.outputs = open_outputs(lambda: file, name, None, watchers)
        self._output = output_of(self.outputs.wanted)
        dead = stream.dead_letter_folder
        self._dead = None if dead is None else LocalDeadFolder(dead, name, LARGEST_LETTER)
        self._check_outputs(fresh=fresh)
        self._rows = LocalRows(name, stream)
        self._plan = plan_for(self._rows.schema, _request(file, name, self._output), rank=pa.int32())
        empty, wanted = self._plan.empty(), self.outputs.wanted
        has_state = _has_state(file, name)
        prepare_servers(wanted, workload, self._output, empty, replace=True, kept=has_state)
        if fresh:
            clear_servers(wanted)
        self._counts, self._read, self._malformed = Counts(), 0, 0
        self._answers = self._batches = self._windows = 0
        self._seconds = 0.0

    def run(self, stop: threading.Event) -> None:
        """Read the rows, compute all answers, and write them. Earlier answers are removed after all are computed."""
        began = monotonic()
        try:
            letters: list[pa.Table] = []
            tables = list(self._plan.bounded(map(self._plan.project, self._tables(letters, stop)), self._counts))
            answers = in_order(self._plan, tables)
            self._count(answers)
            self._begin(letters)
            for number, part in enumerate(_parts(answers)):
                for outlet, rows in parts_of(part, self.outputs.wanted, self._file.workloads[self.name], self._output):
                    outlet.take(number, rows)
                self._answers += part["change"].null_count if self._output == "both" else part.num_rows
                self._batches += 1
        finally:
            self._seconds = monotonic() - began

    def metrics(self) -> dict[str, Any]:
        """Return the metrics of a run on Spark that reads a bounded input."""
        counts = asdict(self._counts)
        return {
            "algorithm": self._plan.plan.method_name,
            "reader": "arrow",
            "batches": self._batches,
            **counts,
            "rows": self._read,
            "windows": self._windows,
            "answers": self._answers,
            "malformed": self._malformed,
            "candidates": 0,  # nothing is held after the end
            "state_bytes": 0,
            "bound": self._plan.plan.bound,
            "emit_lag": None,
            "seconds": round(self._seconds, 3),
            "tasks": 0,
            "tasks_done": 0,
            "queries": len(self._file.workloads[self.name]),
            "changes": 0,
            "dropped_queries": 0,
            "dropped": {},
        }

    def _check_outputs(self, *, fresh: bool) -> None:
        """Check the state and the files of earlier runs, or discard them if `fresh`."""
        places = (*(one.outlet for one in self.outputs.wanted), self._dead)
        self._folders = [place for place in places if isinstance(place, Folder)]
        for server in servers_among(self.outputs.wanted):
            server.reach()  # before anything is discarded
        if fresh:
            discard(self._file.checkpoint_of(self.name), self._folders)
        has_state = _has_state(self._file, self.name)
        refuse_foreign_files(self._folders, self.name, has_state=has_state, mode="once")

    def _tables(self, letters: list[pa.Table], stop: threading.Event) -> Iterator[pa.Table]:
        """Yield the well-formed rows, and collect the malformed ones."""
        for batch in self._rows.read():
            if stop.is_set():
                raise StoppedError
            self._read += batch.read
            self._malformed += batch.malformed.num_rows
            if self._dead is not None:
                letters.append(batch.malformed)
            if batch.rows.num_rows:
                yield batch.rows

    def _count(self, answers: pa.Table) -> None:
        """Count windows as on Spark: the shards' windows, or, where answers are merged, those with a first rank."""
        self._windows = self._counts.windows
        if self._plan.family.name != "topk":
            self._windows = int(pc.sum(pc.equal(answers["rank"], 1)).as_py() or 0)

    def _begin(self, letters: list[pa.Table]) -> None:
        clear_servers(self.outputs.wanted)
        for folder in self._folders:
            folder.clear()
        if self._dead is not None and letters:
            self._dead.take(pa.concat_tables(letters), 0)


def _request(file: WorkloadFile, name: str, output: Output) -> ProjectionRequest:
    """Return what concerns single rows, or reject what the queries' family does not support."""
    stream, workload, algorithm = file.streams[name], file.workloads[name], file.algorithm_of(name)
    family, first = family_of(workload), workload.queries[0]
    if first.axis == "count":
        refuse_unsupported(family, "count windows", f"query {first.name!r} with a window of {first.window.size} rows")
    if output != "answers":
        refuse_unsupported(family, "changes", f"output={output!r}")
    if algorithm != "auto":
        refuse_unsupported(family, "algorithm", f"algorithm={algorithm!r}")
    declared = getattr(family.part("projection"), "declared", None)
    if declared is not None:
        for query in workload:
            declared(query, None)
    return ProjectionRequest(workload, str(stream.time), stream.id, algorithm, output, row_copies=True)


def _has_state(file: WorkloadFile, name: str) -> bool:
    """Return whether a run on Spark has stored state."""
    folder = Path(file.checkpoint_of(name))
    return any((folder / part).exists() for part in ("metadata", "skyband/about"))


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


def refuse_unsupported_file(file: WorkloadFile) -> None:
    """Reject files with a source, a sink or a setting that needs Spark."""
    for name in file.workloads:
        if not isinstance(file.streams[name], FilesSource):
            raise UnsupportedError(
                f"stream {name!r} has source {file.streams[name].source!r}; without Spark only files are supported. "
                "Run the file without --local."
            )
    for sink in file.sinks:
        if sink.needs_kafka:
            raise UnsupportedError(
                f"a sink of type {sink.type} is not supported without Spark, which sends the messages. Run the file "
                "without --local."
            )
    for key in file.engine.settings:
        if key.lower().startswith("spark.sql."):
            raise UnsupportedError(
                f"engine: {{settings: {{{key}: …}}}} can change the answers and is not supported without Spark. Run "
                "the file without --local."
            )
