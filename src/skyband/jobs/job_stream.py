"""One stream of a workload file, from its source to its sinks: opened, started, followed or answered once."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from skyband.connectors.dead_letters import bury_in, dead_places
from skyband.connectors.memory import Memory
from skyband.connectors.sources import dead_letters_of, open_batch, open_stream
from skyband.durations import parse_duration
from skyband.errors import InvalidInputError
from skyband.jobs.bounded_job import BoundedRun, Delivery
from skyband.jobs.changed_files import ReadOnce
from skyband.paths import has_scheme
from skyband.sharding.plan import Output
from skyband.spark.checkpoint import Checkpoint, refuse_newer_files
from skyband.spark.delivery import (
    Folder,
    Opening,
    Server,
    Wanted,
    clear_servers,
    open_servers,
    output_of,
    parts_of,
    servers_among,
    write_to,
)
from skyband.spark.late_limits import LateLimits
from skyband.spark.pipeline import check
from skyband.spark.plan import Observed
from skyband.spark.stream_handle import Handle
from skyband.spark.stream_start import launch
from skyband.workload_file import WorkloadFile

__all__ = ["JobStream", "Mode"]

Mode = Literal["stream", "once", "catch-up"]
Prepare = Callable[[DataFrame], None]  # called with the answers, once the queries have been found sound


class JobStream:
    """Knows where the answers of a stream go. `file` gives the file with what was changed while it ran."""

    def __init__(self, spark: SparkSession, mode: Mode, name: str, file: Callable[[], WorkloadFile]) -> None:
        self._spark, self._mode, self._name, self._file = spark, mode, name, file
        self._checkpoint = file().checkpoint_of(name)
        self._folders: list[Folder] = []
        self.wanted: list[Wanted] = []  # who is given its answers
        self.memories: dict[Output, list[Memory]] = {}  # one for each sink of type memory
        self.servers: list[Server] = []

    def open_sinks(self, watchers: Sequence[Wanted]) -> None:
        """Open the file's sinks; `watchers` are given the answers, too."""
        file, name = self._file(), self._name
        opening = Opening(self._spark, name, lambda: self._file().workloads[name])
        for sink in file.sinks:
            if not any(sink.serves(query.name) for query in file.workloads[name]):
                continue
            outlet = sink.open(opening)
            if outlet is None:
                continue
            if isinstance(outlet, Memory):
                self.memories.setdefault(sink.output, []).append(outlet)
            if isinstance(outlet, Server):
                self.servers.append(outlet)
            self.wanted.append(Wanted(outlet, sink.output, sink.queries))
        self.wanted += watchers

    def make_room(self, *, fresh: bool) -> Prepare:
        """Look at what an earlier run left behind, and forget it if it is to begin anew; return what opens servers."""
        file, name, wanted = self._file(), self._name, self.wanted
        kept = Checkpoint(self._spark, self._checkpoint)
        places = (*(one.outlet for one in wanted), *dead_places(name, file.streams[name]))
        self._folders = [place for place in places if isinstance(place, Folder)]
        for server in servers_among(wanted):
            server.reach()  # before anything is forgotten
        if fresh:
            _forget(self._checkpoint, self._folders)
        has_state = kept.read() is not None
        _refuse_foreign_files(self._folders, name, has_state=has_state, mode=self._mode)
        if has_state and self._mode != "once":
            refuse_newer_files(kept, self._folders, name)

        def prepare(out: DataFrame) -> None:
            anew, output = fresh or self._mode == "once", output_of(wanted)
            open_servers(wanted, file.workloads[name], output, out, replace=anew, kept=has_state)
            if fresh:
                clear_servers(wanted)

        return prepare

    def answer_once(self, prepare: Prepare) -> BoundedRun:
        """Answer a bounded input; earlier answers are removed once all new ones are there."""
        file, name, wanted = self._file(), self._name, self.wanted
        stream, workload = file.streams[name], file.workloads[name]
        output = output_of(wanted)
        read, counted, dead = Observation("skyband_source"), Observed.new(), dead_places(name, stream)
        draft = check(
            open_batch(self._spark, name, stream, read, asked=workload),
            workload,
            time=stream.time or "timestamp",
            id_=stream.id,
            watermark=stream.watermark,
            algorithm=file.algorithm_of(name),
            late="count",
            output=output,
            shards=file.shards_of(name),
            row_copies=True,
            sole_watermark=True,
        )
        answers = draft.assemble(None, counted).answers
        prepare(answers)

        def begin() -> None:
            clear_servers(wanted)
            for folder in self._folders:
                folder.clear()
            if dead:
                bury_in(dead)(dead_letters_of(self._spark, name, stream, workload, streaming=False), 0)

        def take(number: int, rows: pa.Table) -> int:
            for outlet, part in parts_of(rows, wanted, workload, output):
                outlet.take(number, part)
            return int(rows["change"].null_count) if output == "both" else int(rows.num_rows)

        running = BoundedRun(draft.stream_info, workload.queries[0].moment, Delivery(read, begin, take))
        running.begin(answers, counted)
        return running

    def launch(self, prepare: Prepare, before: Handle | None = None) -> Handle:
        """Start to follow the stream; `before` is what ran until now, and only its numbers go on."""
        file, name = self._file(), self._name
        stream, workload = file.streams[name], file.workloads[name]
        dead = dead_places(name, stream)
        take = write_to(self.wanted, workload, output_of(self.wanted))
        if stream.source == "files":
            take = ReadOnce(name, self._checkpoint).after(take)

        def write(out: DataFrame) -> DataStreamWriter:
            prepare(out)
            return self._triggered(out.writeStream.foreachBatch(take).queryName(name))

        def bury(letters: DataFrame) -> DataStreamWriter:
            return self._triggered(letters.writeStream.foreachBatch(bury_in(dead)).queryName(f"{name}, dead letters"))

        return self.start(
            file,
            write,
            dead_letters=(dead_letters_of(self._spark, name, stream, workload), bury) if dead else None,
            before=before,
        )

    def start(
        self,
        file: WorkloadFile,
        write: Callable[[DataFrame], DataStreamWriter],
        *,
        dead_letters: Any = None,
        before: Handle | None = None,
    ) -> Handle:
        """Start the stream of a file; `before` is what ran until now: its numbers go on, and its state must fit."""
        name, engine = self._name, file.engine
        stream = file.streams[name]
        return launch(
            open_stream(self._spark, name, stream, asked=file.workloads[name], at_once=self._mode == "catch-up"),
            file.workloads[name],
            write=write,
            checkpoint=self._checkpoint,
            time=stream.time or "timestamp",
            id_=stream.id,
            watermark=stream.watermark,
            bounded=False,
            algorithm=file.algorithm_of(name),
            late="refuse" if engine.late == "refuse" else "count",
            limits=LateLimits(**engine.late) if isinstance(engine.late, dict) else None,
            output=output_of(self.wanted),
            shards=file.shards_of(name),
            row_copies=True,
            sole_watermark=True,
            dead_letters=dead_letters,
            progress=None if before is None else before.progress,
            before=None if before is None else before.plan,
            locked=True,
        )

    def _triggered(self, writer: DataStreamWriter) -> DataStreamWriter:
        trigger = self._file().engine.trigger
        if self._mode == "catch-up":
            return writer.trigger(availableNow=True)
        if self._mode == "stream" and trigger is not None:
            return writer.trigger(processingTime=f"{parse_duration(trigger, field='trigger') // 1000} milliseconds")
        return writer


def _refuse_foreign_files(folders: Sequence[Folder], stream: str, *, has_state: bool, mode: Mode) -> None:
    """Files are numbered by micro-batch: those of another run would be mixed with this one's, or replaced by them."""
    for folder in folders:
        if not folder.files():
            continue
        where = f"{str(folder.folder)!r} holds {folder.holds} of stream {stream!r}"
        if mode == "once" and has_state:
            raise InvalidInputError(
                f"{where} that belong to a run whose state is kept; answering once would replace them. Give another "
                "path, go on with that run, or begin anew with --fresh (fresh=True), which removes both."
            )
        if mode != "once" and not has_state:
            raise InvalidInputError(
                f"{where} from another run, and there is no state to go on from; new files would be mixed with them. "
                "Give another path, or begin anew with --fresh (fresh=True), which removes them."
            )


def _forget(checkpoint: str, folders: Sequence[Folder]) -> None:
    if has_scheme(checkpoint):
        raise InvalidInputError(
            f"the state in {checkpoint!r} is not on this machine and was not removed; remove it with the tools of that "
            "place, and run without --fresh (fresh=True)."
        )
    with suppress(FileNotFoundError):
        shutil.rmtree(checkpoint)
    for folder in folders:
        folder.clear()
