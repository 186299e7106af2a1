"""What pipelines of all families have in common: how envelopes come to shards, and how answers of shards are merged."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from skyband.spark.control import control_envelopes
from skyband.spark.plan import Observed
from skyband.spark.tasks import Task

__all__ = ["at_the_shards", "by_oldest", "held_by_shard", "merged", "spread", "sums"]

_SEED = 42
_MASK = 0xFFFFFFFF

COUNTED_IN = ("taken", "dropped_null", "pruned")


def at_the_shards(envelopes: DataFrame, keys: Mapping[int, int], control: str | None, delay: int | None) -> DataFrame:
    """A stream's envelopes as shards get them: counted, seen by the watermark, and with the control messages."""
    envelopes = envelopes.observe("skyband_in", *sums(*COUNTED_IN))
    if delay is not None:
        envelopes = envelopes.withWatermark("newest", f"{delay} milliseconds")
    # Spark would drop an envelope that is behind the watermark: what is late is settled row by row, in the shard.
    envelopes = envelopes.withColumn("newest", sf.lit(None).cast("timestamp"))
    if control is not None:
        envelopes = envelopes.union(control_envelopes(envelopes.sparkSession, control, keys.values()))
    return envelopes


def by_oldest(envelopes: DataFrame, shards: int, counted: Observed | None) -> DataFrame:
    """A bounded input's envelopes as shards get them: all of a shard's together, by their oldest row.

    Spark sorts on disk what does not fit into memory.
    """
    if counted is not None:
        envelopes = envelopes.observe(counted.read, *sums(*COUNTED_IN))
    return envelopes.repartition(shards, "shard").sortWithinPartitions("shard", "oldest")


def sums(*names: str) -> list[Column]:
    """The sums of columns, by the same names."""
    return [sf.sum(name).alias(name) for name in names]


def held_by_shard(column: str, shards: int) -> list[Column]:
    """What each shard holds, as columns of an observation; `column` tells the shard."""
    return [
        sf.max(sf.when(sf.col(column) == number, sf.col(name))).alias(f"{name}_{number}")
        for number in range(shards)
        for name in ("candidates", "bytes")
    ]


def merged(
    local: DataFrame,
    merge: Task,
    answers: st.StructType,
    end: str,
    counted: Observed | None,
    *,
    first: Column | None = None,
) -> DataFrame:
    """The answers of all shards put together; `end` is the column that tells when a window ended.

    Of a bounded input they come by the end of their first window, after `first` if that is given: windows are put
    together as soon as nothing more can come for them.

    The watermark of a micro-batch is one number for all of its tasks, and a message reaches all shards in one
    micro-batch. So all of them answer a window in the same one, the first whose watermark has reached its end: those
    with rows when they get them, the others by their timer. What they say in one micro-batch is all that there is to
    say about a window, and putting it together takes no state.
    """
    windows = sf.count(sf.when(sf.col("rank") == 1, 1)).alias("windows")
    if not local.isStreaming:
        if counted is not None:
            local = local.observe(counted.shards, *sums("over_limit", "unrankable"))
        order = [sf.col("first_end")] if first is None else [first, sf.col("first_end")]
        found = local.repartition(1).sortWithinPartitions(*order).mapInArrow(merge, answers)
        return found if counted is None else found.observe(counted.answered, windows)
    found = local.repartition(1).mapInArrow(merge, answers)
    by_count = isinstance(answers[end].dataType, st.LongType)
    last = sf.col(end) if by_count else sf.unix_micros(sf.col(end).cast("timestamp"))
    return found.observe(
        "skyband_out",
        sf.count(sf.lit(1)).alias("answered"),
        windows,
        sf.max(last).alias("last_end"),
    )


def spread(shards: int) -> dict[int, int]:
    """A key for each shard: with as many partitions as shards, each has a partition to itself.

    They follow from the number of shards alone: keys name the state in a checkpoint, whatever session takes it up.

    >>> keys = spread(4)
    >>> sorted(_murmur3(key) % 4 for key in keys.values())
    [0, 1, 2, 3]
    """
    keys: dict[int, int] = {}
    used: set[int] = set()
    key = 0
    for shard in range(shards):
        while _murmur3(key) % shards in used:
            key += 1
        keys[shard] = key
        used.add(_murmur3(key) % shards)
    return keys


def _murmur3(value: int) -> int:
    """Spark's hash of a non-negative long, as a signed number."""
    state = _mixed(_SEED, value & _MASK)
    state = _mixed(state, value >> 32 & _MASK) ^ 8
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        state = ((state ^ (state >> shift)) * factor) & _MASK
    state ^= state >> 16
    return state - 2**32 if state >= 2**31 else state


def _mixed(state: int, word: int) -> int:
    word = _turned(word * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
    return (_turned(state ^ word, 13) * 5 + 0xE6546B64) & _MASK


def _turned(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & _MASK
