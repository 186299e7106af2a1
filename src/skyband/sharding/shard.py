"""A shard: the state of some of a workload's groups, keys or objects.

A step accepts the rows that have arrived, advances the clock, and answers the windows that have become final. Families
define what is accepted, answered and stored. This module defines how time advances, which is the same for all of them.
Segments are stored apart from the shard's main state, by number, so that they are not rewritten in every step.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import pyarrow as pa

from skyband.queries.families import FAMILIES
from skyband.sharding.envelope import MILLISECOND, Note
from skyband.sharding.open_windows import OpenWindows
from skyband.sharding.plan import ShardPlan
from skyband.sharding.reported_answers import ReportedAnswers
from skyband.snapshot import StateFormat, resuming
from skyband.windows import ALWAYS

__all__ = ["CopiedSegments", "MemorySegments", "Segments", "Shard", "Tally", "shard_type", "uncollected"]


class Segments(Protocol):
    """A store of numbered segments. A segment is written once, and read only when it is needed."""

    def get(self, number: int) -> bytes:
        """Return a stored segment."""

    def put(self, number: int, data: bytes) -> None:
        """Store a segment."""

    def remove(self, number: int) -> None:
        """Remove a stored segment."""


class MemorySegments(dict[int, bytes]):
    """Segments in the memory of this process."""

    def get(self, number: int) -> bytes:  # type: ignore[override]
        """Return a stored segment."""
        return self[number]

    def put(self, number: int, data: bytes) -> None:
        """Store a segment."""
        self[number] = data

    def remove(self, number: int) -> None:
        """Remove a stored segment."""
        del self[number]


class CopiedSegments:
    """Segments of a copied shard: it reads those of the other, whose store does not change."""

    def __init__(self, segments: Segments) -> None:
        self._read, self._own = segments, MemorySegments()

    def get(self, number: int) -> bytes:
        """Return a stored segment."""
        return self._own[number] if number in self._own else self._read.get(number)

    def put(self, number: int, data: bytes) -> None:
        """Store a segment for the copy."""
        self._own[number] = data

    def remove(self, number: int) -> None:
        """Remove a stored segment for the copy, which does not read it again."""
        self._own.pop(number, None)


class Tally(NamedTuple):
    """Counts of a step, and the state size after it."""

    late: int = 0  # rows behind the watermark that were dropped
    windows: int = 0
    answers: int = 0  # rows of answers; rows of changes, if only changes are emitted
    candidates: int = 0  # rows, tuples or partials held
    newest: int = ALWAYS  # the newest position seen
    last_end: int = ALWAYS  # end of the newest window answered
    over_limit: int = 0  # tuples of incomplete streams beyond the declared occurrences
    unrankable: int = 0  # totals that are not a number
    unknown_deletes: int = 0  # deletes of keys without a value
    late_used: int = 0  # rows behind the watermark within the allowed lateness


class Shard:
    """The base class of all families' shards. Between two steps a shard may be stored and resumed elsewhere."""

    state_format: ClassVar[StateFormat]  # of the result of `state`
    note_type: ClassVar[type[Note]] = Note  # the notes that the family's reducer writes
    end_column: ClassVar[str] = "time"  # the window end, in its tables
    may_reject: ClassVar[bool] = False  # whether a step may raise an error about its rows
    takes_past: ClassVar[bool] = False  # whether it has `take_past`
    corrects_itself: ClassVar[bool] = False  # whether it implements an allowed lateness; else see `late_shard`

    def __init__(self, plan: Any, number: int, segments: Segments | None = None) -> None:
        self.plan = plan
        self.number = number
        self.segments = MemorySegments() if segments is None else segments
        self.clock = ALWAYS  # windows that end here or before are answered; rows before it are late
        self.newest = ALWAYS  # the newest position of all rows, including dropped ones
        self.settled = ALWAYS  # with an allowed lateness: windows that end here or before do not change any more
        self.corrections = 0  # with an allowed lateness: the number of steps with late rows
        self.answers_open = False  # whether this step may answer open windows
        self.reached = ALWAYS  # the position that time has reached; the end of the stream moves the clock beyond it
        self.since: dict[str, int] = {}  # by query that joined later: the smallest window start it answers
        self.joining: list[str] = []  # new queries, until the next step determines where they begin
        self.joined: list[str] = []  # new queries whose beginning was determined when the shard was resumed
        self.past: frozenset[str] = frozenset()  # new queries whose past is read before the next step
        self.reported: ReportedAnswers | None = None  # for a change feed of merged answers
        if plan.compares_merged and plan.output != "answers":
            self.reported = ReportedAnswers(plan, self.end_column, self.owner_columns)
        self.open: OpenWindows | None = None  # for provisional answers that are merged
        if plan.compares_merged and plan.emission.provisional:
            self.open = OpenWindows(plan, self.end_column)

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
        """Accept rows, advance time to `watermark` (or to the end of the stream), and answer final windows.

        If the next watermark is known, time advances to `next_watermark` after the rows are accepted. `provisional`:
        open windows can be answered, because no other step of the micro-batch follows.
        """
        self.begin_queries(watermark)
        before, notes = self.clock, list(notes)
        limit = before if watermark is None else max(before, watermark)
        self.newest = max((self.newest, *(note.newest for note in notes)))
        lateness = self.plan.emission.lateness
        oldest = max(self.settled, limit - lateness) if lateness else limit
        late = self.accept([table for table in arrived if table.num_rows], notes, oldest)
        late_used = 0
        if lateness:
            late_used = sum(note.histogram.before(limit) for note in notes if note.histogram is not None) - late
            self.corrections += any(note.oldest < limit for note in notes)
        self.answers_open = provisional and self.plan.emission.provisional
        self.clock = (
            self._end_of_stream(limit) if end else max(limit, ALWAYS if next_watermark is None else next_watermark)
        )
        known = [moment for moment in (watermark, next_watermark) if moment is not None]
        self.reached = max(self.reached, *known, self.newest if end else ALWAYS)
        answers, tally = self.advance(before)
        if self.reported is not None:
            answers = self.reported.join(answers, before, self.clock, self.reached)
        if self.open is not None and self.answers_open and notes:
            answers = self.open.join(answers, self.so_far, self.clock, self.newest)
        if lateness:
            self.settled = max(self.settled, self.clock - lateness)
        return answers, tally._replace(late=late, newest=self.newest, late_used=late_used)

    def begin_queries(self, watermark: int | None) -> None:
        """Determine where new queries begin, before rows are accepted.

        The stored rows were selected for other queries, so a new query is exact from the first window that begins after
        all rows seen. Rows that the other queries' filters removed are known only through the watermark.
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
        """Add the rows that are not behind `limit`; return the number of rows behind it. Notes are of `note_type`."""
        raise NotImplementedError

    def first_change(self, note: Note, limit: int) -> int:
        """Return a position before which no answer changes by the rows of a note that are not behind `limit`.

        All shards whose answers are merged find the same one in the notes of a micro-batch.
        """
        return max(note.oldest, limit)

    def rows_before(self, arrived: Sequence[pa.Table], notes: Sequence[Any], limit: int) -> int:
        """Return the number of arrived rows that are behind `limit`."""
        raise NotImplementedError

    def take_past(self, past: Any, reported_from: Mapping[str, int]) -> None:
        """Add what queries that join would hold if they had been there from the start.

        `past` is a shard of the same plan, at the same position of the stream, with the rows of these queries. They
        report windows that start at or after their position in `reported_from`.
        """
        raise NotImplementedError

    def replace(self, before: Self, reported_from: Mapping[str, int]) -> None:
        """Continue the stream of `before` with this state, in which queries that join were there from the start.

        They report windows that start at or after their position in `reported_from`. What other queries have reported,
        and from when on they report windows, is that of `before`.
        """
        self.since = before.since | dict(reported_from)
        self.reported = before.reported

    def advance(self, before: int) -> tuple[list[pa.Table], Tally]:
        """Answer the windows that end between `before` and the clock, and drop rows that no later window needs."""
        raise NotImplementedError

    def so_far(self) -> list[pa.Table]:
        """Return the answers of the windows that end after the clock, up to the first end after the newest position.

        They are those of the rows so far, if there were no others. The state does not change.
        """
        raise NotImplementedError

    @property
    def owner_columns(self) -> Sequence[str]:
        """The group columns of its tables, by which a change feed compares answers."""
        return ()

    @property
    def next_due(self) -> int | None:
        """Time of the next answer, or of the next comparison for a change feed; None if only new rows can cause it."""
        times = [self.next_end, None if self.reported is None else self.reported.next_due(self.clock)]
        return min((time for time in times if time is not None), default=None)

    @property
    def next_end(self) -> int | None:
        """Time of the next answer; None if there is none, or only new rows can cause it."""
        raise NotImplementedError

    @property
    def reach(self) -> int:
        """How far after the newest row the windows of a finished stream end."""
        return 1 if self.plan.axis == "count" else int(max(query.window.tail for query in self.plan.queries))

    def save(self) -> dict[str, Any]:
        """Return the state for `load`, without the segments."""
        raise NotImplementedError

    def load(self, saved: dict[str, Any]) -> None:
        """Continue from what `save` returned, under the same workload or a changed one."""
        raise NotImplementedError

    def saved_reports(self) -> dict[str, Any]:
        """Return what the change feed adds to the state: nothing without one."""
        return {} if self.reported is None else {"reported": self.reported.state()}

    def saved_open(self) -> dict[str, Any]:
        """Return what provisional answers that are merged add to the state: nothing without them."""
        return {} if self.open is None else {"open": self.open.state()}

    def load_open(self, saved: dict[str, Any], unchanged: Iterable[str], renamed: Callable[[str], str] = str) -> None:
        """Continue to answer open windows; without a stored state, all of them are answered again."""
        if self.open is not None:
            self.open.load(saved.get("open"), unchanged, renamed)

    def saved_emission(self) -> dict[str, Any]:
        """Return what an allowed lateness adds to the state: nothing without one."""
        if not self.plan.emission.lateness:
            return {}
        return {"settled": self.settled, "corrections": self.corrections}

    def load_emission(self, saved: dict[str, Any]) -> None:
        """Continue to correct final windows; those that ended before rows could be late are not corrected."""
        if self.plan.emission.lateness:
            self.settled, self.corrections = saved.get("settled", self.clock), saved.get("corrections", 0)

    def load_reports(
        self, saved: dict[str, Any], unchanged: Iterable[str], renamed: Callable[[str], str] = str
    ) -> None:
        """Continue the change feed of the queries that have not changed."""
        if self.reported is not None:
            self.reported.load(saved.get("reported"), unchanged, renamed)

    def state(self) -> bytes:
        """Return the shard as checksummed bytes in the current format version, without its segments."""
        return self.state_format.encode(self.save())

    @classmethod
    def resume(
        cls,
        plan: Any,
        number: int,
        blob: bytes,
        segments: Segments | None = None,
        past: frozenset[str] = frozenset(),
    ) -> Self:
        """Restore a shard from the bytes that `state` of this or an earlier version returned.

        `past` names new queries whose past is read before the next step.
        """
        with resuming(), uncollected():
            saved = cls.state_format.decode(blob)
            shard = cls(plan, number, segments)
            shard.past = past
            late = saved.pop("late", None)
            shard.load(saved)
            if late is not None:
                shard._pass_emitted(late["clock"])
            del saved  # before the collector counts its parts
        return shard

    def _pass_emitted(self, clock: int) -> None:
        """Continue a stream that had an allowed lateness, whose windows up to `clock` have been emitted."""
        reported, self.reported = self.reported, None
        joining, self.joining = self.joining, []
        self.step([], [], clock)
        self.reported, self.joining = reported, joining

    def _end_of_stream(self, clock: int) -> int:
        if self.newest == ALWAYS:
            return clock
        return max(clock, -(-(self.newest + self.reach) // MILLISECOND) * MILLISECOND)


@contextmanager
def uncollected() -> Iterator[None]:
    """Pause Python's garbage collector: the parts of a state are many, live for a moment, and contain no cycles.

    They would cause a collection of all objects of the process, which takes longer than to resume the shard.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def shard_type(plan: ShardPlan, number: int = 0) -> type[Shard]:
    """Return the class of a shard of a plan; this loads its compiled code."""
    found: type[Shard] = FAMILIES[plan.family].part(plan.shard_part(number)).SHARD
    return found
