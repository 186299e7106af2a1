"""Start a stream: validate the workload, open the sinks, lock the checkpoint, then start the Spark queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from skyband.errors import InvalidInputError, SkybandError, UnknownNameError, brief
from skyband.queries import Query
from skyband.queries.workload import Workload
from skyband.sharding.delivery import Folder, Opening, Sink, Wanted, has_old_scores, output_of, servers_among
from skyband.sharding.emission import ONCE, Emission, Emit
from skyband.sharding.plan import Output, ShardPlan
from skyband.spark.checkpoint import Checkpoint, refuse_newer_files, refuse_unresumable
from skyband.spark.checkpoint_lock import Lock, OutputLocks
from skyband.spark.checkpoint_upgrade import upgrade_checkpoint
from skyband.spark.control import Control
from skyband.spark.delivery import check_answers, collecting, open_servers, writing
from skyband.spark.inputs import RowInput, read_by_spark
from skyband.spark.late_limits import LateLimits
from skyband.spark.metrics import StreamProgress
from skyband.spark.outbox import Outbox
from skyband.spark.pipeline import Frames, check, checked_output
from skyband.spark.plan import Late, Pipeline, frames_of
from skyband.spark.query_settings import PARTITIONS, partition_settings, scan_settings
from skyband.spark.resharding import refuse_resharding, repartition
from skyband.spark.resharding import reshard as convert
from skyband.spark.stream_handle import Deliver, Handle, Write
from skyband.spark.topology import SparkPlan
from skyband.spark.warm_executors import warm_executors
from skyband.spark.wide_rows import cut_settings, has_wide_type, is_unlimited

__all__ = ["OpenedSinks", "launch", "start"]


def start(
    df: Frames,
    workload: Query | Iterable[Query] | Workload[Any],
    *,
    write: Write | None = None,
    sinks: Sequence[Sink] | None = None,
    name: str = "answers",
    checkpoint: str,
    time: str,
    id: str | None = None,  # noqa: A002 - the usual name
    watermark: str | timedelta | None = None,
    bounded: bool = False,
    algorithm: str = "auto",
    late: Write | Literal["count", "refuse"] = "count",
    output: Literal["answers", "changes"] = "answers",
    shards: int | None = None,
    reshard: bool = False,
    emit: Emit = "final",
    provisional_every: str | timedelta | None = None,
    allowed_lateness: str | timedelta | None = None,
) -> Handle:
    """Answer a workload over a stream, and write the answers to `sinks` or with `write`. Exactly one is required.

    Parameters
    ----------
    df, workload, time, id, watermark, algorithm, output, shards, emit, provisional_every, allowed_lateness
        As for `answers`.
    write
        A function from the data frame of answers to its writer:
        ``lambda out: out.writeStream.format("parquet").option("path", folder)``. `start` sets its checkpoint.
    sinks
        The sinks, as in a workload file: ``[sb.sinks.Parquet(path="answers")]``, see `skyband.sinks`. This process
        writes to them, one micro-batch at a time; a repeated micro-batch replaces its output. ``output=`` of a sink
        selects answers or changes, ``queries=`` selects queries.
    name
        The name of the stream. Files of `sinks` begin with it; it replaces ``{stream}`` in the name of a table.
    checkpoint
        A folder for the stream's state and its control messages. Start again with the same folder to resume after the
        stream stopped or was killed: the sink then contains every answer once. The workload may change: removed
        queries stop, added queries are answered from the first window that begins after all rows seen.
    bounded
        Read all available input, answer every window that contains a row, including trailing windows, and stop. No
        window is final before all input is read, so no row is late, independent of the order of files and partitions
        and of the watermark. Only rows of windows that an earlier run with this checkpoint has answered are late. Rows
        that tasks cannot drop are stored in the state meanwhile; for input larger than memory, use `answers` with a
        batch data frame, which sorts on disk. This ends the stream: rows that a later run reads for answered windows
        are late. To process new files every day, omit `bounded` and set ``trigger(availableNow=True)`` on the writer.
    late
        ``"count"`` or ``"refuse"``, as for `answers`; or a function from the data frame of late rows to its writer,
        which runs as a separate Spark query.
    reshard
        Convert a checkpoint with another number of `shards`, and, with Spark 4.2 or newer, with another number of
        partitions than the session's `spark.sql.shuffle.partitions`. Without it, another number of shards is rejected,
        and the checkpoint keeps its partitions. Top-k queries only.

    Examples
    --------
    >>> handle = start(trades, big, time="ts", watermark="10 seconds", bounded=True,
    ...                write=lambda out: out.writeStream.format("parquet").option("path", "answers"),
    ...                checkpoint="checkpoint")  # doctest: +SKIP
    >>> handle.await_end()  # doctest: +SKIP
    >>> handle.metrics()["windows"]  # doctest: +SKIP
    1440
    """
    if (write is None) == (sinks is None):
        raise InvalidInputError("start() requires exactly one of write= and sinks=.")
    queries, wanted, opened = workload, checked_output(output), None
    emission = Emission.parsed(emit, provisional_every, allowed_lateness)
    if sinks is not None:
        queries, opened = _open(df, workload, sinks, name, checkpoint, wanted)
        wanted = opened.output
    deliver = opened.deliver if opened is not None else _written_by(write)
    try:
        return launch(
            df,
            queries,
            deliver=deliver,
            checkpoint=checkpoint,
            time=time,
            id_=id,
            watermark=watermark,
            bounded=bounded,
            algorithm=algorithm,
            late=late,
            output=wanted,
            shards=shards,
            reshard=reshard,
            opened=opened,
            outbox=None if opened is None else opened.outbox,
            emission=emission,
            old_scores=opened is not None and opened.old_scores,
        )
    except BaseException:
        if opened is not None:
            opened.close()
        raise


def _open(
    df: Frames,
    workload: Query | Iterable[Query] | Workload[Any],
    sinks: Sequence[Sink],
    name: str,
    checkpoint: str,
    output: Output,
) -> tuple[Workload[Any], OpenedSinks]:
    """Open the sinks of a stream before it starts."""
    if output != "answers":
        raise InvalidInputError(f"output={output!r} cannot be combined with sinks=; set output on each sink instead.")
    queries: Workload[Any] = Workload(workload)
    spark = _session(df)
    opened = OpenedSinks(sinks, queries, spark, name, checkpoint)
    try:
        kept = Checkpoint(spark, checkpoint)
        if kept.read() is None:
            opened.refuse_foreign_files(checkpoint)
        else:
            refuse_newer_files(kept, opened.folders, name)
    except BaseException:
        opened.close()
        raise
    return queries, opened


def _written_by(write: Any) -> Deliver:
    return lambda pipeline: write(pipeline.answers)


def _session(df: Frames) -> SparkSession:
    """Return the session of a stream; reject batches."""
    if isinstance(df, RowInput):
        return df.session
    named = dict(df) if isinstance(df, Mapping) else {}
    inputs = [one for one in named.values() if isinstance(one, RowInput)]
    plain = {name: one for name, one in named.items() if not isinstance(one, RowInput)}
    frames = list(frames_of(plain if isinstance(df, Mapping) else df))
    if not (inputs or frames) or not all(frame.isStreaming for frame in frames):
        raise InvalidInputError("df must be a streaming DataFrame; for a batch DataFrame use answers(df, …).")
    return inputs[0].session if inputs else frames[0].sparkSession


def launch(
    df: Frames,
    workload: Query | Iterable[Query] | Workload[Any],
    *,
    deliver: Deliver,
    checkpoint: str,
    time: str,
    id_: str | None,
    watermark: str | timedelta | None,
    bounded: bool,
    algorithm: str,
    late: Write | Literal["count", "refuse"],
    output: Output,
    shards: int | None,
    reshard: bool = False,
    sole_watermark: bool = False,
    dead_letters: tuple[DataFrame, Write] | None = None,
    progress: StreamProgress | None = None,
    limits: LateLimits | None = None,
    before: ShardPlan | None = None,
    locked: bool = False,
    opened: OpenedSinks | None = None,
    outbox: Outbox | None = None,
    emission: Emission = ONCE,
    old_scores: bool = False,
    past: Iterable[str] = (),
    wide_rows: Callable[[], DataFrame | None] | None = None,
) -> Handle:
    """Implement `start`, with further options: answers and changes together.

    `deliver` returns the writer of the answers.
    `sole_watermark`: the data frame comes directly from its source, without other watermarks or shuffles. Windows are
    then answered in the micro-batch that ends them, not in the next one; and Spark uses as many partitions as there are
    shards, if the session has more.
    `dead_letters` are malformed records and their writer; they run as a separate Spark query with its own position in
    the source. `progress` is the progress of a run that this one continues; its metrics continue too. `before` is the
    plan of the stored state. `locked`: the caller has already locked the checkpoint. `reshard`: the number of shards
    and partitions of the stored state may change.
    `limits` are the limits of late rows. `opened` are sinks to close when the stream ends. `outbox` passes answers to
    sinks over Spark Connect. `past` names queries whose past arrives in a message. `wide_rows` returns the rows to use
    in place of `df` after a wide row has stopped the stream; None: the same ones.
    """
    spark = _session(df)
    kept = Checkpoint(spark, checkpoint)
    description = kept.read()
    mode: Late = "return" if callable(late) else late
    planned_for = partial(
        check,
        workload=workload,
        time=time,
        id_=id_,
        watermark=watermark,
        algorithm=algorithm,
        late=mode,
        output=output,
        shards=shards if shards is not None or description is None else description["shards"],
        sole_watermark=sole_watermark,
        final_at_end=bounded,
        streaming=True,
        checkpoint=kept.folder,
        emission=emission,
        old_scores=old_scores,
    )
    draft = replace(planned_for(df), past=frozenset(past))
    if before is not None:
        refuse_unresumable(before, draft.plan, draft.past)
    lock = Lock(None if locked else kept.lock)
    try:
        lock.take()
        control = Control(spark, kept.control)
        if description is None:
            kept.refuse_unwritable(control.open)
        else:
            for folder in (kept.folder, kept.late):
                upgrade_checkpoint(spark, folder)
            if reshard:
                description = _converted(
                    spark, kept, control, draft, description, late=callable(late), sole=sole_watermark
                )
        kept.agree(draft.description, description)
        warm_executors(spark, draft.plan.family)
        progress = StreamProgress() if progress is None else progress
        progress.stream_info = draft.stream_info._replace(reader=draft.reader)
        unlimited, settings = is_unlimited(spark), partition_settings(spark, draft.plan.units) if sole_watermark else {}
        if unlimited and has_wide_type(draft.rows):
            settings |= cut_settings()
        elif unlimited:
            draft = replace(draft, refuses_wide=True)
        planned = _Replanned(draft, progress, kept.control, wide_rows, planned_for)
        pipeline = draft.assemble(kept.control)
        side_outputs: list[tuple[Write, DataFrame | None, str]] = []
        if dead_letters is not None:
            side_outputs.append((dead_letters[1], dead_letters[0], kept.dead))
        if callable(late) and pipeline.late is not None:
            side_outputs.append((late, None, kept.late))
        handle = Handle(
            pipeline,
            progress,
            kept,
            control,
            deliver,
            side_outputs,
            limits or LateLimits(),
            bounded=bounded,
            plan=draft.plan,
            lock=lock,
            settings=settings,
            scan_settings=scan_settings(sole=sole_watermark),
            opened=opened,
            outbox=outbox,
            by_spark=planned.by_spark if draft.scans else None,
            cut_rows=planned.with_cut_batches if unlimited else None,
        )
        handle.begin()
    except BaseException:
        lock.release()
        raise
    return handle


def _converted(
    spark: SparkSession,
    kept: Checkpoint,
    control: Control,
    draft: SparkPlan,
    description: dict[str, Any],
    *,
    late: bool,
    sole: bool,
) -> dict[str, Any]:
    """Convert the stored state to the shards of the plan and the partitions of the session."""
    kept.agree({**draft.description, "shards": description["shards"]}, description)  # everything else must agree
    refuse_resharding(draft.plan, int(description["shards"]), has_late_output=late)
    settings = {PARTITIONS: spark.conf.get(PARTITIONS, "200") or "200"}
    if sole:
        settings |= partition_settings(spark, draft.plan.units)
    repartition(spark, kept, int(settings[PARTITIONS]))
    return convert(spark, kept, control, draft.plan, description)


class _Replanned:
    """The plan of a stream that starts again in another way."""

    def __init__(
        self,
        plan: SparkPlan,
        progress: StreamProgress,
        control: str,
        wide_rows: Callable[[], DataFrame | None] | None,
        planned_for: Callable[[DataFrame], SparkPlan],
    ) -> None:
        self._plan, self._progress, self._control = plan, progress, control
        self._wide_rows, self._planned_for = wide_rows, planned_for

    def by_spark(self, error: SkybandError) -> Pipeline:
        """Let Spark read the rest of the stream, if tasks meet files that they cannot read."""
        self._plan = read_by_spark(self._plan, error)
        self._progress.stream_info = self._plan.stream_info._replace(reader=self._plan.reader)
        return self._plan.assemble(self._control)

    def with_cut_batches(self) -> Pipeline:
        """Accept wide rows, whose batches are limited by bytes."""
        rows = None if self._wide_rows is None else self._wide_rows()
        plan = self._plan if rows is None else replace(self._planned_for(rows), past=self._plan.past)
        self._plan = replace(plan, refuses_wide=False)
        return self._plan.assemble(self._control)


class OpenedSinks:
    """The open sinks of a stream."""

    def __init__(
        self, sinks: Sequence[Sink], workload: Workload[Any], spark: SparkSession, stream: str, checkpoint: str
    ) -> None:
        self._workload, self._stream, self._locks = workload, stream, OutputLocks(stream)
        self.outbox = Outbox(spark, checkpoint)
        opening = Opening(spark, stream, lambda: workload)
        self._wanted = [_opened(sink, opening) for sink in _checked(sinks, workload)]
        try:
            self._locks.take(self.folders)
            for server in servers_among(self._wanted):
                server.reach()  # before any output is changed
        except BaseException:
            self.close()
            raise

    @property
    def output(self) -> Output:
        """The output that the pipeline must produce for all sinks."""
        return output_of(self._wanted)

    @property
    def old_scores(self) -> bool:
        """Whether the pipeline must produce the scores of the previous window."""
        return has_old_scores(self._wanted)

    @property
    def folders(self) -> list[Folder]:
        """The sinks that write files."""
        return [one.outlet for one in self._wanted if isinstance(one.outlet, Folder)]

    def refuse_foreign_files(self, checkpoint: str) -> None:
        """Reject folders with files of another run."""
        for folder in self.folders:
            if folder.files():
                raise InvalidInputError(
                    f"{str(folder.folder)!r} contains {folder.holds} of stream {self._stream!r} from another run, but "
                    f"checkpoint {checkpoint!r} has no state to resume. New files would be mixed with them. Use "
                    "another path or checkpoint, or remove the files."
                )

    def deliver(self, pipeline: Pipeline) -> DataStreamWriter:
        """Return the writer of the answers."""
        check_answers(self._wanted, self._workload, self.output, pipeline.answers)
        open_servers(self._wanted, self._workload, self.output, pipeline.answers)
        take, stage = writing(self._wanted, self._workload, self.output, pipeline.answers.sparkSession)
        return collecting(pipeline, take, self.outbox, stage).queryName(self._stream)

    def stop_waiting(self) -> None:
        """Stop retrying unavailable servers."""
        for server in servers_among(self._wanted):
            server.stop_waiting()

    def close(self) -> None:
        """Close the connections to servers, and release the output folders."""
        for server in servers_among(self._wanted):
            server.close()
        self._locks.release()


def _checked(sinks: Sequence[Sink], workload: Workload[Any]) -> Sequence[Sink]:
    """Return the sinks if they are valid and name existing queries."""
    if not isinstance(sinks, Sequence) or not sinks:
        raise InvalidInputError(
            f"sinks must be a list of sinks, such as [skyband.sinks.Parquet(path=…)], got {brief(sinks)}."
        )
    names = [query.name for query in workload]
    for sink in sinks:
        if not isinstance(sink, Sink):
            raise InvalidInputError(f"sinks must contain only sinks from skyband.sinks, got {brief(sink)}.")
        for name in sink.queries or ():
            if name not in names:
                raise UnknownNameError.among(f"a sink of type {sink.type}: query", name, names)
    return sinks


def _opened(sink: Sink, opening: Opening) -> Wanted:
    outlet = sink.open(opening)
    if outlet is None:
        raise InvalidInputError(
            f"a sink of type {sink.type} is supported only by `skyband run`. Use write=lambda out: "
            'out.writeStream.format("console"), or another sink.'
        )
    return Wanted.of(sink, outlet)
