"""Files as an input of `answers` and `start`: tasks read and reduce them, or Spark reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from pydantic import ValidationError
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from skyband.connectors.arrow.paths import listed_files, on_spark, option, refuse_options
from skyband.connectors.arrow.rows import LocalRows, open_files
from skyband.connectors.csv_headers import FileShape
from skyband.connectors.file_columns import columns_of_tasks, shape_of_tasks
from skyband.connectors.file_rows import shape_of_files
from skyband.connectors.file_scan import FileScan, Watched
from skyband.connectors.files import FilesSource
from skyband.connectors.sources import named_in, open_batch, open_stream, reported_as_stream
from skyband.errors import InvalidInputError, SkybandError, UnsupportedError
from skyband.paths import has_scheme
from skyband.queries.workload import Workload
from skyband.spark.inputs import RowInput, Scan
from skyband.spark.sessions import cores_of
from skyband.spark.versions import arrow_schema, has_limited_sources, is_remote

if TYPE_CHECKING:
    from skyband.connectors.file_source import Admission
    from skyband.local.pipeline import LocalPlan
    from skyband.spark.topology import SparkPlan

__all__ = ["FileInput", "read_files"]

_LOG_INTERVAL = "spark.sql.streaming.fileSource.log.compactInterval"
# Settings that do not change what is read from a file or computed from a row.
_HARMLESS = (
    "spark.sql.adaptive.",
    "spark.sql.artifact.",
    "spark.sql.autobroadcastjointhreshold",
    "spark.sql.broadcasttimeout",
    "spark.sql.catalog",
    "spark.sql.codegen.",
    "spark.sql.execution.",
    "spark.sql.files.maxpartition",
    "spark.sql.files.minpartition",
    "spark.sql.files.opencost",
    "spark.sql.shuffle.",
    "spark.sql.streaming.",
    "spark.sql.ui.",
    "spark.sql.warehouse.",
)
_AS_ASSUMED = {"spark.sql.session.timezone": ("utc", "etc/utc", "z", "+00:00"), "spark.sql.ansi.enabled": ("true",)}


def read_files(
    path: str,
    *,
    format: str | None = None,  # noqa: A002 - the key of a workload file
    schema: Mapping[str, str] | None = None,
    columns: Mapping[str, str] | None = None,
    time_format: str | None = None,
    options: Mapping[str, Any] | None = None,
    files_per_batch: int | None = None,
    reader: Literal["auto", "spark"] | None = None,
    streaming: bool = False,
    name: str = "files",
    spark: SparkSession | None = None,
) -> FileInput:
    """Return files that `answers` and `start` read, in place of a data frame.

    Tasks read the files with Arrow, evaluate the queries' expressions and pass on only rows that can be in an answer.
    Spark's reader would pass every row to Python. The answers are the same. Where tasks cannot read a file exactly as
    Spark does, or cannot compute an expression, Spark reads the files; a warning and the metric ``reader`` report why.

    Parameters
    ----------
    path, format, schema, columns, time_format, options, files_per_batch, reader
        As the keys of a stream of files in a workload file.
    streaming
        Whether `answers` follows the folder. `start` always does. The list of read files is in the checkpoint, which
        only `start` knows, so Spark reads the files of a stream of `answers`.
    name
        The name of the stream in messages.
    spark
        The session. Default: the active one.

    Examples
    --------
    >>> from skyband.spark import read_files, start
    >>> trades = read_files("trades/*.parquet")
    >>> handle = start(trades, big, time="ts", watermark="10 seconds", checkpoint="checkpoint",
    ...                write=lambda out: out.writeStream.format("console"))  # doctest: +SKIP
    """
    given: dict[str, Any] = {
        "path": path,
        "format": format,
        "schema": None if schema is None else dict(schema),
        "columns": dict(columns or {}),
        "time_format": time_format,
        "options": dict(options or {}),
        "files_per_batch": files_per_batch,
        "reader": reader,
    }
    raw = {key: value for key, value in given.items() if value is not None}
    try:
        problem = next(iter(FilesSource.rules(raw)), None)
        stream = FilesSource(**raw, time=_UNKNOWN)
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidInputError(
            f"{'.'.join(map(str, first['loc']))}: {first['msg']}, got {first['input']!r}."
        ) from None
    if problem is not None:
        raise InvalidInputError(f"{problem[0]}: {problem[1]}")
    return FileInput(name, stream.settled(Path.cwd()), spark, streaming=streaming)


_CANNOT_SKIP = (
    "Spark's reader would have to read the files. It cannot skip a file that cannot be read, as unreadable_files: "
    "dead_letters requests, so the stream stopped. Set unreadable_files to stop, or change what is not supported."
)
_LETTERS_OF_TASKS = (
    "Spark's reader would have to read the files, but tasks write the dead letters of this stream since it ran with "
    "unreadable_files: dead_letters, so the stream stopped. Remove dead_letters, or start over with --fresh."
)
_SHARED = "Set shared: true if all machines of the session have it at the same path. "
_UNKNOWN = "?"  # the time column, until `answers` names it


class FileInput(RowInput):
    """Files of a stream. Created by `read_files`, or from a stream of a workload file."""

    def __init__(
        self,
        name: str,
        stream: FilesSource,
        spark: SparkSession | None = None,
        *,
        streaming: bool = True,
        at_once: bool = False,
        counted: bool = False,
        letters: str | None = None,
    ) -> None:
        """`letters` is a folder in which tasks stage dead letters; Spark's reader must not read the files then."""
        self._name, self._stream, self._spark = name, stream, spark
        self.streaming, self.by_spark = streaming, stream.reader == "spark"
        self._at_once = at_once  # one micro-batch takes all available files
        self._counted = counted  # whether the rows of a batch are observed
        self._letters = letters
        if stream.by_tasks_only is not None:
            self.tasks_only = f"{stream.by_tasks_only} So the stream stopped. Change what is not supported."
        elif stream.skips_unreadable or letters is not None:
            self.tasks_only = _CANNOT_SKIP if stream.skips_unreadable else _LETTERS_OF_TASKS
        self._shape: FileShape | None = None  # the columns of the files
        self.opened: tuple[LocalRows, LocalPlan] | None = None  # what tasks read, and the plan over it
        self._observations: dict[bool, Observation] = {}  # by whether tasks read the rows

    def observation(self, *, by_tasks: bool) -> Observation:
        """Return the counts of the rows of a batch and of the malformed ones."""
        return self._observations[by_tasks]

    @property
    def session(self) -> SparkSession:
        """The session in which the files are read."""
        if self._spark is not None:
            return self._spark
        try:
            return SparkSession.active()
        except PySparkRuntimeError:
            raise InvalidInputError(
                "there is no active Spark session to read files in. Create one with skyband.spark.session()."
            ) from None

    def open(self, time: str, workload: Workload[Any], *, streaming: bool, number: int = 0) -> DataFrame:
        """Return the rows as a data frame that Spark reads."""
        stream, spark, name = self._timed(time), self.session, self._name
        if stream.by_tasks_only is not None:
            self._shape = shape = shape_of_tasks(spark, name, stream)
            return columns_of_tasks(spark, name, stream, shape, streaming=streaming)
        with reported_as_stream(name):
            self._shape = shape = shape_of_files(spark, name, stream)
        if streaming:
            at_once = self._at_once
            return open_stream(spark, name, stream, asked=workload, at_once=at_once, shape=shape, number=number)
        counted = self._observations[False] = Observation("skyband_source")
        return open_batch(spark, name, stream, counted if self._counted else None, asked=workload, shape=shape)

    def scan(self, plan: SparkPlan, frame: DataFrame, label: Any, folder: str | None) -> Scan:
        """Return what reads and reduces the files in tasks; raise SkybandError if tasks cannot do that."""
        stream, streaming = self._timed(plan.asked.time), folder is not None
        refuse_options(self._name, stream)
        _refuse_other_places(self._name, self.session, stream, folder)
        rows = self._rows(stream, frame)
        watched = None if plan.watched is None else Watched(*plan.watched[:2])
        found = FileScan(
            uuid4().hex, self._name, stream, rows.reader, plan.asked, label, {}, streaming, watched, self._letters
        )
        _, local = found.open()
        if local.plan != plan.plan:
            raise UnsupportedError("the plan over Arrow columns differs from the plan over Spark columns.")
        # Which row groups are skipped must not depend on the queries, so all columns are read to find damage.
        checked = set(rows.reader.schema.names) if stream.skips_unreadable else _named(stream, rows, plan)
        narrow = rows.narrow(local.read, checked, local.texts)
        self.opened = rows, local

        def envelopes(keys: Mapping[int, int]) -> DataFrame:
            sent = replace(found, token=uuid4().hex, stream=narrow.stream, reader=narrow.reader, keys=dict(keys))
            from skyband.connectors.file_source import scan_files  # needs Spark 4.2

            scanned = scan_files(self.session, sent, self._admission(stream, folder))
            return self._observed(scanned) if self._counted and not streaming else scanned

        return envelopes

    def _timed(self, time: str) -> FilesSource:
        return self._stream if self._stream.time != _UNKNOWN else self._stream.model_copy(update={"time": time})

    def _rows(self, stream: FilesSource, frame: DataFrame) -> LocalRows:
        """Return the rows that tasks read, with the columns and types that Spark reads or has inferred."""
        files = listed_files(self._name, stream)
        shape = self._shape
        assert shape is not None  # `open` was called before
        kinds = {field.name: field.dataType for field in shape.fields}
        fields = [StructField(new, kinds[old]) for old, new in shape.names.items()]
        declared = arrow_schema(StructType(fields))
        rows = LocalRows(self._name, stream, open_files(self._name, stream, files, declared))
        expected = arrow_schema(frame.schema)
        here, there = ([(field.name, field.type) for field in found] for found in (rows.schema, expected))
        if here != there:
            ours, theirs = next((pair for pair in zip_longest(here, there) if pair[0] != pair[1]), (None, None))
            raise on_spark(self._name, f"a column that Spark reads as {theirs} and Arrow as {ours}")
        return rows

    def _admission(self, stream: FilesSource, folder: str | None) -> Admission:
        from skyband.connectors.file_source import Admission

        spark = self.session
        limits: dict[str, int] = {}
        if folder is not None and not self._at_once:
            if (most := stream.files_per_batch or option(stream, "maxfilespertrigger", "")) != "":
                limits["files"] = int(most)
            if (most := option(stream, "maxbytespertrigger", "")) != "":
                limits["bytes"] = int(most)
        tasks = cores_of(spark) or int(spark.conf.get("spark.sql.shuffle.partitions", "200") or 200)
        return Admission(tasks, folder, int(spark.conf.get(_LOG_INTERVAL, "10") or 10), **limits)

    def _observed(self, scanned: DataFrame) -> DataFrame:
        """Return a batch, with an observation of its counts."""
        counted = self._observations[True] = Observation("skyband_source")
        names = {"source_rows": "rows", "malformed": "malformed", "unreadable": "unreadable"}
        return scanned.observe(counted, *(sf.sum(column).alias(name) for column, name in names.items()))


