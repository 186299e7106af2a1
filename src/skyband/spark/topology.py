"""The pipelines of all families: from rows to shards, and from the answers of shards to one data frame.

A family subclasses `SparkPlan` in its `spark.py`, and defines there how rows are reduced and answers are merged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from skyband.kernels.stream import Ints
from skyband.queries.answer_schema import CHANGE_COLUMNS, FINAL, OLD_SCORE, REVISION
from skyband.sharding.envelope import Envelope
from skyband.sharding.pipeline import LocalAnswers, ShardPipeline
from skyband.sharding.plan import ShardPlan, source_columns
from skyband.sharding.projection import ProjectionRequest
from skyband.sharding.reported_answers import FIRST, first_rows
from skyband.spark.control import control_envelopes
from skyband.spark.envelope_columns import ENVELOPE_NAMES
from skyband.spark.inputs import Scan
from skyband.spark.late_rows import LateSource
from skyband.spark.plan import Observed, PackedAnswers, Pipeline, StreamInfo
from skyband.spark.processor import ShardProcessor
from skyband.spark.tasks import ENVELOPES, LOCAL, Batches, Task, answer_in_order, combine, merge_answers, to_shards
from skyband.spark.versions import arrow_schema, processed
from skyband.spark.wide_rows import only_narrow
from skyband.windows import NEVER

__all__ = ["SparkPlan", "shard_sizes", "spread", "sums", "without_marks"]

COUNTED_IN = ("taken", "dropped_null", "pruned")
COUNTED_BY_TASKS = ("malformed", "unreadable")  # in addition, if tasks read the files
_SEED = 42
_MASK = 0xFFFFFFFF


@dataclass(frozen=True, kw_only=True, eq=False)
class SparkPlan:
    """A validated workload over data frames. Nothing runs or is written yet."""

    pipeline: ClassVar[ShardPipeline]  # reducer, positions and merge of the family
    moment: ClassVar[str] = "time"  # the column of answers with the window end
    counts: ClassVar[tuple[str, ...]] = ("late",)  # the counts of shards if their answers are merged

    asked: ProjectionRequest  # what concerns single rows
    rows: DataFrame  # the input of the reducer
    plan: Any  # a ShardPlan, the plan of the stored state
    answers: st.StructType  # with the column names of tasks
    types: dict[str, str]  # types of the columns in the description of a checkpoint
    delay: int | None  # of the watermark after the reducer, in milliseconds
    watermark_lag: int | None  # how far the next watermark is behind the newest row, in microseconds
    final_at_end: bool  # whether no window is final before the end of the stream
    names: tuple[str, ...]  # the columns of answers, with the names for users
    scans: tuple[Scan, ...] = ()  # read and reduce the rows in tasks, instead of `rows`
    tasks_only: str | None = None  # why Spark must not read the rows, if so
    reader: str | None = None  # what reads the rows of files, and why; None: the rows are of a data frame
    late_source: LateSource | None = None  # the rows of which the late ones are returned; None: they are not
    refuses_wide: bool = False  # whether wide rows of a stream stop it, to start again with batches limited by bytes
    past: frozenset[str] = frozenset()  # queries whose past arrives in a message
    combiners: int = 0  # tasks that combine envelopes before they reach the shards; 0: none

    @property
    def description(self) -> dict[str, Any]:
        """The values that must equal the description of a checkpoint, by name, including ``shards``."""
        plan = self.plan
        return {
            "axis": plan.axis,
            "family": plan.family,
            "columns": self.types,
            "shards": plan.shards,
            **source_columns(plan, self.asked.time, self.asked.id),
        }

    @property
    def stream_info(self) -> StreamInfo:
        """Information about the stream for progress reports."""
        raise NotImplementedError

    @property
    def returns_late(self) -> bool:
        """Whether late rows are returned to the user."""
        return self.late_source is not None

    @property
    def watched(self) -> tuple[str, str, tuple[str, ...]] | None:
        """The columns of the time and of the stream's name, and the streams whose newest row is observed, if any."""
        return None

    @property
    def watermark(self) -> int | None:
        """The delay of the watermark of envelopes, in milliseconds; None if the rows have one."""
        return self.delay

    @property
    def reducer(self) -> Callable[[Batches], Iterable[Envelope]]:
        """The function that reduces rows to envelopes. It is serialized for tasks, without this plan's data frames."""
        reduce_rows, plan = self.pipeline.reduce, self.plan
        return lambda batches: reduce_rows(plan, batches, NEVER)  # only stateful operators know the watermark

    @property
    def positions(self) -> Callable[[pa.Table], Ints]:
        """The function that returns the positions of an envelope's rows, by which a bounded input is split."""
        return partial(self.pipeline.positions, self.plan)

    def merger(self, kinds: pa.Schema) -> Task:
        """Return the task that merges the answers of all shards. Its input is all answers of a micro-batch."""
        merge = _with_first_rows if self.plan.shares_ranks else _merged
        return merge_answers(partial(merge, self.pipeline, self.plan), kinds, in_order=not self.rows.isStreaming)

    @property
    def merge_order(self) -> list[Column]:
        """The order in which the merger receives the answers of a bounded input."""
        return [sf.col("first_end")]

    def source(self) -> DataFrame:
        """Return the rows, with observations before they are reduced."""
        return self.rows

    def assemble(self, control: str | None, counted: Observed | None = None) -> Pipeline:
        """Build the data frames. A stream also reads the control messages in the folder `control`.

        `counted` collects the counts of a bounded input, if given.
        """
        keys, streaming = spread(self.plan.units), self.rows.isStreaming
        envelopes = self._scanned(keys) if self.scans else self._mapped(keys)
        local = self._stream(envelopes, keys, control) if streaming else self._bounded(envelopes, keys, counted)
        found = self.collect(local, counted).toDF(*self.names)
        source = self.late_source
        if source is not None and self.refuses_wide:
            source = source._replace(rows=only_narrow(source.rows))
        late = None if source is None else source.late(keys, control, final_at_end=self.final_at_end)
        return Pipeline(found, late, self.packed(local, found) if streaming else None)

    def packed(self, local: DataFrame, answers: DataFrame) -> PackedAnswers | None:
        """Return the answers of a stream's shards without `collect`, if there is nothing to merge."""
        return None

    def _mapped(self, keys: Mapping[int, int]) -> DataFrame:
        """Return the envelopes of rows that Spark reads."""
        task = to_shards(self.reducer, keys, None if self.rows.isStreaming else self.positions)
        rows = self.source()
        return (only_narrow(rows) if self.refuses_wide else rows).mapInArrow(task, ENVELOPES)

    def _scanned(self, keys: Mapping[int, int]) -> DataFrame:
        """Return the envelopes of rows that tasks read, and rows with counts beside them."""
        scanned = reduce(DataFrame.unionAll, [scan(keys) for scan in self.scans])
        if self.watched is not None:
            stream, newest = sf.col("stream"), sf.col("stream_newest")
            names = [sf.max(sf.when(stream == name, newest)) for name in self.watched[2]]
            aliased = [column.alias(f"newest_{place}") for place, column in enumerate(names)]
            scanned = scanned.observe("skyband_streams", *aliased)
        return scanned

    def _without_counts(self, envelopes: DataFrame) -> DataFrame:
        """Return the envelopes without the rows of counts that tasks add if they read files."""
        return envelopes.where(sf.col("shard").isNotNull()).select(*ENVELOPE_NAMES) if self.scans else envelopes

    def _combined(self, envelopes: DataFrame, keys: Mapping[int, int]) -> DataFrame:
        """Return fewer envelopes for each shard, if there are combiners.

        The content of an envelope selects its combiner, so that a repeated task gets the same ones.
        """
        if not self.combiners:
            return envelopes
        spread_out = envelopes.repartition(self.combiners, "rows", "note")
        if envelopes.isStreaming:
            return spread_out.mapInArrow(combine(self.plan, self.pipeline.reduce_again, keys, None), ENVELOPES)
        # Envelopes of one time are combined, so that each is still of a short time.
        in_order = spread_out.sortWithinPartitions("shard", "oldest")
        return in_order.mapInArrow(combine(self.plan, self.pipeline.reduce_again, keys, self.positions), ENVELOPES)

    def collect(self, local: DataFrame, counted: Observed | None) -> DataFrame:
        """Merge the answers of all shards.

        The answers of a bounded input are sorted by the end of their first window. A window is merged as soon as no
        more answers can arrive for it.

        All tasks of a micro-batch have the same watermark, and a message reaches all shards in one micro-batch. So all
        shards answer a window in the same micro-batch, the first whose watermark has reached its end: shards with rows
        when they receive them, other shards by their timer. One micro-batch therefore contains all answers for a
        window, and merging needs no state.
        """
        merge, kinds = self.merger(arrow_schema(self.answers)), self.answers
        is_answer = sf.lit(True) if self.plan.output == "answers" else sf.col("change").isNull()
        is_final = sf.col(FINAL) if self.plan.emission.provisional else sf.lit(True)
        is_first = (sf.col("rank") == 1) & is_answer & is_final
        if self.plan.emission.lateness:
            is_first &= sf.col(REVISION) == 0
        if self.plan.shares_ranks:
            is_first, kinds = sf.col(FIRST), st.StructType([*kinds.fields, st.StructField(FIRST, st.BooleanType())])
        windows = sf.count(sf.when(is_first, 1)).alias("windows")
        if not local.isStreaming:
            found = local.repartition(1).sortWithinPartitions(*self.merge_order).mapInArrow(merge, kinds)
            return self._wanted(found if counted is None else found.observe(counted.answered, windows))
        newest = sf.max("newest").alias("newest")
        counts = (*self.counts, *(["unknown_deletes"] if self.plan.counts_deletes else []))
        counts += ("late_used",) if self.plan.emission.lateness else ()
        local = local.observe("skyband_held", *sums(*counts), newest, *shard_sizes(self.plan.units))
        found = local.select("answers", "unit").repartition(1).mapInArrow(merge, kinds)
        by_count = isinstance(self.answers[self.moment].dataType, st.LongType)
        last = sf.col(self.moment) if by_count else sf.unix_micros(sf.col(self.moment).cast("timestamp"))
        is_counted = ~is_answer if self.plan.output == "changes" else is_answer
        answered = sf.count(sf.when(is_counted, 1)).alias("answered")
        return self._wanted(
            found.observe("skyband_out", answered, windows, sf.max(sf.when(is_final, last)).alias("last_end"))
        )

    def _wanted(self, found: DataFrame) -> DataFrame:
        """Return merged answers without those that were needed only for counting."""
        found = found.drop(FIRST) if self.plan.shares_ranks else found
        return found.where(sf.col("change").isNotNull()) if self.plan.output == "changes" else found

    def _stream(self, envelopes: DataFrame, keys: Mapping[int, int], control: str | None) -> DataFrame:
        """Return the output of a stream's shards: count the envelopes, set the watermark, run the processors."""
        # An observation costs time in every micro-batch. Without combiners one suffices.
        counted = (*COUNTED_IN, *COUNTED_BY_TASKS) if self.scans else COUNTED_IN
        envelopes = envelopes.observe("skyband_in", *sums(*counted), *([] if self.combiners else _to_shards()))
        envelopes = self._without_counts(envelopes)
        if self.watermark is not None:
            envelopes = envelopes.withWatermark("newest", f"{self.watermark} milliseconds")
        if self.combiners:
            envelopes = self._combined(envelopes, keys).observe("skyband_to_shards", *_to_shards())
        # Spark would drop envelopes behind the watermark. Shards decide about late rows one by one instead.
        envelopes = envelopes.withColumn("newest", sf.lit(None).cast("timestamp"))
        if control is not None:
            envelopes = envelopes.union(control_envelopes(envelopes.sparkSession, control, keys.values()))
        processor = ShardProcessor(self.plan, keys, self.watermark_lag, final_at_end=self.final_at_end, past=self.past)
        return processed(envelopes, processor, processor.output)

    def _bounded(self, envelopes: DataFrame, keys: Mapping[int, int], counted: Observed | None) -> DataFrame:
        """Return the output of a bounded input's shards: each receives its envelopes in the order of their oldest row.

        There is no watermark and no stored state. Spark sorts on disk if the input does not fit into memory.
        """
        if counted is not None:
            envelopes = envelopes.observe(counted.read, *sums(*COUNTED_IN))
        envelopes = self._combined(self._without_counts(envelopes), keys)
        by_oldest = envelopes.repartition(self.plan.units, "shard").sortWithinPartitions("shard", "oldest")
        local = by_oldest.mapInArrow(answer_in_order(self.plan, keys, self.pipeline.end), LOCAL)
        more = ["unknown_deletes"] if self.plan.counts_deletes else []
        return local if counted is None else local.observe(counted.shards, *sums("over_limit", "unrankable", *more))


