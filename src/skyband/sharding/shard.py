"""A shard: the part of a workload's state that some of its groups, keys or objects live in.

A step accepts what has arrived, moves the clock, and answers what has become final by then. What is accepted, answered
and stored is up to the family; how time moves is the same in all of them, and is here. Segments are what a shard stores
beside its one value, by number, so that they need not be written with every step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import pyarrow as pa

from skyband.queries.families import FAMILIES
from skyband.sharding.envelope import MILLISECOND, Note
from skyband.sharding.plan import ShardPlan
from skyband.snapshot import StateFormat, resuming
from skyband.windows import ALWAYS

__all__ = ["MemorySegments", "Segments", "Shard", "Tally", "shard_type"]


class Segments(Protocol):
    """A store of numbered segments. A segment is written once, and read only when it is needed."""

    def get(self, number: int) -> bytes:
        """A segment that was put."""

    def put(self, number: int, data: bytes) -> None:
        """Store a segment."""

    def remove(self, number: int) -> None:
        """Drop a segment that was put."""


class MemorySegments(dict[int, bytes]):
    """Segments in this process."""

    def get(self, number: int) -> bytes:  # type: ignore[override]
        """A segment that was put."""
        return self[number]

    def put(self, number: int, data: bytes) -> None:
        """Store a segment."""
        self[number] = data

    def remove(self, number: int) -> None:
        """Drop a segment that was put."""
        del self[number]


class Tally(NamedTuple):
    """What a step did, and what is held after it."""

    late: int = 0
    windows: int = 0
    answers: int = 0  # rows of answers; of changes, where only these leave
    candidates: int = 0  # rows, tuples or partials held
    newest: int = ALWAYS  # the newest position seen
    last_end: int = ALWAYS  # the newest window answered ends here
    over_limit: int = 0  # tuples of incomplete streams beyond the occurrences declared
    unrankable: int = 0  # totals that are no number


class Shard:
    """What every family's shard does. Between two steps it may be stored as bytes and resumed elsewhere."""

    state_format: ClassVar[StateFormat]  # of what `state` returns
    note_type: ClassVar[type[Note]] = Note  # what the family's reducer writes about the rows it drops

    def __init__(self, plan: Any, number: int, segments: Segments | None = None) -> None:
        self.plan = plan
        self.number = number
        self.segments = MemorySegments() if segments is None else segments
        self.clock = ALWAYS  # windows that end here or before are answered; rows before it are late
        self.newest = ALWAYS  # the newest position of all rows, those that were reduced away too
        self.reached = ALWAYS  # how far time has come; an end of the stream moves the clock beyond it
        self.since: dict[str, int] = {}  # by query that joined later: the smallest window start it answers for
        self.joining: list[str] = []  # queries that are new, until the next step tells how far the stream has come

    def step(
        self,
        arrived: Iterable[pa.Table],
        notes: Iterable[Note],
        watermark: int | None,
        *,
        next_watermark: int | None = None,
        end: bool = False,
    ) -> tuple[list[pa.Table], Tally]:
        """Accept rows, move time to `watermark` (or to the stream's end), and answer what has become final.

        Where the next watermark is known, time moves to `next_watermark`, once the rows are in.
        """
        self.begin_queries(watermark)
        before, notes = self.clock, list(notes)
        limit = before if watermark is None else max(before, watermark)
        self.newest = max((self.newest, *(note.newest for note in notes)))
        late = self.accept([table for table in arrived if table.num_rows], notes, limit)
        self.clock = (
            self._end_of_stream(limit) if end else max(limit, ALWAYS if next_watermark is None else next_watermark)
        )
        known = [moment for moment in (watermark, next_watermark) if moment is not None]
        self.reached = max(self.reached, *known, self.newest if end else ALWAYS)
        answers, tally = self.advance(before)
        return answers, tally._replace(late=late, newest=self.newest)

    def begin_queries(self, watermark: int | None) -> None:
        """Settle where queries begin that are new, before rows are accepted.

        What is held was held for others: exact from the first window on that begins after all that was seen. Rows that
        the others' filters removed were seen by the watermark only.
        """
        if not self.joining:
            return
        seen = self.newest
        if watermark is not None:
            seen = max(seen, watermark + self.plan.delay + MILLISECOND - 1)
        if seen != ALWAYS:
            self.since |= dict.fromkeys(self.joining, seen + 1)
        self.joining = []

    def accept(self, arrived: Sequence[pa.Table], notes: Sequence[Any], limit: int) -> int:
        """Take in the rows that are not behind `limit`, and return how many are. Notes are of `note_type`."""
        raise NotImplementedError

    def advance(self, before: int) -> tuple[list[pa.Table], Tally]:
        """Answer the windows that end up to the clock, which stood at `before`, and drop what no other needs."""
        raise NotImplementedError

    @property
    def next_end(self) -> int | None:
        """When the next answer is due; None if there is none, or only more rows can bring it."""
        raise NotImplementedError

    @property
    def reach(self) -> int:
        """How far beyond the newest row an answer may still be about it."""
        return 1 if self.plan.axis == "count" else int(max(query.window.longest for query in self.plan.queries))

    def save(self) -> dict[str, Any]:
        """What `load` needs, beside the segments."""
        raise NotImplementedError

    def load(self, saved: dict[str, Any]) -> None:
        """Continue from what `save` returned, under the same workload or a changed one."""
        raise NotImplementedError

    def state(self) -> bytes:
        """The shard as checked bytes of its format's version; its segments are stored apart."""
        return self.state_format.encode(self.save())

    @classmethod
    def resume(cls, plan: Any, number: int, blob: bytes, segments: Segments | None = None) -> Self:
        """The shard that `state` was taken of, by this version or an earlier one."""
        with resuming():
            saved = cls.state_format.decode(blob)
            shard = cls(plan, number, segments)
            shard.load(saved)
        return shard

    def _end_of_stream(self, clock: int) -> int:
        if self.newest == ALWAYS:
            return clock
        return max(clock, -(-(self.newest + self.reach) // MILLISECOND) * MILLISECOND)


def shard_type(plan: ShardPlan) -> type[Shard]:
    """The class of the shards that a plan is run by; its compiled code is loaded by this."""
    found: type[Shard] = FAMILIES[plan.family].part("shard").SHARD
    return found
