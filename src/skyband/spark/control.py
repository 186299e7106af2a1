"""Control messages to a running stream: a folder of small JSON files that the stream reads in addition to its rows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from skyband.spark.envelope_columns import ENVELOPE_NAMES

__all__ = ["CONTROL_FOLDER", "Control", "control_envelopes"]

CONTROL_FOLDER = "skyband/control"  # below a checkpoint
_MESSAGE = "message string, shard long"  # without a shard, a message is for all shards


class Control:
    """Writes messages for the stream that reads `folder`.

    Spark writes the files, so the folder can be on any storage that Spark supports. A message reaches every shard in
    the same micro-batch.

    >>> control = Control(spark, "/tmp/checkpoint/skyband/control")  # doctest: +SKIP
    >>> control.end()  # doctest: +SKIP
    """

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._spark = spark
        self.folder = folder

    def open(self) -> None:
        """Create the folder, with a message that has no effect."""
        self.send([({"kind": "open"}, None)])

    def end(self) -> None:
        """End the stream at its current position: every window that contains a row is answered.

        Rows that arrive later for such a window are late.
        """
        self.send([({"kind": "end"}, None)])

    def advance(self, position: int) -> None:
        """Advance time to `position` (microseconds).

        Windows that end at or before it become final. Rows before it are late.
        """
        self.send([({"kind": "advance", "at": position // 1000 * 1000}, None)])

    def send(self, messages: Iterable[tuple[dict[str, Any], int | None]]) -> None:
        """Write messages, each for the shard with a key or for all shards (None). They arrive in one micro-batch."""
        rows = [(json.dumps(message), key) for message, key in messages]
        self._spark.createDataFrame(rows, _MESSAGE).coalesce(1).write.mode("append").json(self.folder)


def control_envelopes(spark: SparkSession, folder: str, keys: Iterable[int]) -> DataFrame:
    """Return the messages in `folder` as envelopes, one for each shard that gets the message."""
    messages = spark.readStream.schema(_MESSAGE).json(folder)
    everyone = sf.array(*(sf.lit(key).cast("long") for key in keys))
    columns = {
        "shard": sf.explode(sf.when(sf.col("shard").isNull(), everyone).otherwise(sf.array(sf.col("shard")))),
        "rows": sf.lit(None).cast("binary"),
        "note": sf.lit(None).cast("binary"),
        "control": sf.col("message"),
        "newest": sf.lit(None).cast("timestamp"),
        "oldest": sf.lit(None).cast("long"),
        **{name: sf.lit(0).cast("long") for name in ("taken", "dropped_null", "pruned")},
    }
    return messages.select(*(columns[name].alias(name) for name in ENVELOPE_NAMES))
