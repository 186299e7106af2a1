"""The stateful processor of a shard: one state value, segments if the family uses them, and one timer.

The driver also imports this module, to read the schema of the state. Compiled code is imported only by workers, when
they handle their first micro-batch.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from skyband.sharding.plan import ShardPlan
from skyband.windows import ALWAYS

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.sharding.shard import Segments, Shard, Tally

__all__ = ["ADOPT", "LEAVE", "OUTPUT", "ShardProcessor"]

ADOPT, LEAVE = "adopt", "leave"  # messages that move the state to another number of shards
VALUE = "blob binary"
SEGMENT_KEY, SEGMENT_VALUE = "number long", "data binary"
OUTPUT = (
    "answers binary, unit long, late long, windows long, answered long, candidates long, bytes long, "
    "newest long, last_end long, over_limit long, unrankable long"
)
LATE_USED = "late_used long"  # in addition, with an allowed lateness
UNKNOWN_DELETES = "unknown_deletes long"  # in addition, if rows can delete keys
MILLISECOND = 1000  # Spark's timers and watermarks are in milliseconds, ours in microseconds


class ShardProcessor(StatefulProcessor):
    """Passes envelopes and the watermark to a shard, and stores the shard before it emits output.

    `delay` is how far the watermark is behind the newest row, in microseconds; None if other watermarks can hold it
    back. `final_at_end`: the watermark makes no window final and no row late; only control messages do, such as the end
    of the stream. `past` names queries whose past arrives in a message. In the output, ``unit`` is the number of the
    shard.
    """

    handle: StatefulProcessorHandle

    def __init__(
        self,
        plan: ShardPlan,
        keys: Mapping[int, int],
        delay: int | None = None,
        *,
        final_at_end: bool = False,
        past: frozenset[str] = frozenset(),
    ) -> None:
        self._plan = plan
        self._past = past
        self._delay = delay
        self._final_at_end = final_at_end
        self._numbers = {key: number for number, key in keys.items()}
        self._columns = tuple(part.split()[0] for part in self.output.split(", "))

    @property
    def output(self) -> str:
        """The columns of the output."""
        if self._plan.counts_deletes:
            return f"{OUTPUT}, {UNKNOWN_DELETES}"
        return f"{OUTPUT}, {LATE_USED}" if self._plan.emission.lateness else OUTPUT

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the shard's state. Spark calls this once per task."""
        self.handle = handle
        self._value = handle.getValueState(self._plan.value_state, VALUE)
        self._segments: Segments | None = None
        if self._plan.segment_state is not None:
            self._segments = _MapSegments(handle.getMapState(self._plan.segment_state, SEGMENT_KEY, SEGMENT_VALUE))

    def handleInputRows(self, key: Any, rows: Iterable[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Handle the envelopes of a micro-batch."""
        yield from self.handle_batch(key[0], rows, timerValues.getCurrentWatermarkInMs())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Handle the expired timer: time advanced without rows."""
        yield from self.handle_batch(key[0], (), timerValues.getCurrentWatermarkInMs())

    def handle_batch(self, key: Any, rows: Iterable[Row], watermark: int) -> Iterator[Row]:
        """Run one step of the shard for the envelopes and one for each message, then store the shard.

        State that cannot be resumed raises here, before anything is stored, so the stored state is unchanged.
        """
        from skyband.sharding.envelope import expected_watermark  # noqa: PLC0415 - only workers import compiled code
        from skyband.sharding.shard import shard_type  # noqa: PLC0415
        from skyband.spark.tasks import opened  # noqa: PLC0415

        number = self._numbers.get(key)
        kind = shard_type(self._plan, number or 0)
        tables, notes, messages = opened(rows, kind.note_type)
        if number is None:  # its state was moved to other shards
            self._discard()
            return
        messages = self._adopt(messages)
        shard, parts, messages = self._with_past(self._loaded(number), messages)
        at = watermark * MILLISECOND or None  # Spark's watermark is 0 before the first row
        if self._final_at_end:
            shard.begin_queries(at)  # the watermark still gives the position of the stream
            at = None
        parts.append(
            shard.step(
                tables,
                notes,
                at,
                next_watermark=expected_watermark(notes, self._delay),
                provisional=not messages,  # only the last step of the micro-batch
            )
        )
        parts += [shard.step([], [], message.get("at", at), end=message["kind"] == "end") for message in messages]
        blob = shard.state()
        self._value.update((blob,))
        self.set_timer(shard.next_due)
        candidates = parts[-1][1].candidates
        for answers, tally in parts:
            yield from self._rows(number, answers, tally._replace(candidates=candidates), len(blob))

    def _adopt(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Replace the state by the state in a message, if there is one; return the other messages.

        An interrupted start may have written the same state before. State for another number of shards is of a start
        that was interrupted before it had changed the checkpoint.
        """
        moved = [one for one in messages if one["kind"] == ADOPT and one["shards"] == self._plan.shards]
        if moved:
            self._value.update((b64decode(max(moved, key=lambda one: int(one["attempt"]))["state"]),))
        return [one for one in messages if one["kind"] not in (ADOPT, LEAVE)]

    def _with_past(
        self, shard: Shard, messages: list[dict[str, Any]]
    ) -> tuple[Shard, list[tuple[list[pa.Table], Tally]], list[dict[str, Any]]]:
        """Return the shard with the past in a message, if there is one, answers that were due, and other messages."""
        from skyband.sharding.past_message import PAST, newest_past, with_past  # noqa: PLC0415

        others = [one for one in messages if one["kind"] != PAST]
        if len(others) == len(messages):
            return shard, [], messages
        found = newest_past((one for one in messages if one["kind"] == PAST), self._plan)
        return (shard, [], others) if found is None else (*with_past(shard, found), others)

    def _discard(self) -> None:
        """Remove state and timers."""
        self._value.clear()
        for timer in list(self.handle.listTimers()):
            self.handle.deleteTimer(timer)

    def _loaded(self, number: int) -> Any:
        from skyband.sharding.late_shard import resumed_shard, stream_shard  # noqa: PLC0415 - as above

        saved = self._value.get()
        if saved is None:
            return stream_shard(self._plan, number, self._segments)
        return resumed_shard(self._plan, number, bytes(saved[0]), self._segments, self._past)

    def set_timer(self, end: int | None) -> None:
        """Set the timer for a window that ends at `end`; None: the shard runs only when envelopes arrive.

        Spark's timers fire when the watermark is beyond them. If answers of shards are merged, the timer must fire as
        soon as the watermark reaches the end: shards with rows answer then, and one micro-batch must have all answers.
        """
        at = None
        if end is not None and not self._final_at_end:
            at = max(1, -(-end // MILLISECOND) - (1 if self._plan.merges_answers else 0))
        for timer in list(self.handle.listTimers()):
            if timer != at:
                self.handle.deleteTimer(timer)
        if at is not None:
            self.handle.registerTimer(at)

    def _rows(self, number: int, answers: list[pa.Table], tally: Tally, size: int) -> Iterator[Row]:
        """Yield one row with the counts, and one for each table of answers."""
        from skyband.data.packed_table import pack_table  # noqa: PLC0415

        same = {
            "unit": number,
            "candidates": tally.candidates,
            "bytes": size,
            "newest": None if tally.newest == ALWAYS else tally.newest,
            "last_end": None if tally.last_end == ALWAYS else tally.last_end,
        }
        once = {
            "late": tally.late,
            "windows": tally.windows,
            "answered": tally.answers,
            "over_limit": tally.over_limit,
            "unrankable": tally.unrankable,
            "late_used": tally.late_used,
            "unknown_deletes": tally.unknown_deletes,
        }
        for data in (None, *map(pack_table, answers)):
            values = {"answers": data, **same, **once}
            yield Row(*self._columns)(*(values[name] for name in self._columns))
            once = dict.fromkeys(once, 0)

    def close(self) -> None:
        """Do nothing: there are no resources to release."""


class _MapSegments:
    """Segments in Spark's map state."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def get(self, number: int) -> bytes:
        return bytes(self._state.getValue((number,))[0])

    def put(self, number: int, data: bytes) -> None:
        self._state.updateValue((number,), (data,))

    def remove(self, number: int) -> None:
        self._state.removeKey((number,))

    def clear(self) -> None:
        self._state.clear()
