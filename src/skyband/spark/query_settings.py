"""Settings of a single streaming query.

Spark copies the settings of a session when a query starts, and the query keeps its copy. Settings that suit one query
are therefore made while it starts, and are undone before `start` returns.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from skyband.spark.checkpoint import Checkpoint
from skyband.spark.wide_rows import BATCH_BYTES

__all__ = ["PARTITIONS", "checkpoint_settings", "partition_settings", "scan_settings", "while_starting"]

PARTITIONS = "spark.sql.shuffle.partitions"
_JOINT_CODE = "spark.sql.codegen.wholeStage"
_TABLES = 8 << 20  # bytes of packed answers that a task unpacks at a time
_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_BY_FILE_SYSTEM = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_STARTING = threading.Lock()


def checkpoint_settings(spark: SparkSession, checkpoint: Checkpoint) -> dict[str, str]:
    """Return how Spark writes the files of a checkpoint: without new processes, if they are on a local disk.

    By default Spark renames files by Hadoop's FileContext, which runs ``readlink`` eight times for each file on a local
    disk. A micro-batch writes at least four files. Hadoop's FileSystem, which Spark uses for storage without a
    FileContext, calls rename(2). That replaces an existing file, as Spark requires, on POSIX systems only; on other
    storage Spark's choice stays.
    """
    if os.name != "posix" or spark.conf.get(_MANAGER, None) is not None or not checkpoint.is_local:
        return {}
    return {_MANAGER: _BY_FILE_SYSTEM} if _has_class(spark, _BY_FILE_SYSTEM) else {}


def partition_settings(spark: SparkSession, shards: int) -> dict[str, str]:
    """Return the number of partitions of a query whose only shuffle is the one to its shards.

    Each partition has its own state store and Python workers, even if no shard is in it. A checkpoint keeps the
    number with which it was created.
    """
    there = int(spark.conf.get(PARTITIONS, "200") or 200)
    return {PARTITIONS: str(shards)} if shards < there else {}


def scan_settings(*, sole: bool) -> dict[str, str]:
    """Return the settings of a query whose files are read by tasks. `sole`: nothing else computes with its rows.

    Only envelopes and packed answers then pass from the JVM to Python, and each is large. With a limit of bytes,
    answers are unpacked while others are on their way. For single rows the limit would cost time, so the session has
    none (`sessions.RECOMMENDED`). Nor are there many rows that a joint code of several operators would speed up, but
    Spark looks for such operators and copies the plan in every micro-batch.
    """
    return {BATCH_BYTES: str(_TABLES), **({_JOINT_CODE: "false"} if sole else {})}


@contextmanager
def while_starting(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Make settings in the block, in which a query is started; one query at a time."""
    with _STARTING:
        before = {name: spark.conf.get(name, None) for name in settings}
        try:
            for name, value in settings.items():
                spark.conf.set(name, value)
            yield
        finally:
            for name, earlier in before.items():
                if earlier is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, earlier)


def _has_class(spark: Any, name: str) -> bool:
    """Whether the session's Spark has a class; a platform may have its own version of Spark."""
    try:
        spark._jvm.org.apache.spark.util.Utils.classForName(name, False, False)
    except Exception:
        return False
    return True
