"""The pipeline without Spark: rows cut into batches and tasks, a watermark that follows them as Spark's does."""

from __future__ import annotations

import pyarrow as pa

from skyband.sharding.emission import ONCE
from skyband.sharding.envelope import expected_watermark
from skyband.topk.plan import TopKPlan, scans_of
from skyband.topk.reducer import TopKNote, reduce_rows
from skyband.topk.shard import TopKShard
from skyband.windows import ALWAYS, NEVER

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("id", pa.int64()), ("g", pa.string()), ("s", pa.float64())])


def plan_of(queries, *, algorithm="panes", shards=3, may_be_late=True, emission=ONCE):
    """A plan for rows of `SCHEMA` in which every scan's score is a column of its own."""
    scans = scans_of(queries)
    return TopKPlan(
        queries=tuple(queries),
        algorithm=algorithm,
        shards=shards,
        time="ts",
        id="id",
        scores=tuple(f"score_{number}" for number in range(len(scans))),
        groups=tuple(scan.partition_by for scan in scans),
        columns=tuple(SCHEMA.names),
        returned=tuple(name for name in SCHEMA.names if not any(name in scan.partition_by for scan in scans)),
        may_be_late=may_be_late,
        emission=emission,
    )


def scored(plan, rows):
    """Rows ``(position, score, id, group)`` as the table a task sees; the second scan ranks by the negated score."""
    columns = list(zip(*rows, strict=True)) if rows else [[], [], [], []]
    table = pa.table(
        {
            "ts": pa.array(columns[0], pa.int64()).cast(pa.timestamp("us", "UTC")),
            "id": pa.array(columns[2], pa.int64()),
            "g": pa.array(columns[3], pa.string()),
            "s": pa.array(columns[1], pa.float64()),
        }
    )
    for number, scan in enumerate(plan.scans):
        values = [_score(scan, *row) for row in rows]
        table = table.append_column(plan.scores[number], pa.array(values, pa.float64()))
    return table


def _score(scan, position, score, id_, group):
    if scan.where == "odd" and id_ % 2 == 0:
        return None
    value = float("nan") if score is None else score
    return -value if scan.by == "-s" else value


class Pipeline:
    """Tasks, shards, and the watermark that the rows of earlier batches set."""

    def __init__(self, plan, delay=0, *, foresees=False, tells_tasks=False):
        self.plan = plan
        self.delay = delay
        self.foresees = foresees
        self.tells_tasks = tells_tasks  # from where on no row is late
        self.newest = None
        self.states = {}
        self.found = []
        self.late = self.late_used = 0
        self.emitted = []  # per batch: the rows that it emitted
        self.candidates = 0

    @property
    def watermark(self):
        """In whole milliseconds, as Spark has it; None before the first row."""
        return None if self.newest is None else (self.newest // 1000 * 1000) - self.delay

    def _next_watermark(self, notes):
        return expected_watermark(notes, self.delay) if self.foresees else None

    def reduced(self, tasks, timely):
        """The envelopes of all tasks."""
        for rows in tasks:
            yield from reduce_rows(self.plan, scored(self.plan, rows).to_batches(max_chunksize=7), timely)

    def batch(self, tasks, *, end=False):
        """One micro-batch: every task reduces its rows, every shard takes a step."""
        watermark = self.watermark
        timely = NEVER if not self.tells_tasks else ALWAYS if watermark is None else watermark
        self.tells_tasks &= not end  # the end moves the shards' clocks beyond the watermark
        arrived = {number: ([], []) for number in range(self.plan.shards)}
        for envelope in self.reduced(tasks, timely):
            tables, notes = arrived[envelope.shard]
            tables.append(envelope.rows)
            notes.append(TopKNote.from_bytes(envelope.note.to_bytes()))
        for rows in tasks:
            self.newest = max([row[0] for row in rows if row[0] is not None] + [self.newest or ALWAYS], default=None)
            self.newest = None if self.newest == ALWAYS else self.newest
        self.emitted.append([])
        for number, (tables, notes) in arrived.items():
            state = self.states.get(number)
            shard = TopKShard(self.plan, number) if state is None else TopKShard.resume(self.plan, number, state)
            answers, tally = shard.step(
                tables, notes, watermark, next_watermark=self._next_watermark(notes), end=end, provisional=True
            )
            self.late += tally.late
            self.late_used += tally.late_used
            self.candidates = tally.candidates
            rows = [row for table in answers for row in table.to_pylist()]
            self.found += rows
            self.emitted[-1] += rows
            self.states[number] = shard.state()
