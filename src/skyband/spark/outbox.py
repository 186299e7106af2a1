"""Delivery of answers over Spark Connect, where foreachBatch runs on the server and the sinks are in this process.

The server stores each micro-batch in a folder of the checkpoint. This process reads the folders in order, passes them
to the sinks, and stores the number of the last one. A micro-batch that it passes twice, because it was killed in
between, replaces its own output in the sinks, as a repeated micro-batch always does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from skyband.errors import SnapshotError
from skyband.spark.checkpoint import Checkpoint

__all__ = ["Outbox"]


class Outbox:
    """The stored micro-batches of a stream, and the number of the next one to deliver.

    >>> Outbox(spark, "state").deliver()  # doctest: +SKIP
    """

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self._spark, self._kept = spark, Checkpoint(spark, checkpoint)
        self._folder = f"{self._kept.folder}/skyband/outbox"
        # Two files in turn: while one is written, the other one is complete.
        self._marks = tuple(f"{self._kept.folder}/skyband/delivered/{number}" for number in (0, 1))
        self._lock = threading.Lock()
        self._next: int | None = None
        self._take: Callable[[pa.Table, int], None] | None = None

    def writer(self, tables: DataFrame, take: Callable[[pa.Table, int], None]) -> DataStreamWriter:
        """Return the writer that stores micro-batches; `take` gets their rows and numbers in this process."""
        if self._take is None and self._delivered() is None:
            # The first one must be known as not delivered, even if this process is killed before it is.
            self._mark(self._kept.last_batch(self._kept.folder, "commits"))
        self._take = take
        return tables.writeStream.foreachBatch(_stored_in(self._folder))

    def deliver(self) -> None:
        """Pass the stored micro-batches to the sinks that have not received them."""
        with self._lock:
            if self._take is None:
                return
            if self._next is None:
                self._next = self._resumed(self._take)
            while (rows := self._read(self._next)) is not None:
                self._deliver(self._take, self._next, rows)
                self._next += 1

    def deliver_left(self, take: Callable[[pa.Table, int], None]) -> None:
        """Pass on what a run over Spark Connect has stored and not delivered, before a run without it continues."""
        if self._delivered() is not None:
            self._resumed(take)

    def _resumed(self, take: Callable[[pa.Table, int], None]) -> int:
        """Deliver what an earlier run has stored; return the number of the first micro-batch of this run.

        Micro-batches that are not stored were delivered by a run without Spark Connect.
        """
        last = self._kept.last_batch(self._kept.folder, "commits")
        known = self._delivered()
        if known is None:
            return last + 1
        for number in sorted(number for number in self._stored() if known < number <= last):
            rows = self._read(number)
            if rows is not None:
                self._deliver(take, number, rows)
        return max(last, known) + 1

    def _delivered(self) -> int | None:
        """Return the number of the last micro-batch that the sinks have received from here; None: none."""
        found = [self._kept.number_in(path) for path in self._marks]
        known = max((number for number in found if number is not None), default=None)
        if known is None and self._kept.last_batch(f"{self._kept.folder}/skyband", "outbox") >= 0:
            raise SnapshotError(
                f"{self._marks[0]!r} and {self._marks[1]!r} are missing, which contain the number of the last "
                "micro-batch that the sinks have received, but answers are stored beside them. They were removed or "
                "damaged, so the stream was not started. Restore the checkpoint from a backup, or start with a new one."
            )
        return known

    def _stored(self) -> set[int]:
        files = self._spark.read.format("binaryFile").option("recursiveFileLookup", True)
        try:
            paths = files.option("pathGlobFilter", "*.parquet").load(self._folder).select("path").collect()
        except AnalysisException as error:
            if (error.getCondition() or "").startswith("PATH_NOT_FOUND"):
                return set()  # no micro-batch yet
            raise
        return {int(str(row[0]).split("/")[-2]) for row in paths}

    def _deliver(self, take: Callable[[pa.Table, int], None], number: int, rows: pa.Table) -> None:
        take(rows, number)
        self._mark(number)

    def _mark(self, number: int) -> None:
        mark = self._spark.createDataFrame([(str(number),)], "value string").coalesce(1)
        mark.write.mode("overwrite").text(self._marks[number % 2])

    def _read(self, number: int) -> pa.Table | None:
        try:
            found = self._spark.read.parquet(f"{self._folder}/{number}")
        except AnalysisException as error:
            if (error.getCondition() or "").startswith(("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")):
                return None  # not stored yet, or not completely
            raise
        # A micro-batch that is not committed may be stored again at any time.
        committed = self._kept.last_batch(self._kept.folder, "commits") >= number
        return found.toArrow() if committed else None


def _stored_in(folder: str) -> Callable[[Any, int], None]:
    """Return the function that stores a micro-batch on the server, in one file, so that it is complete or absent."""

    def store(frame: Any, batch: int) -> None:
        frame.coalesce(1).write.mode("overwrite").parquet(f"{folder}/{batch}")

    return store
