"""Rows in stream order: they wait in their shard until time has passed them, and are then handed on, sorted.

What they are handed to is told by the families of queries that need every row in its place: incomplete and uncertain
streams. Late rows are left out and counted here, once for all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import from_bytes, to_bytes
from skyband.errors import InvalidInputError, SnapshotError
from skyband.sharding.envelope import MILLISECOND, Note
from skyband.sharding.tally import Tally
from skyband.snapshot import decode, encode, resuming
from skyband.windows import ALWAYS

__all__ = ["Sequencing"]


class Sequencing:
    """A shard that hands its rows on in stream order. Families say to whom."""

    order: ClassVar[tuple[str, ...]]  # by which columns, after the position, rows of one moment are sorted

    def __init__(self, plan: Any, number: int) -> None:
        self.plan = plan
        self.number = number
        self.clock = ALWAYS  # answers due here or before are given; rows before it are late
        self.newest = ALWAYS
        self.waiting: Any = None  # rows that time has not passed yet; None: none has come yet

    def hand_on(self, ready: pa.Table | None) -> list[pa.Table]:
        """Take in rows in stream order, all of them before the clock, and return the answers that have become final."""
        raise NotImplementedError

    def end_of_stream(self) -> int:
        """How far beyond the newest row an answer may still be about it."""
        raise NotImplementedError

    @property
    def held(self) -> int:
        """How much is held beside the rows that wait."""
        raise NotImplementedError

    @property
    def too_often(self) -> int:
        """Rows that were left out because they came too often, so far."""
        return 0

    def dues(self) -> Iterable[int]:
        """When answers may be due next."""
        raise NotImplementedError

    def inner_state(self) -> dict[str, Any]:
        """What the family adds to the state."""
        raise NotImplementedError

    def inner_load(self, state: dict[str, Any]) -> None:
        """Go on from what `inner_state` returned."""
        raise NotImplementedError

    def notice(self, note: Note) -> None:
        """Heed what a note says about rows that were left behind."""

    def settle(self, watermark: int | None) -> None:
        """Settle what depends on how far the stream has come, before rows are taken in."""

    def step(
        self,
        arrived: Iterable[pa.Table],
        notes: Iterable[Note],
        watermark: int | None,
        *,
        soon: int | None = None,
        end: bool = False,
    ) -> tuple[list[pa.Table], Tally]:
        """Take rows in, move time to `watermark` (or to the stream's end), and answer what has become final.

        Where the watermark is known to be at `soon` next, time moves there, once the rows are in.
        """
        self.settle(watermark)
        accept = self.clock if watermark is None else max(self.clock, watermark)
        too_often = self.too_often
        notes = list(notes)
        for note in notes:
            self.newest = max(self.newest, note.newest)
            self.notice(note)
        late = self._accept(arrived, notes, accept)
        self.clock = self._end(accept) if end else max(accept, ALWAYS if soon is None else soon)
        out = [] if self.clock == ALWAYS else [table for table in self.hand_on(self._passed()) if table.num_rows]
        tally = Tally(
            late,
            windows=sum(int(pc.sum(pc.equal(table["rank"], 1)).as_py() or 0) for table in out),
            answers=sum(map(len, out)),
            candidates=self.held + (0 if self.waiting is None else self.waiting.num_rows),
            newest=self.newest,
            last_end=max((int(pc.max(table["time"]).as_py()) for table in out), default=ALWAYS),
            too_often=self.too_often - too_often,
        )
        return out, tally

    @property
    def next_end(self) -> int | None:
        """When the next answer is due; None if nothing is held that it could be about."""
        if self.plan.axis == "count":
            oldest = self.oldest_waiting
            return None if oldest is None else oldest + 1
        return min(self.dues(), default=None)

    @property
    def oldest_waiting(self) -> int | None:
        """The position of the oldest row that waits."""
        if self.waiting is None or not self.waiting.num_rows:
            return None
        return int(pc.min(self.waiting["position"]).as_py())

    def _accept(self, arrived: Iterable[pa.Table], notes: list[Note], accept: int) -> int:
        """Let rows wait that are not late; return how many are.

        Notes tell of all rows, those that were left behind too; where there is none, rows are counted as they come.
        """
        fresh = [table for table in arrived if table.num_rows]
        told = [note.histogram for note in notes if note.histogram is not None]
        late = sum(histogram.before(accept) for histogram in told)
        if fresh:
            table = pa.concat_tables(fresh, promote_options="default")
            timely = table.filter(pc.greater_equal(table["position"], accept))
            late = late if told else int(table.num_rows - timely.num_rows)
            known = [timely] if self.waiting is None else [self.waiting, timely]
            self.waiting = pa.concat_tables(known, promote_options="default")
        if late and self.plan.refuse_late:
            raise InvalidInputError(
                f"a row at {min(note.oldest for note in notes)} came behind the watermark, which stands at {accept} "
                "(microseconds), and late='refuse'. Run with late='count', or with a longer watermark."
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

    def _end(self, clock: int) -> int:
        if self.newest == ALWAYS:
            return clock
        reach = 1 if self.plan.axis == "count" else self.end_of_stream()
        return max(clock, -(-(self.newest + reach) // MILLISECOND) * MILLISECOND)

    def state(self) -> bytes:
        """The shard as checked bytes."""
        return encode(
            {
                "shards": self.plan.shards,
                "clock": self.clock,
                "newest": self.newest,
                "waiting": None if self.waiting is None else to_bytes(self.waiting),
                **self.inner_state(),
            }
        )

    @classmethod
    def resume(cls, plan: Any, number: int, blob: bytes) -> Any:
        """The shard that `state` was taken of, under the same workload or a changed one."""
        with resuming():
            saved = decode(blob)
            if saved["shards"] != plan.shards:
                raise SnapshotError(
                    f"the checkpoint was written with shards={saved['shards']} and is resumed with "
                    f"shards={plan.shards}; what it holds would be looked for elsewhere. Go on with the former."
                )
            shard = cls(plan, number)
            shard.clock, shard.newest = saved["clock"], saved["newest"]
            shard.waiting = None if saved["waiting"] is None else from_bytes(saved["waiting"])
            shard.inner_load(saved)
        return shard
