"""Rows in stream order: they wait in their shard until time has passed them, and are then ranked, sorted.

For the families that need every row in its place: incomplete and uncertain streams. Late rows are dropped and counted
here, once for both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import from_bytes, to_bytes
from skyband.errors import InvalidInputError, SnapshotError
from skyband.sharding.shard import Segments, Shard, Tally
from skyband.windows import ALWAYS

__all__ = ["OrderedShard"]


class OrderedShard(Shard):
    """A shard that ranks its rows in stream order. Families say how."""

    order: ClassVar[tuple[str, ...]]  # by which columns, after the position, rows of one moment are sorted

    def __init__(self, plan: Any, number: int, segments: Segments | None = None) -> None:
        super().__init__(plan, number, segments)
        self.waiting: Any = None  # rows that time has not passed yet; None: none has come yet

    def rank(self, ready: pa.Table | None) -> list[pa.Table]:
        """Take in rows in stream order, all of them before the clock, and return the answers that have become final."""
        raise NotImplementedError

    @property
    def candidates(self) -> int:
        """How much is held beside the rows that wait."""
        raise NotImplementedError

    @property
    def over_limit(self) -> int:
        """Rows that were dropped because they came too often, so far."""
        return 0

    def due_times(self) -> Iterable[int]:
        """When answers may be due next."""
        raise NotImplementedError

    def advance(self, before: int) -> tuple[list[pa.Table], Tally]:
        """Rank the rows that time has passed."""
        over_limit = self.over_limit
        out = [] if self.clock == ALWAYS else [table for table in self.rank(self._passed()) if table.num_rows]
        tally = Tally(
            windows=sum(int(pc.sum(pc.equal(table["rank"], 1)).as_py() or 0) for table in out),
            answers=sum(map(len, out)),
            candidates=self.candidates + (0 if self.waiting is None else self.waiting.num_rows),
            last_end=max((int(pc.max(table["time"]).as_py()) for table in out), default=ALWAYS),
            over_limit=self.over_limit - over_limit,
        )
        return out, tally

    @property
    def next_end(self) -> int | None:
        """When the next answer is due; None if nothing is held that it could be about."""
        if self.plan.axis == "count":
            oldest = self.oldest_waiting
            return None if oldest is None else oldest + 1
        return min(self.due_times(), default=None)

    @property
    def oldest_waiting(self) -> int | None:
        """The position of the oldest row that waits."""
        if self.waiting is None or not self.waiting.num_rows:
            return None
        return int(pc.min(self.waiting["position"]).as_py())

    def accept(self, arrived: Sequence[pa.Table], notes: Sequence[Any], limit: int) -> int:
        """Let rows wait that are not late; return how many are.

        Notes tell of all rows, those that were reduced away too; where there is none, rows are counted as they come.
        """
        histograms = [note.histogram for note in notes if note.histogram is not None]
        late: int = sum(histogram.before(limit) for histogram in histograms)
        if arrived:
            table = pa.concat_tables(arrived, promote_options="default")
            timely = table.filter(pc.greater_equal(table["position"], limit))
            late = late if histograms else int(table.num_rows - timely.num_rows)
            known = [timely] if self.waiting is None else [self.waiting, timely]
            self.waiting = pa.concat_tables(known, promote_options="default")
        if late and self.plan.refuse_late:
            raise InvalidInputError(
                f"a row at {min(note.oldest for note in notes)} is behind the watermark {limit} (microseconds), and "
                "late='refuse'. Use late='count' or a longer watermark."
            )
        return late

    def _passed(self) -> pa.Table | None:
        """The rows that time has passed, in stream order; they wait no longer."""
        if self.waiting is None or not self.waiting.num_rows:
            return None
        passed = pc.less(self.waiting["position"], self.clock)
        ready = self.waiting.filter(passed)
        self.waiting = self.waiting.filter(pc.invert(passed)).combine_chunks()
        return ready.take(pc.sort_indices(ready, [(name, "ascending") for name in ("position", *self.order)]))

    def save(self) -> dict[str, Any]:
        """What both families store; each adds its own."""
        return {
            "shards": self.plan.shards,
            "clock": self.clock,
            "newest": self.newest,
            "waiting": None if self.waiting is None else to_bytes(self.waiting),
        }

    def load(self, saved: dict[str, Any]) -> None:
        """Continue from what `save` returned."""
        if saved["shards"] != self.plan.shards:
            raise SnapshotError(
                f"the checkpoint was written with shards={saved['shards']}, but the stream was started with "
                f"shards={self.plan.shards}, so shards would not find their state. Use shards={saved['shards']}."
            )
        self.clock, self.newest = saved["clock"], saved["newest"]
        self.waiting = None if saved["waiting"] is None else from_bytes(saved["waiting"])
