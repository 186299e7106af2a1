"""Executor of queries with ``method="sketch"``: a summary of the open pane, and an engine that adds up closed panes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.aggregate.engine import EngineAnswers
from skyband.aggregate.executor import AggregateExecutor, KeyBatch, KeyedAnswers
from skyband.aggregate.kernels.totals import Partials
from skyband.aggregate.key_sessions import KeySessionExecutor
from skyband.aggregate.pane_bounds import PaneBounds, counter_partials
from skyband.aggregate.shape import AggregateShape
from skyband.aggregate.sketches import KeyIdentities, PaneSummary
from skyband.data.arrow import from_bytes, one, to_bytes
from skyband.kernels.stream import Ints
from skyband.session_windows import SessionWindows
from skyband.windows import NEVER

__all__ = ["SketchExecutor", "evictions", "exact_bounds", "executor_of"]

_CHUNK = 1 << 16  # rows: arrays of this size fit into the cache


def executor_of(shape: AggregateShape, places: Ints, grouped: bool, group: int = -1) -> AggregateExecutor:
    """Return the executor for these queries."""
    made = AggregateExecutor if shape.counters is None else SketchExecutor
    if isinstance(shape.queries[0].window, SessionWindows):
        made = KeySessionExecutor
    return made(shape, places, grouped, group)


def evictions(executors: Iterable[AggregateExecutor]) -> dict[str, int]:
    """Return how often a counter was evicted, for metrics; nothing if all queries are exact."""
    found = [executor.evicted for executor in executors if isinstance(executor, SketchExecutor)]
    return {"evicted": sum(found)} if found else {}


def exact_bounds(columns: Mapping[str, Any], rows: int, wanted: Collection[str]) -> dict[str, pa.Array]:
    """Return the columns of bounds, if they are wanted, with those of exact answers where they are null."""
    found = {}
    for name, exact in (("error", 0.0), ("guaranteed", True)):
        if name in wanted:
            found[name] = pc.fill_null(columns[name], exact) if name in columns else pa.repeat(exact, rows)
    return found


class SketchExecutor(AggregateExecutor):
    """Process rows and return answers with bounds. Memory is bounded by the counters of each pane and group."""

    def __init__(self, shape: AggregateShape, places: Ints, grouped: bool, group: int = -1) -> None:
        super().__init__(shape, places, grouped, group)
        self._open = PaneSummary(shape.counters or 0)
        self._open_end = NEVER  # end of the open pane, NEVER if there is none
        self._open_mark = 0
        self._panes = shape.panes
        self._bounds = PaneBounds()
        self._longest = max(query.window.longest for query in shape.queries)

    @property
    def partials(self) -> int:
        """Number of counters held, including those of the open pane."""
        return super().partials + len(self._open)

    @property
    def evicted(self) -> int:
        """How often a counter was evicted."""
        return self._open.evicted

    def take_in(self, batch: KeyBatch, groups: int, first: int) -> list[KeyedAnswers]:
        """Process rows and return the answers of windows that end at or before the last row."""
        found, low = [], 0
        while low < len(batch.keys):
            position = int(batch.positions[low]) if batch.positions.size else self.objects
            if position >= self._open_end:
                found += self._close(groups, first)
            if self._open_end == NEVER:
                at = np.array([position])
                self._open_end, self._open_mark = int(self._panes.ends_of(at)[0]), int(self._panes.marks_of(at)[0])
            high = min(low + _CHUNK, len(batch.keys))
            if batch.positions.size:
                high = low + int(np.searchsorted(batch.positions[low:high], self._open_end))
            else:
                high = min(high, low + self._open_end - position)
            self._take(batch, low, high)
            low = high
        return found

    def advance(self, to: int, groups: int, first: int) -> list[KeyedAnswers]:
        """Return the answers of all windows that end at or before `to`."""
        found = self._close(groups, first) if to >= self._open_end else []
        self.engine.advance(to, self.book.keys, groups, first)
        return found + self._answered()

    @property
    def groups(self) -> Ints:
        """Codes of the groups with at least one key."""
        return np.union1d(super().groups, self._open.groups)

    def _take(self, batch: KeyBatch, low: int, high: int) -> None:
        """Add rows to the open pane."""
        keys = batch.keys.slice(low, high - low)
        weights = batch.values[low:high] if self.shape.weighted else None
        self._open.take(
            KeyIdentities.of(keys),
            keys.type,
            None if weights is None else (weights, weights),
            batch.positions[low:high],
            None if batch.groups is None else batch.groups[low:high],
            self.objects,
        )
        self.objects += high - low

    def _close(self, groups: int, first: int) -> list[KeyedAnswers]:
        """Pass the counters of the open pane to the engine."""
        found, mark = self._open.held(), self._open_mark
        addends, adds = counter_partials(found)
        slots = self.book.slots_of(found.keys, found.groups if self._grouped else None)
        rows = Partials(
            slots=slots,
            positions=found.lasts,
            lows=np.full(slots.size, mark),
            adds=adds,
            extremes=np.empty((slots.size, 0)),
            ats=np.empty((slots.size, 0), np.int64),
            ids=np.empty((slots.size, 0), np.int64),
        )
        # Windows that end before this pane do not contain it: its bounds are not looked up for their answers.
        self._bounds.add(mark, slots, found)
        self.engine.take_partials(rows, addends, self.book.keys, groups, first)
        answers = self._answered()
        self._bounds.drop_before(mark - self._longest)
        self._open.clear()
        self._open_end = NEVER
        return answers

    def _completed(self, part: EngineAnswers) -> EngineAnswers:
        """Return answers with the bounds of their scores."""
        found = self._bounds.bounded(part.windows, self.shape.queries)
        more: dict[str, Any] = {name: column[found.kept] for name, column in part.more.items()}
        more |= {"share": np.full(found.kept.size, np.nan), "error": found.errors, "guaranteed": found.guaranteed}
        return part._replace(windows=found.windows, more=more)

    def state(self) -> dict[str, Any]:
        """Return the state for `load`."""
        sketch = {
            "end": self._open_end,
            "mark": self._open_mark,
            "open": self._open.state(),
            "keys": to_bytes(pa.table({"key": self._open.keys})),
            "bounds": self._bounds.state(),
        }
        return {**super().state(), "sketch": sketch}

    def load(self, state: dict[str, Any]) -> None:
        """Restore the state that `state` returned."""
        super().load(state)
        saved = state["sketch"]
        self._open_end, self._open_mark = saved["end"], saved["mark"]
        self._open.load(saved["open"], one(from_bytes(saved["keys"])["key"]))
        self._bounds.load(saved["bounds"])
