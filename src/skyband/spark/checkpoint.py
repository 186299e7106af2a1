"""The checkpoint folder of a workload: Spark's checkpoint, control messages, and the description of the workload."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from skyband.errors import InvalidInputError, SnapshotError
from skyband.paths import has_scheme
from skyband.sharding.delivery import Folder, refuse_newer_batches
from skyband.sharding.plan import ShardPlan, without_copies
from skyband.snapshot import StateFormat
from skyband.spark.control import CONTROL_FOLDER
from skyband.spark.spark_errors import first_line, is_gone
from skyband.spark.versions import is_remote

__all__ = ["DESCRIPTION", "Checkpoint", "refuse_newer_files", "refuse_unresumable"]


def _without_second_copies(description: dict[str, Any]) -> dict[str, Any]:
    """Version 1 also lists second copies of group columns, which follow from the queries."""
    columns = description.get("columns")
    if not isinstance(columns, dict):
        return description
    return {**description, "columns": {name: columns[name] for name in without_copies(columns)}}


def _revision(line: str) -> int:
    try:
        return int(json.loads(line).get("revision", 0))
    except (ValueError, AttributeError):
        return -1


NEWER_KEYS = ("time", "id")  # descriptions of earlier versions do not have them for all families
_CONVERTED = "start once with reshard=True (skyband run --reshard) to convert the state, "
DESCRIPTION = StateFormat("description of a checkpoint", [_without_second_copies])


class Checkpoint:
    """Reads and writes the description of a checkpoint, through Spark, so that the folder can be remote."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        if not isinstance(folder, str) or not folder.strip():
            raise InvalidInputError(
                f"checkpoint must be the path of a folder, got {folder!r}. The stream's state is stored there."
            )
        self._spark = spark
        self.folder = folder.rstrip("/")
        self.control = f"{self.folder}/{CONTROL_FOLDER}"
        self.late = f"{self.folder}/skyband/late"
        self.dead = f"{self.folder}/skyband/dead"
        self.letters = f"{self.folder}/skyband/letters"  # dead letters of tasks that are not published yet
        self._description = f"{self.folder}/skyband/about"
        self.lock = self._lock()  # the file to lock, if the folder is local

    def read(self) -> dict[str, Any] | None:
        """Return the description, migrated to the current version; None if the checkpoint is new."""
        found = self._newest_description()
        if not found and self._first(f"{self.folder}/metadata") is None:
            return None  # new; an empty description means that the first start was killed
        if found is None:
            raise SnapshotError(
                f"checkpoint={self.folder!r} was written by another stream, not by Skyband. Its state cannot be used, "
                "and this stream would damage it. Use another folder."
            )
        try:
            description = json.loads(found)
            if not isinstance(description, dict):
                raise ValueError(found)
        except ValueError:
            raise SnapshotError(
                f"checkpoint={self.folder!r} is damaged: its description in {self._description!r} cannot be read. "
                "Restore it from a backup, or start with a new folder."
            ) from None
        try:
            return DESCRIPTION.migrated(description)
        except SnapshotError as error:
            raise SnapshotError(f"checkpoint={self.folder!r} cannot be resumed: {error}") from None

    def _newest_description(self) -> str | None:
        """Return the text of the description; it has one file for each time that it was changed."""
        lines = self._lines(self._description)
        if lines is None or len(lines) < 2:
            return None if lines is None else "".join(lines)
        return max(lines, key=_revision)

    def revise(self, description: Mapping[str, Any], **changed: Any) -> dict[str, Any]:
        """Change values of the description. When this returns, the change survives a crash."""
        found = {**description, **changed, "revision": int(description.get("revision", 0)) + 1}
        self._frame(DESCRIPTION.stamped(found)).write.mode("append").text(self._description)
        return found

    def agree(self, plan: Mapping[str, Any], description: dict[str, Any] | None) -> None:
        """Reject a plan that does not match the description; write the description of a new checkpoint."""
        if description is None:
            self._write(DESCRIPTION.stamped(plan))
            return
        for what, value in plan.items():
            if what in NEWER_KEYS and what not in description:
                continue
            if description.get(what) != value:
                raise SnapshotError(
                    f"checkpoint={self.folder!r} was written with {what}={description.get(what)!r} and cannot be "
                    f"resumed with {what}={value!r}. Restore the previous value, "
                    f"{_CONVERTED if what == 'shards' else ''}or start with a new folder."
                )

    @property
    def is_local(self) -> bool:
        """Whether the folder is on a file system of this machine, and this machine runs all tasks."""
        if self.lock is None:
            return False
        files = self._files(self.folder)[0]
        return bool(files.getUri().getScheme() == "file")  # a path without a scheme may be on the default file system

    def last_batch(self, folder: str, log: str = "offsets") -> int:
        """Return the number of the last micro-batch that Spark has planned in a folder; -1 before the first.

        If the micro-batch is not in the log "commits", Spark repeats it.
        """
        try:
            names = self._names(f"{folder}/{log}")
        except Exception as error:
            raise SnapshotError(f"checkpoint={self.folder!r} cannot be read: {first_line(error)}") from error
        return max((int(name) for name in names if name.isdecimal()), default=-1)

    def number_in(self, path: str) -> int | None:
        """Return the number in a text file; None if there is none. Raise SnapshotError if it is not a number."""
        lines = self._lines(path)
        if not lines:  # not written, or not completely
            return None
        text = "".join(lines)
        if not text.removeprefix("-").isdecimal():
            raise SnapshotError(
                f"{path!r} must contain the number of the last micro-batch that the sinks have received, got "
                f"{text[:40]!r}: it was damaged, so the stream was not started. Restore the checkpoint from a backup; "
                "or write the number of the newest micro-batch that is in the sinks into that file."
            )
        return int(text)

    def files_in(self, folder: str) -> list[str]:
        """Return the names of the files and folders in a folder; empty if it does not exist."""
        return self._names(folder)

    def lines_of(self, path: str) -> list[str] | None:
        """Return the lines of a text file; None if it does not exist."""
        return self._lines(path)

    def _names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder; without access to Java, Spark's reader of files lists them."""
        if self.is_remote:
            try:
                found = self._spark.read.format("binaryFile").load(folder).select("path").collect()
            except AnalysisException as error:
                if (error.getCondition() or "").startswith("PATH_NOT_FOUND"):
                    return []
                raise
            return [str(row[0]).rpartition("/")[2] for row in found]
        files, path = self._files(folder)
        return [str(status.getPath().getName()) for status in (files.listStatus(path) if files.exists(path) else ())]

    def _files(self, path: str) -> tuple[Any, Any]:
        """Return Hadoop's file system of a path, and the path."""
        context: Any = self._spark.sparkContext
        found = context._jvm.org.apache.hadoop.fs.Path(path)
        return found.getFileSystem(context._jsc.hadoopConfiguration()), found

    def _first(self, path: str) -> str | None:
        lines = self._lines(path)
        return None if lines is None else "".join(lines[:1])

    def _lines(self, path: str) -> list[str] | None:
        """Return the lines of the text files in a folder; None if it does not exist."""
        try:
            return [str(row[0]) for row in self._spark.read.text(path).collect()]
        except AnalysisException as error:
            if (error.getCondition() or "").startswith("PATH_NOT_FOUND"):
                return None
            raise
        except Exception as error:  # from Spark, or from Py4J: a checksum that does not fit
            if is_gone(error):
                raise
            raise SnapshotError(
                f"checkpoint={self.folder!r} cannot be read: {path!r}: {first_line(error)}. Restore it from a backup, "
                "or start with a new folder."
            ) from error

    @property
    def is_remote(self) -> bool:
        """Whether the session is of Spark Connect, which has no access to Java."""
        return is_remote(self._spark)

    def _lock(self) -> Path | None:
        folder = self.folder.removeprefix("file://").removeprefix("file:")
        if (
            self.is_remote
            or has_scheme(folder)
            or not (self._spark.conf.get("spark.master", "") or "").startswith("local")
        ):
            return None  # a path on this machine may refer to another file system on the cluster
        return Path(folder) / "skyband" / "lock"

    def refuse_unwritable(self, write: Callable[[], None]) -> None:
        """Run the first write below the folder; raise InvalidInputError if it fails."""
        try:
            write()
        except Exception as error:
            raise InvalidInputError(
                f"checkpoint={self.folder!r} cannot be written ({first_line(error)}), so the stream was not started. "
                "Use a folder that Spark can write to."
            ) from None

    def _write(self, description: dict[str, Any]) -> None:
        self._frame(description).write.mode("overwrite").text(self._description)

    def _frame(self, description: Mapping[str, Any]) -> DataFrame:
        return self._spark.createDataFrame([(json.dumps(description),)], "value string").coalesce(1)


def refuse_newer_files(kept: Checkpoint, folders: Sequence[Folder], stream: str) -> None:
    """Reject a checkpoint that is older than the files in an output folder; see `refuse_newer_batches`."""

    def last(folder: Folder) -> int:
        return folder.first + kept.last_batch(kept.dead if folder.of_dead_letters else kept.folder)

    refuse_newer_batches(folders, stream, kept.folder, last)


def refuse_unresumable(before: ShardPlan, after: ShardPlan, past: frozenset[str] = frozenset()) -> None:
    """Reject a plan with which a shard cannot load the state that it stored under the plan `before`.

    Stores and resumes an empty shard that has seen the stream, so that the shard's own checks apply. `past` names new
    queries whose past arrives in a message.
    """
    from skyband.sharding.shard import shard_type  # noqa: PLC0415 - imports compiled code, which few runs need

    for number in range(0, before.units, before.shards):  # one of each scan
        kind = shard_type(before, number)
        shard = kind(before, number)
        shard.newest = 0
        kind.resume(after, number, shard.state(), shard.segments, past)
