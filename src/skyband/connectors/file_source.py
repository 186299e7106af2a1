"""The data source that Spark runs for a scan of files: offsets, micro-batches and partitions.

Files are taken in the order of their modification times, then of their paths, each once. An offset is the number of a
list in the log of read files (`spark.file_log`), as of Spark's own file source. This file holds all that depends on the
version of PySpark's data source API.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from skyband.connectors.arrow.delta_changes import stored_path
from skyband.connectors.arrow.paths import is_document, listed_files
from skyband.connectors.arrow.splits import Split, balanced, splits_of
from skyband.connectors.arrow.tables import FollowedTable, follow_table
from skyband.connectors.dead_folder import clear_staged
from skyband.connectors.file_formats import is_blocked
from skyband.connectors.file_scan import FileScan
from skyband.errors import InvalidInputError
from skyband.spark.envelope_columns import SCANNED
from skyband.spark.file_log import INTERVAL, FileEntry, FileLog
from skyband.spark.timely_rows import TimelyRows
from skyband.windows import NEVER

__all__ = ["Admission", "scan_files"]

_OFFSET = "logOffset"  # the name that Spark's file source uses


@dataclass(frozen=True)
class Admission:
    """How many files a micro-batch takes, how many tasks read it, and where the list of read files is stored."""

    tasks: int
    log: str | None = None  # None: not a stream
    interval: int = INTERVAL
    files: int | None = None
    bytes: int | None = None


def scan_files(spark: SparkSession, scan: FileScan, admission: Admission) -> DataFrame:
    """Return the envelopes and counts of files that tasks read: a stream if there is a log, else a batch."""
    name = f"skyband-files-{uuid4().hex}"

    class Files(DataSource):
        """Pickled with its scan: Spark passes a class to its planner and to tasks."""

        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> str:
            return SCANNED

        def reader(self, schema: Any) -> DataSourceReader:
            return _BatchReader(scan, admission)

        def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
            return _StreamReader(scan, admission)

    spark.dataSource.register(Files)
    return (spark.read if admission.log is None else spark.readStream).format(name).load()


class _Part(InputPartition):
    """The splits of one task. From the position `timely` on no row is late."""

    def __init__(self, splits: Sequence[Split], timely: int = NEVER) -> None:
        self.splits, self.timely = list(splits), timely


class _BatchReader(DataSourceReader):
    """Reads the files that exist when the query is planned."""

    def __init__(self, scan: FileScan, admission: Admission) -> None:
        self._scan, self._admission = scan, admission

    def partitions(self) -> list[InputPartition]:
        """Return the parts of the files, one for each task."""
        found = [
            FileEntry(str(file), 0, stored_path(file).stat().st_size)
            for file in listed_files(self._scan.name, self._scan.stream)
        ]
        return _parts(self._scan, found, self._admission.tasks) or [_Part([])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield envelopes."""
        assert isinstance(partition, _Part)
        return self._scan.read(partition.splits)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows a folder. One process of the driver plans the micro-batches of a query; tasks only `read`."""

    def __init__(self, scan: FileScan, admission: Admission) -> None:
        self._scan, self._admission = scan, admission
        self._log: FileLog | None = None
        self._timely = TimelyRows(Path(str(admission.log)))
        self._pending: list[FileEntry] | None = None  # with the trigger availableNow: the files at its start
        self._table: FollowedTable | None = None  # if the stream reads one
        self._found: list[FileEntry] = []  # files of a table that may not be in a list yet

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Return the offset before the first list."""
        return {_OFFSET: -1}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the stream's limit of files or bytes in a micro-batch."""
        if self._admission.files is not None:
            return ReadMaxFiles(self._admission.files)
        return ReadAllAvailable() if self._admission.bytes is None else ReadMaxBytes(self._admission.bytes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Record the files that exist now."""
        self._pending = self._new_files()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Write a list of new files, if there are any, and return its number.

        A list that was written before a crash and not planned by Spark is read first.
        """
        self._opened_log.require(start[_OFFSET])
        if self._opened_log.last > start[_OFFSET]:
            return {_OFFSET: self._opened_log.last}
        new = self._new_files() if self._pending is None else self._pending
        taken = new[: _admitted(new, limit)]
        if self._pending is not None:
            self._pending = new[len(taken) :]
        return {_OFFSET: self._opened_log.add(taken) if taken else start[_OFFSET]}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """Return the parts of the files of the lists between two offsets, one for each task."""
        if self._scan.letters is not None:
            clear_staged(Path(self._scan.letters))  # of an attempt of this micro-batch that failed
        self._opened_log.require(end[_OFFSET])
        entries = [self._checked(entry) for entry in self._opened_log.between(start[_OFFSET], end[_OFFSET])]
        return _parts(self._scan, entries, self._admission.tasks, self._timely.position(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield envelopes."""
        assert isinstance(partition, _Part)
        return self._scan.read(partition.splits, partition.timely)

    @property
    def _opened_log(self) -> FileLog:
        if self._log is None:
            self._log = FileLog(Path(str(self._admission.log)), self._admission.interval)
        return self._log

    def _new_files(self) -> list[FileEntry]:
        """Return the files that no list has, in the order in which they are taken."""
        if self._scan.stream.of_table is not None:
            return self._new_files_of_table()
        found = []
        for file in listed_files(self._scan.name, self._scan.stream):
            if str(file) not in self._opened_log:
                try:
                    state = file.stat()
                except OSError:
                    continue  # removed since it was listed
                found.append((state.st_mtime_ns, FileEntry(str(file), state.st_mtime_ns // 1_000_000, state.st_size)))
        return [entry for _, entry in sorted(found)]

    def _new_files_of_table(self) -> list[FileEntry]:
        """Return the files of a table that no list has, by the versions that added them."""
        if self._table is None:
            schema = self._scan.reader.schema
            self._table = follow_table(self._scan.name, self._scan.stream, self._opened_log, schema)
        found = [*self._found, *(FileEntry(*file) for file in self._table.look())]
        self._found = [entry for entry in found if entry.path not in self._opened_log]
        return self._found

    def _checked(self, entry: FileEntry) -> FileEntry:
        """Return a file with its current size; a stream does not skip a file.

        A file that was rejected may have been corrected since it was listed. It is read as it is, as by Spark's reader.
        """
        try:
            size = stored_path(entry.path).stat().st_size
        except OSError as error:
            raise InvalidInputError(
                f"stream {self._scan.name!r}: {entry.path!r} is to be read in this micro-batch, but cannot be opened "
                f"({error.strerror}). The stream stopped, because its rows would be lost. Restore the file and run it "
                "again, or start with a new checkpoint."
            ) from None
        return entry._replace(size=size)


def _parts(scan: FileScan, entries: Sequence[FileEntry], tasks: int, timely: int = NEVER) -> list[InputPartition]:
    files = [(Path(entry.path), entry.size or 0) for entry in entries]
    kind = str(scan.stream.format)
    # A Parquet or Avro file without bytes is not complete. If unreadable files are reported, it is one of them.
    keep_empty = is_blocked(kind) and scan.stream.skips_unreadable
    splits = splits_of(kind, files, tasks, keep_empty=keep_empty, whole=is_document(scan.stream))
    return [_Part(some, timely) for some in balanced(splits, tasks)]


def _admitted(new: Sequence[FileEntry], limit: ReadLimit) -> int:
    """Return how many files a micro-batch takes: at least one, if there is one."""
    if isinstance(limit, ReadMaxFiles):
        return max(1, limit.max_files)
    if not isinstance(limit, ReadMaxBytes):
        return len(new)
    total = 0
    for place, entry in enumerate(new):
        total += entry.size or 0
        if total > limit.max_bytes:
            return max(1, place)
    return len(new)
