"""Starting a stream: the workload is checked, sinks are opened, the checkpoint is locked; then its queries run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from skyband.errors import InvalidInputError, UnknownNameError, UnsupportedError, brief
from skyband.queries import Query
from skyband.queries.workload import Workload
from skyband.sharding.plan import Output, ShardPlan
from skyband.spark.checkpoint import Checkpoint, refuse_newer_files, refuse_unresumable
from skyband.spark.checkpoint_lock import Lock
from skyband.spark.control import Control
from skyband.spark.delivery import Folder, Opening, Sink, Wanted, open_servers, output_of, servers_among, write_to
from skyband.spark.late_limits import LateLimits
from skyband.spark.metrics import StreamProgress
from skyband.spark.pipeline import Frames, check, checked_output
from skyband.spark.plan import Late, frames_of
from skyband.spark.stream_handle import Handle, Write

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
    id: str | None = None,  # noqa: A002 - the word users have for it
    watermark: str | timedelta | None = None,
    bounded: bool = False,
    algorithm: str = "auto",
    late: Write | Literal["count", "refuse"] = "count",
    output: Literal["answers", "changes"] = "answers",
    shards: int | None = None,
) -> Handle:
    """Answer a workload over a stream, and write the answers where `sinks` or `write` say: one of the two.

    Parameters
    ----------
    df, workload, time, id, watermark, algorithm, output, shards
        As for `answers`.
    write
        Given the answers, returns the writer of them:
        ``lambda out: out.writeStream.format("parquet").option("path", folder)``. Its checkpoint is set here.
    sinks
        Where answers go, in the words of a workload file: ``[sb.sinks.Parquet(path="answers")]``, see `skyband.sinks`.
        This process writes them, a micro-batch at a time, and one that is run again replaces itself. Each says with
        ``output=`` whether it takes answers or changes, and with ``queries=`` of which queries.
    name
        What the stream is called: files of `sinks` begin with it, and ``{stream}`` of a table stands for it.
    checkpoint
        A folder for the stream's state and its control messages. Start again with the same folder to go on where the
        stream stopped or was killed: the sink then holds every answer once. The workload may have changed: removed
        queries stop, added ones are answered from the first window on that begins after all rows seen.
    bounded
        Read all of what there is now, answer every window that holds a row, the trailing ones too, and stop. Nothing is
        final before all is read, so no row is late, whatever the order of files and partitions and whatever the
        watermark; only rows of windows that an earlier run with this checkpoint has answered are. What tasks cannot
        drop waits in the state meanwhile: for an input larger than memory, `answers` of a batch data frame sorts on
        disk. That ends the stream: rows that a later run finds for windows answered so are late. To go on with new
        files day by day, leave `bounded` out and give the writer ``trigger(availableNow=True)``.
    late
        ``"count"`` or ``"refuse"``, as for `answers`; or a function that, given the late rows, returns the writer of
        them: they run as a query of their own.

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
        raise InvalidInputError("start() writes where write= or sinks= say; give one of the two.")
    asked, wanted, opened = workload, checked_output(output), None
    if sinks is not None:
        asked, opened = _open(df, workload, sinks, name, checkpoint, wanted)
        write, wanted = opened.write, opened.output
    assert write is not None
    try:
        return launch(
            df,
            asked,
            write=write,
            checkpoint=checkpoint,
            time=time,
            id_=id,
            watermark=watermark,
            bounded=bounded,
            algorithm=algorithm,
            late=late,
            output=wanted,
            shards=shards,
            row_copies=opened is not None,
            opened=opened,
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
    """The sinks of a stream, before it is started."""
    if output != "answers":
        raise InvalidInputError(f"output={output!r} is said by each of the sinks; leave it out here.")
    asked: Workload[Any] = Workload(workload)
    spark = _streaming(df)[0].sparkSession
    opened = OpenedSinks(sinks, asked, spark, name)
    try:
        kept = Checkpoint(spark, checkpoint)
        if kept.read() is None:
            opened.refuse_foreign_files(checkpoint)
        else:
            refuse_newer_files(kept, opened.folders, name)
    except BaseException:
        opened.close()
        raise
    return asked, opened


def _streaming(df: Frames) -> list[DataFrame]:
    frames = list(frames_of(df))
    if not frames or not all(frame.isStreaming for frame in frames):
        raise InvalidInputError(
            "start() runs a stream, and df is none; for a batch DataFrame write answers(df, …), which is complete."
        )
    return frames


def launch(
    df: Frames,
    workload: Query | Iterable[Query] | Workload[Any],
    *,
    write: Write,
    checkpoint: str,
    time: str,
    id_: str | None,
    watermark: str | timedelta | None,
    bounded: bool,
    algorithm: str,
    late: Write | Literal["count", "refuse"],
    output: Output,
    shards: int | None,
    row_copies: bool = False,
    sole_watermark: bool = False,
    dead_letters: tuple[DataFrame, Write] | None = None,
    progress: StreamProgress | None = None,
    limits: LateLimits | None = None,
    before: ShardPlan | None = None,
    locked: bool = False,
    opened: OpenedSinks | None = None,
) -> Handle:
    """What `start` does; answers and changes may be asked for together, and rows with all their columns.

    `sole_watermark`: whether the data frame is a stream as its source gives it, without watermarks of its own. Windows
    are then answered in the micro-batch that ends them, not in the next.
    `dead_letters` are malformed records and their writer; they run as a query of their own, from their own place in the
    source. `progress` is that of a run which this one goes on with: its numbers go on, too. `before` is the plan that
    the state was written under. `locked`: whether the caller has locked the checkpoint already.
    `limits` says how many rows may be late. `opened` are sinks that are closed when the stream ends.
    """
    spark = _streaming(df)[0].sparkSession
    kept = Checkpoint(spark, checkpoint)
    description = kept.read()
    mode: Late = "return" if callable(late) else late
    draft = check(
        df,
        workload,
        time=time,
        id_=id_,
        watermark=watermark,
        algorithm=algorithm,
        late=mode,
        output=output,
        shards=shards if shards is not None or description is None else description["shards"],
        row_copies=row_copies,
        sole_watermark=sole_watermark,
        final_at_end=bounded,
    )
    if before is not None:
        refuse_unresumable(before, draft.plan)
    lock = Lock(None if locked else kept.lock)
    try:
        lock.take()
        control = Control(spark, kept.control)
        if description is None:
            kept.refuse_unwritable(control.open)
        kept.agree(draft.description, description)
        progress = StreamProgress() if progress is None else progress
        progress.stream_info = draft.stream_info
        pipeline = draft.assemble(kept.control)
        side_outputs = [] if dead_letters is None else [(dead_letters[1], dead_letters[0], kept.dead)]
        if callable(late) and pipeline.late is not None:
            side_outputs.append((late, pipeline.late, kept.late))
        handle = Handle(
            pipeline,
            progress,
            kept,
            control,
            write,
            side_outputs,
            limits or LateLimits(),
            bounded=bounded,
            plan=draft.plan,
            lock=lock,
            opened=opened,
        )
        handle.begin()
    except BaseException:
        lock.release()
        raise
    return handle


class OpenedSinks:
    """Sinks that are given the answers of a workload over a stream."""

    def __init__(self, sinks: Sequence[Sink], workload: Workload[Any], spark: SparkSession, stream: str) -> None:
        if type(spark).__module__.startswith("pyspark.sql.connect"):
            raise UnsupportedError(
                "sinks= are held by this process, and this session is one of Spark Connect, which would run them "
                "elsewhere; take a session of its own, or write with write=."
            )
        self._workload, self._stream = workload, stream
        opening = Opening(spark, stream, lambda: workload)
        self._wanted = [_opened(sink, opening) for sink in _checked(sinks, workload)]
        try:
            for server in servers_among(self._wanted):
                server.reach()  # before anything is written
        except BaseException:
            self.close()
            raise

    @property
    def output(self) -> Output:
        """What the pipeline must give to serve all of them."""
        return output_of(self._wanted)

    @property
    def folders(self) -> list[Folder]:
        """Those of them that write files."""
        return [one.outlet for one in self._wanted if isinstance(one.outlet, Folder)]

    def refuse_foreign_files(self, checkpoint: str) -> None:
        """Refuse folders that hold files of another run, which those of this one would be mixed with."""
        for folder in self.folders:
            if folder.files():
                raise InvalidInputError(
                    f"{str(folder.folder)!r} holds {folder.holds} of stream {self._stream!r} from another run, "
                    f"and {checkpoint!r} has no state to go on from; new files would be mixed with them. Give another "
                    "path or checkpoint, or remove them."
                )

    def write(self, out: DataFrame) -> DataStreamWriter:
        """The writer of the answers."""
        open_servers(self._wanted, self._workload, self.output, out)
        return out.writeStream.foreachBatch(write_to(self._wanted, self._workload, self.output)).queryName(self._stream)

    def stop_waiting(self) -> None:
        """Make no further attempt where a server is gone."""
        for server in servers_among(self._wanted):
            server.stop_waiting()

    def close(self) -> None:
        """Leave the servers."""
        for server in servers_among(self._wanted):
            server.close()


def _checked(sinks: Sequence[Sink], workload: Workload[Any]) -> Sequence[Sink]:
    """The sinks, if they are some, and take the answers of queries there are."""
    if not isinstance(sinks, Sequence) or not sinks:
        raise InvalidInputError(f"sinks={brief(sinks)} must be a list of sinks: sinks=[skyband.sinks.Parquet(path=…)].")
    names = [query.name for query in workload]
    for sink in sinks:
        if not isinstance(sink, Sink):
            raise InvalidInputError(f"sinks= holds {brief(sink)}, which is no sink; skyband.sinks has them.")
        for name in sink.queries or ():
            if name not in names:
                raise UnknownNameError.among(f"a sink of type {sink.type}: query", name, names)
    return sinks


def _opened(sink: Sink, opening: Opening) -> Wanted:
    outlet = sink.open(opening)
    if outlet is None:
        raise InvalidInputError(
            f"a sink of type {sink.type} is shown by skyband run, and by nothing else; use write=lambda out: "
            'out.writeStream.format("console"), or another sink.'
        )
    return Wanted(outlet, sink.output, sink.queries)
