"""Top-k queries on Spark: reducer, shards and extractor put together."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema

from skyband.queries.workload import Workload
from skyband.sharding.rows import positions_of
from skyband.spark import tasks
from skyband.spark.expressions import Prepared, prepare
from skyband.spark.late_rows import late_rows
from skyband.spark.plan import (
    MOST_SHARDS,
    Late,
    Observed,
    Pipeline,
    Request,
    StreamInfo,
    checked_delay,
    checked_shards,
    delay_of,
    spelled,
)
from skyband.spark.processor import OUTPUT, ShardProcessor
from skyband.spark.topology import at_the_shards, by_oldest, held_by_shard, spread, sums
from skyband.topk.plan import TopKPlan, scans_of
from skyband.topk.reducer import reduce_rows

__all__ = ["draft"]


class _Ranking(NamedTuple):
    """Rows with their scores, and the plan to answer them by."""

    source: DataFrame  # with its watermark, where it stands at the source
    time: str
    prepared: Prepared
    delay: int | None  # of the watermark that is to stand after the reducer, in milliseconds
    watermark_lag: int | None  # how far the next watermark will stand behind the newest row, in microseconds
    late: Late
    final_at_end: bool  # whether nothing is final before the end of the stream

    @property
    def plan(self) -> TopKPlan:
        return self.prepared.plan

    @property
    def description(self) -> dict[str, Any]:
        plan = self.plan
        return {
            "axis": plan.axis,
            "time": plan.time,
            "id": plan.id,
            "columns": self.prepared.types,
            "shards": plan.shards,
        }

    @property
    def stream_info(self) -> StreamInfo:
        plan = self.prepared.plan
        bound = sum(query.k * query.window.most_alive for query in plan.queries)
        return StreamInfo(plan.algorithm, plan.axis, bound, all(scan.where for scan in plan.scans))

    def assemble(self, control: str | None, counted: Observed | None = None) -> Pipeline:
        df, late = self.source, self.late == "return"
        if not df.isStreaming:
            return Pipeline(_from_batch(self.prepared, counted), df.limit(0) if late else None)
        keys = spread(self.prepared.plan.shards)
        processor = ShardProcessor(self.prepared.plan, keys, self.watermark_lag, final_at_end=self.final_at_end)
        answered = _from_stream(self.prepared, keys, control, self.delay, processor)
        return Pipeline(
            answered, late_rows(df, self.time, keys, control, final_at_end=self.final_at_end) if late else None
        )


def draft(request: Request) -> _Ranking:
    """Refuse what cannot be answered, and settle how the rest will be."""
    df, asked, time, late = request.df, request.workload, request.time, request.late
    partitions = int(df.sparkSession.conf.get("spark.sql.shuffle.partitions", "200") or 200)
    count = _most_useful(asked, partitions) if request.shards is None else checked_shards(request.shards)
    there = delay_of(df, time)
    delay = checked_delay(df, time, request.watermark, there) if df.isStreaming else None
    watermark_lag = request.watermark_lag(delay)
    # Rows that every filter removes move time too. They are seen by a watermark at the source; where all rows reach the
    # tasks it is cheaper to look at the newest of each batch only.
    if delay is not None and (late == "return" or all(query.where for query in asked)):
        df, there, delay = df.withWatermark(spelled(df, time), f"{delay} milliseconds"), delay, None
    prepared = prepare(
        df,
        asked,
        time=time,
        id_=request.id,
        algorithm=request.algorithm,
        shards=count,
        may_be_late=df.isStreaming and late != "refuse",
        delay=1000 * ((there if delay is None else delay) or 0),
        output=request.output,
        row_copies=request.row_copies,
    )
    return _Ranking(df, spelled(df, time), prepared, delay, watermark_lag, late, request.final_at_end)


def _from_stream(
    prepared: Prepared, keys: dict[int, int], control: str | None, delay: int | None, processor: ShardProcessor
) -> DataFrame:
    plan = prepared.plan
    envelopes = prepared.rows.mapInArrow(tasks.to_shards(partial(reduce_rows, plan), keys), tasks.ENVELOPES)
    packed = (
        at_the_shards(envelopes, keys, control, delay)
        .groupBy("shard")
        .transformWithState(processor, OUTPUT, "Append", "EventTime")
    )
    held = held_by_shard("shard", plan.shards)
    counted = sums("late", "windows", "answered")
    newest = [sf.max(name).alias(name) for name in ("newest", "last_end")]
    return (
        packed.observe("skyband_out", *counted, *newest, *held)
        .select("answers")
        .mapInArrow(tasks.unpack(to_arrow_schema(prepared.answers, timezone="UTC")), prepared.answers)
        .toDF(*prepared.names)
    )


def _from_batch(prepared: Prepared, counted: Observed | None) -> DataFrame:
    """No watermark, no stored state: rows that can matter meet in their shards by time; all windows are answered."""
    plan = prepared.plan
    keys = spread(plan.shards)
    reduce = tasks.to_shards(partial(reduce_rows, plan), keys, cut_by=partial(positions_of, time=plan.time))
    envelopes = prepared.rows.mapInArrow(reduce, tasks.ENVELOPES)
    answer = tasks.answer_in_order(plan, keys, "window_end")
    local = by_oldest(envelopes, plan.shards, counted).mapInArrow(answer, tasks.LOCAL)
    if counted is not None:
        local = local.observe(counted.shards, *sums("over_limit", "unrankable"))
        local = local.observe(counted.answered, *sums("windows"))
    return local.select("answers").mapInArrow(tasks.unpack(), prepared.answers).toDF(*prepared.names)


def _most_useful(workload: Workload, partitions: int) -> int:
    """Groups can be spread over all partitions; a scan without groups lives in one shard."""
    scans = scans_of(workload)
    most = MOST_SHARDS if any(scan.partition_by for scan in scans) else len(scans)
    return max(1, min(partitions, MOST_SHARDS, most))