def without_marks(answers: st.StructType, plan: ShardPlan) -> list[tuple[str, st.DataType]]:
    """Return the columns of answers without those that a restart may add or remove: of a change feed, and marks."""
    added = {column.name for column in (*CHANGE_COLUMNS, OLD_SCORE)}
    added |= {column.name for column in plan.emission.columns}
    return [(field.name, field.dataType) for field in answers.fields if field.name not in added]


def _merged(pipeline: ShardPipeline, plan: ShardPlan, answers: LocalAnswers, kinds: pa.Schema) -> Iterator[pa.Table]:
    return pipeline.merge(plan, answers, kinds)


def _with_first_rows(
    pipeline: ShardPipeline, plan: ShardPlan, answers: LocalAnswers, kinds: pa.Schema
) -> Iterator[pa.Table]:
    """Merge answers, and add the column with the row of a window that is counted."""
    for table in pipeline.merge(plan, answers, kinds):
        yield table.append_column(FIRST, first_rows(plan, table))


def sums(*names: str) -> list[Column]:
    """Return the sums of columns, under the same names."""
    return [sf.sum(name).alias(name) for name in names]


def _to_shards() -> list[Column]:
    """Return the number of envelopes that shards receive, and the bytes of their rows."""
    return [sf.count("shard").alias("envelopes"), sf.sum(sf.length("rows")).alias("envelope_bytes")]


def shard_sizes(shards: int) -> list[Column]:
    """Return the sizes of each shard, as columns of an observation."""
    return [
        sf.max(sf.when(sf.col("unit") == number, sf.col(name))).alias(f"{name}_{number}")
        for number in range(shards)
        for name in ("candidates", "bytes")
    ]


def spread(shards: int) -> dict[int, int]:
    """Return a key for each shard, so that with as many partitions as shards each shard has its own partition.

    Keys depend only on the number of shards, because they identify the state in a checkpoint for every session.

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
    """Return Spark's hash of a non-negative long, as a signed integer."""
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
