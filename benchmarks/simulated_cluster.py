"""A stream on a cluster of any size, in this process: the real reducer, combiners, shards and merge, and no Spark.

Tasks run one after another. What Spark would send between stages is packed into the same bytes, and every shard is
resumed from its stored state in each micro-batch, as on Spark. Spark's own costs are not part of it: scheduling,
shuffles, the state store, and rows that pass between Java and Python.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from zlib import crc32

import pyarrow as pa

from skyband.local.pipeline import plan_for
from skyband.queries.workload import Workload
from skyband.sharding.envelope import expected_watermark
from skyband.sharding.projection import ProjectionRequest
from skyband.sharding.shard import MemorySegments, shard_type
from skyband.spark.tasks import combine, opened, to_shards
from skyband.windows import NEVER


class SparkRow(NamedTuple):
    """An envelope as a shard receives it."""

    rows: bytes
    note: bytes
    control: None = None


@dataclass
class Step:
    """What happened in a micro-batch. Seconds are CPU time of single tasks."""

    rows: int = 0
    sent: int = 0  # envelopes of all tasks
    sent_bytes: int = 0
    received: int = 0  # envelopes of the shard with the most
    received_rows: int = 0  # of the same shard
    received_bytes: int = 0
    held: int = 0  # rows, tuples or partials of the largest shard
    state_bytes: int = 0
    late: int = 0
    answer_rows: int = 0  # of all shards, before the merge
    task_seconds: list[float] = field(default_factory=list)
    combiner_seconds: list[float] = field(default_factory=list)
    shard_seconds: list[float] = field(default_factory=list)
    merge_seconds: float = 0.0


class SimulatedCluster:
    """The plan of a workload, and the stored states of its shards between two micro-batches."""

    def __init__(
        self,
        queries: Any,
        schema: pa.Schema,
        *,
        shards: int = 1,
        combiners: int = 0,
        delay: int = 0,
        may_be_late: bool = True,
    ) -> None:
        request = ProjectionRequest(Workload(queries), "ts", "id", shards=shards, may_be_late=may_be_late, delay=delay)
        self.plan = plan_for(schema, request)
        self.combiners, self._delay = combiners, delay
        self._keys = {number: number for number in range(self.plan.plan.units)}
        self._states: dict[int, bytes] = {}
        self._segments = {number: MemorySegments() for number in self._keys}
        self._watermark: int | None = None

    def step(self, tasks: Iterable[pa.Table], *, end: bool = False) -> tuple[list[pa.Table], Step]:
        """Run one micro-batch; `tasks` are the rows of each task. Return the answers."""
        step = Step()
        envelopes = self._combined(list(self._reduced(tasks, step)), step)
        found: list[tuple[int, int, pa.Table]] = []
        for number in self._keys:
            found += self._stepped(number, [row for row in envelopes if row[0] == number], step, end=end)
        self._watermark = self._next if self._next is not None else self._watermark
        found.sort(key=lambda answer: (answer[0] // self.plan.plan.shards, answer[1]))
        begin = time.process_time()
        merged = list(self.plan.merged(iter(found)))
        step.merge_seconds = time.process_time() - begin
        return merged, step

    def _reduced(self, tasks: Iterable[pa.Table], step: Step) -> Iterator[dict[str, Any]]:
        reduce_rows = to_shards(lambda batches: self.plan.pipeline.reduce(self.plan.plan, batches, NEVER), self._keys)
        for table in tasks:
            begin = time.process_time()
            found = list(reduce_rows(self.plan.project(table).to_batches()))
            step.task_seconds.append(time.process_time() - begin)
            step.rows += table.num_rows
            for batch in found:
                (row,) = batch.to_pylist()
                step.sent += 1
                step.sent_bytes += len(row["rows"]) + len(row["note"])
                yield row

    def _combined(self, envelopes: list[dict[str, Any]], step: Step) -> list[tuple[int, SparkRow]]:
        if self.combiners:
            task = combine(self.plan.plan, self.plan.pipeline.reduce_again, self._keys, None)
            places = [crc32(row["note"], crc32(row["rows"])) % self.combiners for row in envelopes]
            combined = []
            for place in sorted(set(places)):
                mine = [row for row, at in zip(envelopes, places, strict=True) if at == place]
                batch = pa.RecordBatch.from_pylist(mine)
                begin = time.process_time()
                found = list(task([batch]))
                step.combiner_seconds.append(time.process_time() - begin)
                combined += [row for one in found for row in one.to_pylist()]
            envelopes = combined
        return [(row["shard"], SparkRow(row["rows"], row["note"])) for row in envelopes]

    def _stepped(
        self, number: int, envelopes: list[tuple[int, SparkRow]], step: Step, *, end: bool
    ) -> Iterator[tuple[int, int, pa.Table]]:
        kind, rows = shard_type(self.plan.plan), [row for _, row in envelopes]
        begin = time.process_time()
        tables, notes, _ = opened(rows, kind.note_type)
        stored = self._states.get(number)
        shard = kind(self.plan.plan, number, self._segments[number])
        if stored is not None:
            shard = kind.resume(self.plan.plan, number, stored, self._segments[number])
        after = self._next = expected_watermark(notes, self._delay)
        answers, tally = shard.step(tables, notes, self._watermark, next_watermark=after, end=end)
        self._states[number] = shard.state()
        step.shard_seconds.append(time.process_time() - begin)
        step.late += tally.late
        step.received = max(step.received, len(rows))
        step.received_rows = max(step.received_rows, sum(table.num_rows for table in tables))
        step.received_bytes = max(step.received_bytes, sum(len(row.rows) + len(row.note) for row in rows))
        step.held = max(step.held, tally.candidates)
        step.state_bytes = max(step.state_bytes, len(self._states[number]))
        for table in answers:
            step.answer_rows += table.num_rows
            if table.num_rows:
                yield number, self.plan.first_end(table), table