def _named(stream: FilesSource, rows: LocalRows, plan: SparkPlan) -> set[str]:
    """Return the columns that Spark's reader would check for malformed text: those that a query can name."""
    text = named_in(stream, plan.asked.workload)
    return {name for name in rows.reader.schema.names if text is None or name.lower() in text}


def _refuse_other_places(name: str, spark: SparkSession, stream: FilesSource, folder: str | None) -> None:
    """Reject sessions in which tasks may see other files, or read and compute in another way."""

    def refused(what: str, fix: str = "") -> SkybandError:
        if stream.of_table is None:
            return on_spark(name, what)
        return UnsupportedError(
            f"stream {name!r}: {what} is not supported for {stream.of_table}s. {fix}Run the file with --local."
        )

    if not has_limited_sources():
        raise refused(f"Spark {spark.version}, whose data sources in Python read all files at once,")
    if is_remote(spark):
        raise refused("a Spark Connect session, whose server may run on another machine,")
    master = spark.conf.get("spark.master", "") or ""
    if not stream.shared and not master.startswith("local"):
        raise refused(f"master {master!r}, on which a path may be of another file system,", _SHARED)
    if has_scheme(stream.path) or (folder is not None and has_scheme(folder)):
        raise refused(f"path {(stream.path if has_scheme(stream.path) else folder)!r}, which has a scheme,")
    for key, value in dict(spark.conf.getAll).items():
        known = key.lower()
        if not known.startswith("spark.sql.") or known.startswith(_HARMLESS):
            continue
        if str(value).lower() not in _AS_ASSUMED.get(known, ()):
            raise refused(f"the setting {key}={value}, which can change what is read or computed,")
