"""How the pipelines of all families are put together: rows to shards, and answers of shards to one data frame.

A family subclasses `SparkPlan` in its own `spark.py`, and says there how rows are reduced and answers are merged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st
from pyspark.sql.pandas.types import to_arrow_schema

from skyband.kernels.stream import Ints
from skyband.sharding.envelope import Envelope
from skyband.sharding.rows import positions_of
from skyband.spark.control import control_envelopes
from skyband.spark.plan import Observed, Pipeline, StreamInfo
from skyband.spark.processor import OUTPUT, ShardProcessor
from skyband.spark.tasks import ENVELOPES, LOCAL, Batches, Task, answer_in_order, pass_on, to_shards

__all__ = ["SparkPlan", "shard_sizes", "spread", "sums"]

COUNTED_IN = ("taken", "dropped_null", "pruned")
_SEED = 42
_MASK = 0xFFFFFFFF


@dataclass(frozen=True, kw_only=True, eq=False)
class SparkPlan:
    """A workload that has been found to fit its data frames. Nothing runs yet, nothing is written."""

    moment: ClassVar[str] = "time"  # the column of answers that tells when a window ended
    end: ClassVar[str] = "time"  # the same of the shards' tables
    counts: ClassVar[tuple[str, ...]] = ("late",)  # what shards count where their answers are merged

    rows: DataFrame  # what is reduced
    plan: Any  # a ShardPlan: what the state is written under
    answers: st.StructType  # as tasks name its columns
    types: dict[str, str]  # of the columns that a checkpoint must agree with
    delay: int | None  # of the watermark that is to stand after the reducer, in milliseconds
    watermark_lag: int | None  # how far the next watermark will stand behind the newest row, in microseconds
    final_at_end: bool  # whether nothing is final before the end of the stream

    @property
    def description(self) -> dict[str, Any]:
        """What a checkpoint must agree with, by name; ``shards`` is among it."""
        plan = self.plan
        return {"axis": plan.axis, "family": plan.family, "columns": self.types, "shards": plan.shards}

    @property
    def stream_info(self) -> StreamInfo:
        """What progress reports say about the stream."""
        raise NotImplementedError

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of answers, as users name them."""
        return tuple(self.answers.names)

    @property
    def reducer(self) -> Callable[[Batches], Iterable[Envelope]]:
        """What makes envelopes of a task's rows. It travels to the tasks, without this plan's data frames."""
        raise NotImplementedError

    @property
    def positions(self) -> Callable[[pa.Table], Ints]:
        """The positions of an envelope's rows, by which those of a bounded input are cut."""
        return partial(positions_of, time="position")

    def merger(self, kinds: pa.Schema) -> Task:
        """The task that puts the answers of all shards together. It is given all answers of a micro-batch."""
        return pass_on(kinds)

    @property
    def merge_order(self) -> list[Column]:
        """In which order the merger is given the answers to a bounded input."""
        return [sf.col("first_end")]

    def source(self) -> DataFrame:
        """The rows, with what is observed of them before they are reduced."""
        return self.rows

    def assemble(self, control: str | None, counted: Observed | None = None) -> Pipeline:
        """The data frames; a stream's also read the control messages in the folder `control`.

        What happens to a bounded input's rows is `counted` if somebody asks.
        """
        keys, streaming = spread(self.plan.units), self.rows.isStreaming
        reduce = to_shards(self.reducer, keys, None if streaming else self.positions)
        envelopes = self.source().mapInArrow(reduce, ENVELOPES)
        local = self._stream(envelopes, keys, control) if streaming else self._bounded(envelopes, keys, counted)
        return Pipeline(self.collect(local, counted).toDF(*self.names), None)

    def collect(self, local: DataFrame, counted: Observed | None) -> DataFrame:
        """The answers of all shards put together.

        Those to a bounded input come by the end of their first window: windows are put together as soon as nothing more
        can come for them.

        The watermark of a micro-batch is one number for all of its tasks, and a message reaches all shards in one
        micro-batch. So all of them answer a window in the same one, the first whose watermark has reached its end:
        those with rows when they get them, the others by their timer. What they say in one micro-batch is all that
        there is to say about a window, and putting it together takes no state.
        """
        merge = self.merger(to_arrow_schema(self.answers, timezone="UTC"))
        windows = sf.count(sf.when(sf.col("rank") == 1, 1)).alias("windows")
        if not local.isStreaming:
            found = local.repartition(1).sortWithinPartitions(*self.merge_order).mapInArrow(merge, self.answers)
            return found if counted is None else found.observe(counted.answered, windows)
        newest = sf.max("newest").alias("newest")
        local = local.observe("skyband_held", *sums(*self.counts), newest, *shard_sizes(self.plan.units))
        found = local.select("answers", "unit").repartition(1).mapInArrow(merge, self.answers)
        by_count = isinstance(self.answers[self.moment].dataType, st.LongType)
        last = sf.col(self.moment) if by_count else sf.unix_micros(sf.col(self.moment).cast("timestamp"))
        answered = sf.count(sf.lit(1)).alias("answered")
        return found.observe("skyband_out", answered, windows, sf.max(last).alias("last_end"))

    def _stream(self, envelopes: DataFrame, keys: Mapping[int, int], control: str | None) -> DataFrame:
        """What the shards of a stream give: its envelopes are counted, and seen by the watermark."""
        envelopes = envelopes.observe("skyband_in", *sums(*COUNTED_IN))
        if self.delay is not None:
            envelopes = envelopes.withWatermark("newest", f"{self.delay} milliseconds")
        # Spark would drop an envelope that is behind the watermark: what is late is settled row by row, in the shard.
        envelopes = envelopes.withColumn("newest", sf.lit(None).cast("timestamp"))
        if control is not None:
            envelopes = envelopes.union(control_envelopes(envelopes.sparkSession, control, keys.values()))
        processor = ShardProcessor(self.plan, keys, self.watermark_lag, final_at_end=self.final_at_end)
        return envelopes.groupBy("shard").transformWithState(processor, OUTPUT, "Append", "EventTime")

    def _bounded(self, envelopes: DataFrame, keys: Mapping[int, int], counted: Observed | None) -> DataFrame:
        """What the shards of a bounded input give: each is given its envelopes by their oldest row.

        There is no watermark and no stored state. Spark sorts on disk what does not fit into memory.
        """
        if counted is not None:
            envelopes = envelopes.observe(counted.read, *sums(*COUNTED_IN))
        by_oldest = envelopes.repartition(self.plan.units, "shard").sortWithinPartitions("shard", "oldest")
        local = by_oldest.mapInArrow(answer_in_order(self.plan, keys, self.end), LOCAL)
        return local if counted is None else local.observe(counted.shards, *sums("over_limit", "unrankable"))


def sums(*names: str) -> list[Column]:
    """The sums of columns, by the same names."""
    return [sf.sum(name).alias(name) for name in names]


def shard_sizes(shards: int) -> list[Column]:
    """What each shard holds, as columns of an observation."""
    return [
        sf.max(sf.when(sf.col("unit") == number, sf.col(name))).alias(f"{name}_{number}")
        for number in range(shards)
        for name in ("candidates", "bytes")
    ]


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
