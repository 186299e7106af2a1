"""What pipelines of all families have in common: how envelopes come to shards, and how answers of shards are merged."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from skyband.spark.control import control_envelopes
from skyband.spark.tasks import Task

__all__ = ["at_the_shards", "held_by_shard", "merged"]


def at_the_shards(envelopes: DataFrame, keys: Mapping[int, int], control: str | None, delay: int | None) -> DataFrame:
    """A stream's envelopes as shards get them: counted, seen by the watermark, and with the control messages."""
    envelopes = envelopes.observe(
        "skyband_in", *(sf.sum(name).alias(name) for name in ("taken", "left_out", "reduced"))
    )
    if delay is not None:
        envelopes = envelopes.withWatermark("newest", f"{delay} milliseconds")
    # Spark would drop an envelope that is behind the watermark: what is late is settled row by row, in the shard.
    envelopes = envelopes.withColumn("newest", sf.lit(None).cast("timestamp"))
    if control is not None:
        envelopes = envelopes.union(control_envelopes(envelopes.sparkSession, control, keys.values()))
    return envelopes


def held_by_shard(column: str, shards: int) -> list[Column]:
    """What each shard holds, as columns of an observation; `column` tells the shard."""
    return [
        sf.max(sf.when(sf.col(column) == number, sf.col(name))).alias(f"{name}_{number}")
        for number in range(shards)
        for name in ("candidates", "bytes")
    ]


def merged(local: DataFrame, merge: Task, answers: st.StructType, end: str) -> DataFrame:
    """The answers of all shards put together; `end` is the column that tells when a window ended.

    The watermark of a micro-batch is one number for all of its tasks, and a message reaches all shards in one
    micro-batch. So all of them answer a window in the same one, the first whose watermark has reached its end: those
    with rows when they get them, the others by their timer. What they say in one micro-batch is all that there is to
    say about a window, and putting it together takes no state.
    """
    found = local.repartition(1).mapInArrow(merge, answers)
    if not found.isStreaming:
        return found
    counted = isinstance(answers[end].dataType, st.LongType)
    last = sf.col(end) if counted else sf.unix_micros(sf.col(end).cast("timestamp"))
    return found.observe(
        "skyband_out",
        sf.count(sf.lit(1)).alias("answered"),
        sf.count(sf.when(sf.col("rank") == 1, 1)).alias("windows"),
        sf.max(last).alias("last_end"),
    )
