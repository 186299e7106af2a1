"""One stream of a job: opens its source and sinks, and starts it in each mode."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from skyband.connectors.dead_folder import TaskDeadFolder
from skyband.connectors.dead_letters import bury_in, dead_places
from skyband.connectors.files import FilesSource
from skyband.connectors.kafka import KafkaSource
from skyband.connectors.memory import Memory
from skyband.connectors.read_files import FileInput
from skyband.connectors.source import InTasks, SourceModel
from skyband.connectors.sources import dead_letters_of, open_batch, open_stream
from skyband.durations import parse_duration
from skyband.errors import SkybandError, UnsupportedError
from skyband.jobs.bounded_job import BoundedRun, Delivery, Planned
from skyband.jobs.changed_files import ReadOnce
from skyband.jobs.local_state import has_local_state, refuse_local_state
from skyband.jobs.outputs import Mode, discard, open_outputs, refuse_foreign_files, refuse_undiscardable
from skyband.jobs.spark_history import SparkPast, file_history, local_checkpoint, missing_past
from skyband.jobs.topic_history import TopicHistory
from skyband.queries.workload import Workload
from skyband.sharding.delivery import (
    Folder,
    Server,
    Wanted,
    clear_servers,
    has_old_scores,
    output_of,
    parts_of,
    servers_among,
)
from skyband.sharding.envelope import MILLISECOND
from skyband.sharding.plan import Output
from skyband.spark.batch_log import OffsetLog
from skyband.spark.checkpoint import Checkpoint, refuse_newer_files
from skyband.spark.checkpoint_lock import OutputLocks
from skyband.spark.control import Control
from skyband.spark.delivery import Take, check_answers, collecting, open_servers, writing
from skyband.spark.inputs import read_by_spark
from skyband.spark.late_limits import LateLimits
from skyband.spark.outbox import Outbox
from skyband.spark.pipeline import check
from skyband.spark.plan import Observed, Pipeline, StreamInfo
from skyband.spark.stream_handle import Deliver, Handle
from skyband.spark.stream_start import launch
from skyband.spark.topology import SparkPlan
from skyband.spark.wide_rows import is_unlimited
from skyband.workload_file import WorkloadFile

__all__ = ["JobStream", "Mode"]

Prepare = Callable[[DataFrame], None]  # called with the answers after the queries are validated


class JobStream:
    """A stream and the receivers of its answers. `file` returns the file with the changes of the running job.

    `reshard`: the stored state is converted if the file has another number of shards.
    """

    def __init__(
        self, spark: SparkSession, mode: Mode, name: str, file: Callable[[], WorkloadFile], *, reshard: bool = False
    ) -> None:
        self._reshard = reshard
        self._spark, self._mode, self._name, self._file = spark, mode, name, file
        self._checkpoint = file().checkpoint_of(name)
        self._folders: list[Folder] = []
        self._fresh = self._ignores_state = self._has_state = False  # until the outputs are checked
        self.locks = OutputLocks(name)
        self.wanted: list[Wanted] = []  # receivers of its answers
        self.memories: dict[Output, list[Memory]] = {}  # one per sink of type memory
        self.servers: list[Server] = []
        self.added_past: set[str] = set()  # queries that were added with their past while the job runs

    def open_sinks(self, watchers: Sequence[Wanted]) -> None:
        """Open the file's sinks; `watchers` are additional receivers."""
        opened = open_outputs(self._file, self._name, self._spark, watchers, has_state=self._mode != "once")
        self.wanted, self.memories, self.servers = opened.wanted, opened.memories, opened.servers

    def check_outputs(self, *, fresh: bool) -> None:
        """Check the outputs, and the state and the files of earlier runs. Nothing is changed.

        If `fresh`, the state is ignored, and everything that a new stream needs is checked, so that `discard` is safe.
        """
        file, name, wanted = self._file(), self._name, self.wanted
        stored = Checkpoint(self._spark, self._checkpoint)
        outlets, dead = [one.outlet for one in wanted], dead_places(name, file.streams[name])
        self._folders = [place for place in (*outlets, *dead) if isinstance(place, Folder)]
        self.locks.take(self._folders)
        for server in servers_among(wanted):
            server.reach()
        self._fresh = self._ignores_state = fresh
        if fresh:
            refuse_undiscardable(self._checkpoint, self._folders)
            self._check_servers(self._planned(file).assemble(None).answers)
            return
        if self._mode != "once":
            refuse_local_state(self._checkpoint)
            if (letters := self._letters_of_tasks(file.streams[name])) is not None:
                self._folders = [*(folder for folder in self._folders if folder not in dead), letters]
        has_state = self._has_state = has_local_state(self._checkpoint) or stored.read() is not None
        refuse_foreign_files(self._folders, name, has_state=has_state, mode=self._mode)
        if has_state and self._mode != "once":
            refuse_newer_files(stored, self._folders, name)

    def discard(self) -> None:
        """Remove the state, the files and the answers of earlier runs, if requested."""
        if self._fresh:
            discard(self._checkpoint, self._folders)
            self._ignores_state = False
            if self._mode != "once" and self._letters_of_tasks(self._file().streams[self._name]) is not None:
                dead = dead_places(self._name, self._file().streams[self._name])
                self._folders = [folder for folder in self._folders if folder not in dead]

    def prepare(self, out: DataFrame) -> None:
        """Open the servers for these answers; remove the answers of earlier runs, if requested."""
        replace, output = self._fresh or self._mode == "once", output_of(self.wanted)
        if not self._fresh:
            self._check_servers(out)
        workload = self._file().workloads[self._name]
        open_servers(self.wanted, workload, output, out, replace=replace, kept=self._has_state)
        if self._fresh:
            clear_servers(self.wanted)
        elif self._has_state and self._mode != "once" and (missing := self._missing_past()):
            past = self.past(self._file(), missing)
            past.read()
            self.send_past(past)

    def past(self, file: WorkloadFile, past: Mapping[str, int]) -> SparkPast:
        """Return the reader of what queries of a file would hold if they had been there from the start."""
        stream, workload = file.streams[self._name], file.workloads[self._name]
        rows = self._rows(stream, workload)
        plan = self._planned(file, rows)
        delay = -(-parse_duration(stream.watermark, field="watermark") // MILLISECOND) * MILLISECOND
        if isinstance(stream, KafkaSource):
            folder = local_checkpoint(self._spark, self._checkpoint, past)
            topics = TopicHistory(self._spark, folder, self._name, stream, workload, plan, past, delay)
            return SparkPast(topics, delay, past)
        if not isinstance(rows, FileInput):
            raise UnsupportedError(
                f"since is not supported for query {next(iter(past))!r}: rows of source {stream.source} cannot be read "
                "again. Omit since: it is then answered from the first window that starts after all rows read so far."
            )
        history = file_history(self._spark, self._checkpoint, rows, plan, past)
        return SparkPast(history, delay, past)

    def send_past(self, past: SparkPast) -> None:
        """Send the past to the shards of the stream, which is stopped. The next micro-batch stores it."""
        Control(self._spark, Checkpoint(self._spark, self._checkpoint).control).send(past.messages())

    def _missing_past(self) -> dict[str, int]:
        """Return the queries with `since` that the stored state does not have, and how much of their past is read."""
        file = self._file()
        since = {query.name: file.since[query.name] for query in file.workloads[self._name] if query.name in file.since}
        if not since:
            return {}
        return missing_past(self._spark, self._checkpoint, self._planned(file).plan, since)

    def _check_servers(self, out: DataFrame) -> None:
        check_answers(self.wanted, self._file().workloads[self._name], output_of(self.wanted), out)

    def _planned(self, file: WorkloadFile, rows: DataFrame | FileInput | None = None) -> SparkPlan:
        """Return the plan of a stream that starts without a state, over its rows or those that are given."""
        stream, workload = file.streams[self._name], file.workloads[self._name]
        if rows is None:
            rows = self._batch(stream, workload, None)[0] if self._mode == "once" else self._rows(stream, workload)
        return check(
            rows,
            workload,
            time=stream.time or "timestamp",
            id_=stream.id,
            watermark=stream.watermark,
            algorithm=file.algorithm_of(self._name),
            late="refuse" if file.engine.late == "refuse" and self._mode != "once" else "count",
            output=output_of(self.wanted),
            shards=self._shards(file),
            sole_watermark=True,
            streaming=None if self._mode == "once" else True,
            checkpoint=None if self._mode == "once" else self._checkpoint,
            emission=stream.emission,
        )

    def _shards(self, file: WorkloadFile) -> int | None:
        """Return the number of shards of a file; by default that of the stored state, if there is one."""
        wanted = file.shards_of(self._name)
        if wanted is not None or self._fresh or self._mode == "once":
            return wanted
        stored = Checkpoint(self._spark, self._checkpoint).read()
        return None if stored is None else int(stored["shards"])

    def run_once(self, prepare: Prepare) -> BoundedRun:
        """Run over a bounded input. Earlier answers are removed when all new ones are computed."""
        file, name, wanted = self._file(), self._name, self.wanted
        stream, workload = file.streams[name], file.workloads[name]
        output = output_of(wanted)
        counted, dead = Observed.new(), dead_places(name, stream)
        staged = None
        if isinstance(stream, FilesSource) and (stream.skips_unreadable or stream.by_tasks_only) and dead:
            staged = mkdtemp(prefix="skyband-letters-")
        rows, read = self._batch(stream, workload, staged)
        draft = check(
            rows,
            workload,
            time=stream.time or "timestamp",
            id_=stream.id,
            watermark=stream.watermark,
            algorithm=file.algorithm_of(name),
            late="count",
            output=output,
            shards=file.shards_of(name),
            sole_watermark=True,
            emission=stream.emission,
            old_scores=has_old_scores(wanted),
        )
        answers = draft.assemble(None, counted).answers
        prepare(answers)

        def begin() -> None:
            clear_servers(wanted)
            for folder in self._folders:
                folder.clear()
            if staged is not None:
                TaskDeadFolder(str(stream.dead_letter_folder), name, Path(staged)).publish(0)
            elif dead:
                bury_in(dead)(dead_letters_of(self._spark, name, stream, workload, streaming=False), 0)

        def take(number: int, rows: pa.Table) -> int:
            for outlet, part in parts_of(rows, wanted, workload, output):
                outlet.take(number, part)
            return int(rows["change"].null_count) if output == "both" else int(rows.num_rows)

        def by_spark(error: SkybandError) -> Planned:
            plan, again = read_by_spark(draft, error), Observed.new()
            return Planned(plan.assemble(None, again).answers, again, read(by_tasks=False), _info(plan))

        running = BoundedRun(_info(draft), workload.queries[0].moment, Delivery(begin, take))
        if staged is not None:
            weakref.finalize(running, shutil.rmtree, staged, ignore_errors=True)
        planned = Planned(answers, counted, read(by_tasks=bool(draft.scans)), _info(draft))
        running.begin(planned, by_spark if draft.scans else None)
        return running

    def _batch(
        self, stream: SourceModel, workload: Workload[Any], letters: str | None
    ) -> tuple[DataFrame | FileInput, Callable[..., Observation]]:
        """Return the rows of a bounded input, and the function that returns their counts.

        `letters` is the folder in which tasks stage dead letters, if they do.
        """
        if isinstance(stream, FilesSource):
            files = FileInput(self._name, stream, self._spark, streaming=False, counted=True, letters=letters)
            return files, files.observation
        counted = Observation("skyband_source")
        return open_batch(self._spark, self._name, stream, counted, asked=workload), lambda *, by_tasks: counted

    def _rows(self, stream: SourceModel, workload: Workload[Any]) -> DataFrame | FileInput:
        """Return the rows of a stream that is followed."""
        at_once = self._mode == "catch-up"
        if isinstance(stream, FilesSource):
            letters = None if self._letters_of_tasks(stream) is None else self._staged
            return FileInput(self._name, stream, self._spark, at_once=at_once, letters=letters)
        in_tasks: InTasks = "narrow" if is_unlimited(self._spark) else "any"
        return open_stream(self._spark, self._name, stream, asked=workload, at_once=at_once, in_tasks=in_tasks)

    def _wide_rows(self) -> DataFrame | None:
        """Return the rows of a topic with wide records, which Spark reads."""
        file, name = self._file(), self._name
        stream, at_once = file.streams[name], self._mode == "catch-up"
        if stream.source != "kafka":
            return None
        return open_stream(self._spark, name, stream, asked=file.workloads[name], at_once=at_once)

    @property
    def _staged(self) -> str:
        return Checkpoint(self._spark, self._checkpoint).letters

    def _letters_of_tasks(self, stream: SourceModel) -> TaskDeadFolder | None:
        """Return the folder of dead letters, if the tasks that read the files write them; else a separate query does.

        Only tasks know what they skipped: a separate query may find a file repaired. Once tasks have written dead
        letters, they continue to, because a separate query would begin with the first file.
        """
        folder, staged = stream.dead_letter_folder, Path(self._staged)
        if not isinstance(stream, FilesSource) or folder is None:
            return None
        have_written = staged.is_dir() and not self._ignores_state
        if not (stream.skips_unreadable or stream.by_tasks_only or have_written):
            return None
        stored = Checkpoint(self._spark, self._checkpoint)
        return TaskDeadFolder(folder, self._name, staged, stored.last_batch(stored.dead) + 1)

    def launch(self, prepare: Prepare, before: Handle | None = None) -> Handle:
        """Start the stream; `before` is the handle that it replaces, whose metrics are continued."""
        file, name = self._file(), self._name
        stream, workload = file.streams[name], file.workloads[name]
        letters = self._letters_of_tasks(stream)
        dead = dead_places(name, stream) if letters is None else []
        take, stage = writing(self.wanted, workload, output_of(self.wanted), self._spark)
        if letters is not None:
            take = _then(take, letters.publish)
        if stream.source == "files":
            take = ReadOnce(name, self._checkpoint).after(take)

        if stream.source == "kafka" and Checkpoint(self._spark, self._checkpoint).is_local:
            take = _then(take, OffsetLog(Path(self._checkpoint)).keep)

        outbox = Outbox(self._spark, self._checkpoint)

        def deliver(pipeline: Pipeline) -> DataStreamWriter:
            prepare(pipeline.answers)
            return self._triggered(collecting(pipeline, take, outbox, stage).queryName(name))

        def bury(letters: DataFrame) -> DataStreamWriter:
            return self._triggered(letters.writeStream.foreachBatch(bury_in(dead)).queryName(f"{name}, dead letters"))

        return self.start(
            file,
            deliver,
            dead_letters=(dead_letters_of(self._spark, name, stream, workload), bury) if dead else None,
            before=before,
            outbox=outbox,
        )

    def start(
        self,
        file: WorkloadFile,
        deliver: Deliver,
        *,
        dead_letters: Any = None,
        before: Handle | None = None,
        outbox: Outbox | None = None,
    ) -> Handle:
        """Start the stream of a file; `before` is the handle that it replaces.

        The metrics of `before` are continued, and its state must be compatible.
        """
        name, engine = self._name, file.engine
        stream = file.streams[name]
        return launch(
            self._rows(stream, file.workloads[name]),
            file.workloads[name],
            deliver=deliver,
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
            reshard=self._reshard,
            sole_watermark=True,
            emission=stream.emission,
            old_scores=has_old_scores(self.wanted),
            past=(*file.since, *self.added_past),
            dead_letters=dead_letters,
            wide_rows=self._wide_rows,
            progress=None if before is None else before.progress,
            before=None if before is None else before.plan,
            locked=True,
            outbox=outbox,
        )

    def _triggered(self, writer: DataStreamWriter) -> DataStreamWriter:
        trigger = self._file().engine.trigger
        if self._mode == "catch-up":
            return writer.trigger(availableNow=True)
        if self._mode == "stream" and trigger is not None:
            return writer.trigger(processingTime=f"{parse_duration(trigger, field='trigger') // 1000} milliseconds")
        return writer


def _then(take: Take, publish: Callable[[int], None]) -> Take:
    """Return the same function, followed by another one with the number of the micro-batch."""

    def taken(rows: pa.Table, batch: int) -> None:
        take(rows, batch)
        publish(batch)

    return taken


def _info(plan: SparkPlan) -> StreamInfo:
    return plan.stream_info._replace(reader=plan.reader)
