"""Shards that process rows in stream order: rows wait until time has passed them, and are then sorted and ranked.

Incomplete and uncertain streams use them, because they need every row in order. Late rows are dropped and counted here
for both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import from_bytes, to_bytes
from skyband.errors import InvalidInputError, SnapshotError
from skyband.sharding.shard import Segments, Shard, Tally
from skyband.windows import ALWAYS

__all__ = ["OrderedShard"]


class OrderedShard(Shard):
    """A shard that ranks its rows in stream order. Families implement the ranking."""

    order: tuple[str, ...]  # the columns that order rows with equal positions

    def __init__(self, plan: Any, number: int, segments: Segments | None = None) -> None:
        super().__init__(plan, number, segments)
        self.waiting: Any = None  # rows that time has not passed yet; None: no row has arrived yet

    def rank(self, ready: pa.Table | None) -> list[pa.Table]:
        """Process rows in stream order, all before the clock, and return the answers that have become final."""
        raise NotImplementedError

    @property
    def candidates(self) -> int:
        """Number of items kept, without the waiting rows."""
        raise NotImplementedError

    @property
    def over_limit(self) -> int:
        """Total number of rows dropped because they exceeded `occurrences`."""
        return 0

    def due_times(self) -> Iterable[int]:
        """Times at which the next answers may be due."""
        raise NotImplementedError

    def advance(self, before: int) -> tuple[list[pa.Table], Tally]:
        """Rank the rows that time has passed."""
        over_limit = self.over_limit
        out = [] if self.clock == ALWAYS else [table for table in self.rank(self._passed()) if table.num_rows]
        tally = Tally(
            windows=sum(int(pc.sum(pc.equal(table["rank"], 1)).as_py() or 0) for table in out),
            answers=sum(map(len, out)),
            candidates=self.candidates + (0 if self.waiting is None else self.waiting.num_rows),
            last_end=max((int(pc.max(table[self.end_column]).as_py()) for table in out), default=ALWAYS),
            over_limit=self.over_limit - over_limit,
        )
        return out, tally

    @property
    def next_end(self) -> int | None:
        """Time of the next answer; None if there is nothing to answer from."""
        if self.plan.axis == "count":
            oldest = self.oldest_waiting
            return None if oldest is None else oldest + 1
        return min(self.due_times(), default=None)

    @property
    def oldest_waiting(self) -> int | None:
        """The position of the oldest waiting row."""
        if self.waiting is None or not self.waiting.num_rows:
            return None
        return int(pc.min(self.waiting["position"]).as_py())

    def accept(self, arrived: Sequence[pa.Table], notes: Sequence[Any], limit: int) -> int:
        """Queue rows that are not late; return the number of late rows.

        Notes count all rows, including dropped ones. Without notes, the rows themselves are counted.
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
                "late='refuse'. Use late='count' or a longer watermark."  # words: allow
            )
        return late

    def rows_before(self, arrived: Sequence[pa.Table], notes: Sequence[Any], limit: int) -> int:
        """Return the number of arrived rows that are behind `limit`, from the notes if they count rows."""
        histograms = [note.histogram for note in notes if note.histogram is not None]
        if histograms:
            return sum(histogram.before(limit) for histogram in histograms)
        return sum(int(pc.sum(pc.less(table["position"], limit)).as_py() or 0) for table in arrived)

    def _passed(self) -> pa.Table | None:
        """Remove and return the rows that time has passed, in stream order."""
        if self.waiting is None or not self.waiting.num_rows:
            return None
        passed = pc.less(self.waiting["position"], self.clock)
        ready = self.waiting.filter(passed)
        self.waiting = self.waiting.filter(pc.invert(passed)).combine_chunks()
        return self.in_stream_order(ready)

    def in_stream_order(self, rows: pa.Table) -> pa.Table:
        """Return rows in the order in which they are ranked."""
        return rows.take(pc.sort_indices(rows, [(name, "ascending") for name in ("position", *self.order)]))

    def save(self) -> dict[str, Any]:
        """Return the state that both families have in common; each adds its own."""
        return {
            "shards": self.plan.shards,
            "clock": self.clock,
            "newest": self.newest,
            "waiting": None if self.waiting is None else to_bytes(self.waiting),
            **self.saved_reports(),
            **self.saved_open(),
        }

    def load(self, saved: dict[str, Any]) -> None:
        """Restore what `save` returned."""
        if saved["shards"] != self.plan.shards:
            raise SnapshotError(
                f"the checkpoint was written with shards={saved['shards']}, but the stream was started with "
                f"shards={self.plan.shards}, so shards would not find their state. Use shards={saved['shards']}."
            )
        self.clock, self.newest = saved["clock"], saved["newest"]
        self.waiting = None if saved["waiting"] is None else from_bytes(saved["waiting"])
