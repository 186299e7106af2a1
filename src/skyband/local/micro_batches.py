"""The micro-batches of a stream in this process: rows move the watermark, and windows behind it are answered.

The rules are those of a stream on Spark: a row is late if it is before the watermark that the earlier batches set, and
the watermark moves after all rows of a batch are accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import one
from skyband.local.pipeline import Counts, LocalPlan
from skyband.local.replay import in_order
from skyband.sharding.emission import FINAL
from skyband.sharding.envelope import Envelope, Note, expected_watermark
from skyband.sharding.shard import MemorySegments, Segments, Shard
from skyband.windows import ALWAYS

__all__ = ["BatchResult", "MicroBatches"]

STEP_ROWS = 1 << 19  # rows that wait for their shards at a time, so that the size of a batch does not limit it


@dataclass
class BatchResult:
    """The answers of a micro-batch and what happened to its rows."""

    answers: pa.Table
    counts: Counts
    last_end: int | None = None  # of the newest answer


class MicroBatches:
    """The shards of a stream between two micro-batches.

    `time` is the column with the event time, `delay` that of the watermark in microseconds. `stored` are the states of
    the shards by name, `watermark` and `newest` those of the stream when they were stored. `past` names queries whose
    past is read before the first step.
    """

    def __init__(
        self,
        plan: LocalPlan,
        time: str,
        delay: int,
        *,
        watermark: int | None = None,
        newest: int = ALWAYS,
        stored: Mapping[str, tuple[bytes, Segments]] | None = None,
        segments_of_new: Callable[[], Segments] = MemorySegments,
        past: Iterable[str] = (),
    ) -> None:
        self._plan, self._time, self._delay = plan, time, delay
        self.watermark, self.newest = watermark, newest
        self.shards: list[Shard] = plan.resumed(stored or {}, newest, segments_of_new, past)
        # The queries without a past.
        self.joined = sorted({name for shard in self.shards for name in (*shard.joining, *shard.joined)})
        self.held = dict.fromkeys(range(len(self.shards)), 0)  # by shard: how many rows, tuples or partials it stores
        for shard in self.shards:
            if shard.joining:
                shard.newest = max(shard.newest, newest)
                shard.begin_queries(None)

    def step(self, tables: Iterable[pa.Table], messages: Sequence[Mapping[str, Any]] = ()) -> BatchResult:
        """Process the rows of a micro-batch, then the messages: the end of the stream, or time that advances."""
        counts = self._plan.counts()
        found: list[tuple[int, int, pa.Table]] = []
        waiting: list[Envelope] = []
        newest, rows = _Newest(self._time), 0
        projected, timely = newest.projected(self._plan, tables), self._timely
        for envelope in self._plan.envelopes(projected, counts, drop_unmatched=True, timely=timely):
            waiting.append(envelope)
            rows += envelope.rows.num_rows
            if rows >= STEP_ROWS and self._plan.plan.emission.is_once:  # else one step emits a window once
                found += self._advanced(waiting, counts)
                waiting, rows = [], 0
        after = expected_watermark([Note(newest.position, newest.position)], self._delay)
        found += self._advanced(waiting, counts, after=after, provisional=not messages)
        for message in messages:
            found += self._advanced([], counts, at=message.get("at"), end=message["kind"] == "end")
        self.newest = max(self.newest, newest.position)
        if after is not None:
            self.watermark = after if self.watermark is None else max(self.watermark, after)
        return self._result(found, counts)

    @property
    def _timely(self) -> int:
        """The position from which on no row of the next batch is late."""
        return max(ALWAYS if self.watermark is None else self.watermark, *(shard.clock for shard in self.shards))

    def _advanced(
        self,
        arrived: Sequence[Envelope],
        counts: Counts,
        *,
        after: int | None = None,
        at: int | None = None,
        end: bool = False,
        provisional: bool = False,
    ) -> Iterator[tuple[int, int, pa.Table]]:
        """Step all shards; `after` is the watermark after the batch, `at` a time that a message advances to."""
        for shard in self.shards:
            mine = [envelope for envelope in arrived if envelope.shard == shard.number]
            tables, tally = shard.step(
                [envelope.rows for envelope in mine],
                [envelope.note for envelope in mine],
                self.watermark if at is None else at,
                next_watermark=after,
                end=end,
                provisional=provisional,
            )
            counts.add_step(tally, with_windows=not self._plan.plan.compares_merged)
            self.held[shard.number] = tally.candidates
            for table in tables:
                if table.num_rows:
                    yield shard.number, self._plan.first_end(table), table

    def _result(self, found: list[tuple[int, int, pa.Table]], counts: Counts) -> BatchResult:
        found.sort(key=lambda answer: (answer[0] // self._plan.plan.shards, answer[1]))
        answers = in_order(self._plan, list(self._plan.merged(iter(found), counts)))
        last = None
        final = answers
        if self._plan.plan.emission.provisional:
            final = answers.filter(answers[FINAL])
        if final.num_rows:
            last = pc.max(one(final[self._plan.family.answers.moment]).cast(pa.int64())).as_py()
        return BatchResult(answers, counts, last)


class _Newest:
    """The newest position of rows, including those that no query can use."""

    def __init__(self, time: str) -> None:
        self._time = time
        self.position = ALWAYS

    def projected(self, plan: LocalPlan, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        for table in tables:
            newest = pc.max(one(table[self._time]).cast(pa.int64())).as_py()
            self.position = self.position if newest is None else max(self.position, newest)
            yield plan.project(table)
