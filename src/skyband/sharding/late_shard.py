"""A shard that accepts late rows: the shard of a stream with a longer watermark, and a copy that answers earlier.

The inner shard follows a clock that is behind the watermark by the allowed lateness, so its state is that of a stream
with a longer watermark. In each step, a copy of it continues to the watermark; its answers are emitted, and the copy is
dropped. If rows were late, a second copy, without the new rows, computes what was emitted before, and the merge emits
the windows that differ. Nothing in the families' shards knows that rows can be late.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.sharding.envelope import Note
from skyband.sharding.reported_answers import ReportedAnswers
from skyband.sharding.revisions import again
from skyband.sharding.shard import CopiedSegments, Segments, Shard, Tally, shard_type, uncollected
from skyband.snapshot import resuming
from skyband.windows import ALWAYS, NEVER

__all__ = ["LateShard", "resumed_shard", "stream_shard"]

_LATE = "late"  # what this adds to the inner shard's state


class LateShard:
    """A shard of a stream with an allowed lateness, whose answers are merged. It is used like the inner shard."""

    def __init__(self, plan: Any, number: int, segments: Segments | None = None) -> None:
        self.plan, self.number = plan, number
        self._plain = replace(plan, emission=replace(plan.emission, lateness=0), output="answers")
        self._type = shard_type(self._plain, number)
        self._inner: Shard = self._type(self._plain, number, segments)
        self.clock = ALWAYS  # windows that end here or before have been emitted
        self.corrections = 0  # the number of steps with late rows
        self.reached = ALWAYS
        self._due: int | None = None  # when the next window ends
        self.reported: ReportedAnswers | None = None
        if plan.output != "answers":
            self.reported = ReportedAnswers(plan, self._inner.end_column, self._inner.owner_columns)

    @property
    def note_type(self) -> type[Note]:
        """The notes that the family's reducer writes."""
        return self._type.note_type

    @property
    def segments(self) -> Segments:
        """The store of the inner shard's segments."""
        return self._inner.segments

    @property
    def newest(self) -> int:
        """The newest position of all rows."""
        return self._inner.newest

    @newest.setter
    def newest(self, position: int) -> None:
        self._inner.newest = position

    @property
    def joining(self) -> list[str]:
        """New queries, until the next step determines where they begin."""
        return self._inner.joining

    @joining.setter
    def joining(self, names: list[str]) -> None:
        self._inner.joining = names

    @property
    def joined(self) -> list[str]:
        """New queries whose beginning was determined when the shard was resumed."""
        return self._inner.joined

    @property
    def since(self) -> dict[str, int]:
        """The smallest window start that a query answers, by query that joined later."""
        return self._inner.since

    @property
    def past(self) -> frozenset[str]:
        """New queries whose past is read before the next step."""
        return self._inner.past

    @past.setter
    def past(self, names: frozenset[str]) -> None:
        self._inner.past = names

    def begin_queries(self, watermark: int | None) -> None:
        """Determine where new queries begin, before rows are accepted."""
        self._inner.begin_queries(watermark)

    def step(
        self,
        arrived: Iterable[pa.Table],
        notes: Iterable[Note],
        watermark: int | None,
        *,
        next_watermark: int | None = None,
        end: bool = False,
        provisional: bool = False,
    ) -> tuple[list[pa.Table], Tally]:
        """Accept rows, advance time to `watermark` (or to the end of the stream), and answer windows.

        These are the windows that have become final, and those that late rows of this step may have changed.
        """
        inner, before = self._inner, self.clock
        inner.begin_queries(watermark)
        tables, notes = [table for table in arrived if table.num_rows], list(notes)
        limit = before if watermark is None else max(before, watermark)
        slow = max(inner.clock, limit - self.plan.emission.lateness)
        known: list[pa.Table] = []
        oldest = min((inner.first_change(note, slow) for note in notes), default=NEVER)
        if oldest < before:
            known, _ = self._copy().step([], [], before)
        behind = inner.rows_before(tables, notes, limit)
        settled, tally = inner.step(tables, notes, None if limit == ALWAYS else slow)
        copy = self._copy()
        found, ahead = copy.step([], [], None if limit == ALWAYS else limit, next_watermark=next_watermark, end=end)
        self.clock, self._due = copy.clock, copy.next_due
        moments = [moment for moment in (watermark, next_watermark) if moment is not None]
        self.reached = max(self.reached, *moments, inner.newest if end else ALWAYS)
        found = [*settled, *found]
        fresh = self._ending(found, before, NEVER)
        if self.reported is not None:
            fresh = self.reported.join(fresh, before, self.clock, self.reached)
        if inner.open is not None and provisional and notes:
            fresh = inner.open.join(fresh, copy.so_far, self.clock, inner.newest)
        self.corrections += oldest < before
        for answers, is_before in ((known, True), (found, False)):
            if oldest < before:
                fresh += [
                    again(table, self.corrections, before=is_before) for table in self._ending(answers, oldest, before)
                ]
        return fresh, ahead._replace(
            late=tally.late,
            late_used=behind - tally.late,
            over_limit=tally.over_limit,
            unrankable=tally.unrankable,
            candidates=tally.candidates,
            newest=inner.newest,
        )

    def _ending(self, tables: Iterable[pa.Table], after: int, until: int) -> list[pa.Table]:
        """Return the answers of windows that end after `after` and at or before `until`."""
        found = []
        for table in tables:
            ends = table[self._type.end_column].cast(pa.int64())
            wanted = table.filter(pc.and_(pc.greater(ends, after), pc.less_equal(ends, until)))
            if wanted.num_rows:
                found.append(wanted)
        return found

    def _copy(self) -> Shard:
        """Return a copy of the inner shard that writes no segments."""
        blob = self._inner.state()
        copy = self._type.resume(self._plain, self.number, blob, CopiedSegments(self._inner.segments))
        copy.newest = self._inner.newest
        return copy

    @property
    def next_due(self) -> int | None:
        """Time of the next answer, or of the next comparison for a change feed; None if only new rows can cause it."""
        times = [self._due, None if self.reported is None else self.reported.next_due(self.clock)]
        return min((time for time in times if time is not None), default=None)

    def state(self) -> bytes:
        """Return the inner shard's state with its clock for `resume`, without segments."""
        late = {"clock": self.clock, "corrections": self.corrections, "due": self._due}
        reports = {} if self.reported is None else {"reported": self.reported.state()}
        return self._type.state_format.encode({**self._inner.save(), _LATE: late, **reports})

    def load(self, saved: dict[str, Any]) -> None:
        """Continue from what `state` encoded, or from the state of a stream without an allowed lateness."""
        late = saved.pop(_LATE, None)
        self._inner.reported = self.reported  # the families know which queries have not changed
        self._inner.load(saved)
        self._inner.reported = None
        if late is None:  # windows that were final before are not corrected
            self.clock, self._due = self._inner.clock, self._inner.next_due
        else:
            self.clock, self.corrections, self._due = late["clock"], late["corrections"], late["due"]


def stream_shard(plan: Any, number: int, segments: Segments | None = None) -> Any:
    """Return a new shard of a stream."""
    return (LateShard if _corrects(plan, number) else shard_type(plan, number))(plan, number, segments)


def resumed_shard(
    plan: Any, number: int, blob: bytes, segments: Segments | None = None, past: frozenset[str] = frozenset()
) -> Any:
    """Restore a shard of a stream, which may have had another allowed lateness."""
    kind = shard_type(plan, number)
    if not _corrects(plan, number):
        return kind.resume(plan, number, blob, segments, past)
    with resuming(), uncollected():
        saved = kind.state_format.decode(blob)
        shard = LateShard(plan, number, segments)
        shard.past = past
        shard.load(saved)
        del saved
    return shard


def _corrects(plan: Any, number: int) -> bool:
    return bool(plan.emission.lateness) and not shard_type(plan, number).corrects_itself
