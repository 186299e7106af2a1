"""The folder of a running workload: Spark's checkpoint, our control messages, and what the two were made for."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from skyband.errors import InvalidInputError, SnapshotError
from skyband.paths import has_scheme
from skyband.sharding.plan import ShardPlan, without_copies
from skyband.snapshot import StateFormat
from skyband.spark.control import CONTROL_FOLDER
from skyband.spark.delivery import Folder
from skyband.spark.spark_errors import first_line

__all__ = ["DESCRIPTION", "Checkpoint", "refuse_newer_files", "refuse_unresumable"]

_NUMBER = re.compile(r"-(\d{8,})(?:\.\w+)?$")


def _without_second_copies(description: dict[str, Any]) -> dict[str, Any]:
    """Version 1 also names second copies of columns that groups are told by, which follow from the queries."""
    columns = description.get("columns")
    if not isinstance(columns, dict):
        return description
    return {**description, "columns": {name: columns[name] for name in without_copies(columns)}}


DESCRIPTION = StateFormat("description of a checkpoint", [_without_second_copies])


class Checkpoint:
    """Reads and writes what tells our checkpoints from others. Spark does the writing, wherever the folder is."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        if not isinstance(folder, str) or not folder.strip():
            raise InvalidInputError(f"checkpoint={folder!r} must be a folder; the stream's state is kept there.")
        self._spark = spark
        self.folder = folder.rstrip("/")
        self.control = f"{self.folder}/{CONTROL_FOLDER}"
        self.late = f"{self.folder}/skyband/late"
        self.dead = f"{self.folder}/skyband/dead"
        self._description = f"{self.folder}/skyband/about"
        self.lock = self._lock()  # the file to lock, where the folder is on this machine

    def read(self) -> dict[str, Any] | None:
        """What the checkpoint was made for, as this version has it; None if there is none yet."""
        found = self._first(self._description)
        if not found and self._first(f"{self.folder}/metadata") is None:
            return None  # nothing has run; where there is something without content, its first start was killed
        if found is None:
            raise SnapshotError(
                f"checkpoint={self.folder!r} was written by another stream, not by Skyband; its state is of no use "
                "here, and writing to it would spoil it. Give a folder of its own."
            )
        try:
            description = json.loads(found)
            if not isinstance(description, dict):
                raise ValueError(found)
        except ValueError:
            raise SnapshotError(
                f"checkpoint={self.folder!r} is damaged: what it says about itself cannot be read. Restore it "
                "from a copy, or start with a new folder."
            ) from None
        try:
            return DESCRIPTION.migrated(description)
        except SnapshotError as error:
            raise SnapshotError(f"checkpoint={self.folder!r} cannot be resumed: {error}") from None

    def agree(self, plan: Mapping[str, Any], description: dict[str, Any] | None) -> None:
        """Refuse a plan that does not fit what is there; write down a new one."""
        if description is None:
            self._write(DESCRIPTION.stamped(plan))
            return
        for what, value in plan.items():
            if description.get(what) != value:
                raise SnapshotError(
                    f"checkpoint={self.folder!r} was written with {what}={description.get(what)!r} and is taken up "
                    f"with {what}={value!r}; what it holds would not fit. Go on as before, or start with a new folder."
                )

    def last_batch(self, folder: str) -> int:
        """The number of the last micro-batch that Spark has planned in a folder; -1 before the first.

        It may not have been noted down as done, and is then run again.
        """
        context: Any = self._spark.sparkContext
        path = context._jvm.org.apache.hadoop.fs.Path(f"{folder}/offsets")
        try:
            files = path.getFileSystem(context._jsc.hadoopConfiguration())
            there = files.listStatus(path) if files.exists(path) else []
            names = [str(status.getPath().getName()) for status in there]
        except Exception as error:
            raise SnapshotError(f"checkpoint={self.folder!r} cannot be read: {first_line(error)}") from error
        return max((int(name) for name in names if name.isdecimal()), default=-1)

    def _first(self, path: str) -> str | None:
        try:
            rows = self._spark.read.text(path).take(1)
        except AnalysisException as error:
            if (error.getCondition() or "").startswith("PATH_NOT_FOUND"):
                return None
            raise
        except PySparkException as error:
            raise SnapshotError(f"checkpoint={self.folder!r} cannot be read: {first_line(error)}") from error
        return str(rows[0][0]) if rows else ""

    def _lock(self) -> Path | None:
        folder = self.folder.removeprefix("file://").removeprefix("file:")
        remote = type(self._spark).__module__.startswith("pyspark.sql.connect")
        if remote or has_scheme(folder) or not (self._spark.conf.get("spark.master", "") or "").startswith("local"):
            return None  # what is a path here may be one of another file system there
        return Path(folder) / "skyband" / "lock"

    def refuse_unwritable(self, write: Callable[[], None]) -> None:
        """Do the first writing below the folder; say so if it cannot be done."""
        try:
            write()
        except Exception as error:
            raise InvalidInputError(
                f"checkpoint={self.folder!r} cannot be written ({first_line(error)}); the stream's state must survive "
                "it, so nothing was started. Give a folder that Spark may write to."
            ) from None

    def _write(self, description: dict[str, Any]) -> None:
        frame = self._spark.createDataFrame([(json.dumps(description),)], "value string")
        frame.coalesce(1).write.mode("overwrite").text(self._description)


def refuse_newer_files(kept: Checkpoint, folders: Sequence[Folder], stream: str) -> None:
    """Refuse to go on from a state that is older than the files in a folder.

    A micro-batch is planned in the checkpoint before its file is written, so in whatever moment a run is killed, no
    file has a larger number than the last plan. One that does was written after the state was copied: its windows
    would be answered again, in files of other numbers, and be there twice. The files are not removed here: the rows
    behind them may be gone, and with them the answers.
    """
    for folder in folders:
        newest = max((_number(path) for path in folder.files()), default=-1)
        if newest < 0:
            continue
        last = kept.last_batch(kept.dead if folder.of_dead_letters else kept.folder)
        if newest > last:
            ends = f"ends with batch {last}" if last >= 0 else "has no batch yet"
            raise SnapshotError(
                f"{str(folder.folder)!r} holds {folder.holds} of stream {stream!r} up to batch {newest}, but the "
                f"checkpoint {kept.folder!r} {ends}, so it is an older copy of the state. Going on would write "
                f"{folder.holds} of batches {last + 1} to {newest} a second time; nothing was started. Restore the "
                f"newer checkpoint; or remove the files of this stream with numbers above {last:08} (they are written "
                "again if their rows can still be read); or begin anew: with --fresh (fresh=True), or in "
                "other folders."
            )


def _number(path: Path) -> int:
    found = _NUMBER.search(path.name)
    return -1 if found is None else int(found[1])


def refuse_unresumable(before: ShardPlan, after: ShardPlan) -> None:
    """Refuse a plan that a shard would refuse when it loads what it stored under the plan `before`.

    A shard that has seen the stream, and holds nothing, is stored and resumed: so the checks are those of the shard.
    """
    from skyband.sharding.shard import shard_type  # noqa: PLC0415 - loads compiled code, and few runs need it

    kind = shard_type(before)
    for number in range(0, before.units, before.shards):  # one of each scan
        shard = kind(before, number)
        shard.newest = 0
        kind.resume(after, number, shard.state(), shard.segments)
