"""The panes of a shard whose queries have ``method="sketch"``: open ones as summaries, closed ones as bounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.aggregate.addends import Addends
from skyband.aggregate.engine import EngineAnswers
from skyband.aggregate.kernels.totals import Partials
from skyband.aggregate.open_sketches import ClosedSketch, OpenSketches
from skyband.aggregate.pane_bounds import PaneBounds, counter_partials
from skyband.aggregate.panes import IrregularPanes, LatticePanes
from skyband.aggregate.shape import AggregateShape
from skyband.data.arrow import one
from skyband.kernels.stream import Ints

__all__ = ["BOUND", "BOUNDS", "SketchedPanes", "merged_bounds"]

BOUND = "bound."  # prefix of columns of the answers of shards
BOUNDS = ("low", "error", "missing")


class SketchedPanes:
    """Summaries of open panes, and the bounds of closed ones."""

    def __init__(
        self, shape: AggregateShape, panes: LatticePanes | IrregularPanes, groups: tuple[str, ...], key: str
    ) -> None:
        self._shape = shape
        self._open = OpenSketches(shape, panes, groups, key)
        self._bounds = PaneBounds()
        self._longest = max(query.window.longest for query in shape.queries)

    def __len__(self) -> int:
        """Return the number of counters of open panes."""
        return len(self._open)

    @property
    def oldest(self) -> int | None:
        """A position in the oldest open pane, None if there is none."""
        return self._open.oldest

    def take(self, fresh: pa.Table | None, clock: int) -> Iterator[ClosedSketch]:
        """Add partials, and yield the panes that end at or before `clock`, oldest first."""
        return self._open.take(fresh, clock)

    def close(self, sketch: ClosedSketch, slots: Ints, groups: Ints) -> tuple[Partials, Addends]:
        """Add the bounds of a pane. Return its partials; `slots` and `groups` are those of its rows in the shard."""
        found = sketch.found
        addends, adds = counter_partials(found)
        # Groups have other codes in the shard. A group with evicted keys has counters, too.
        codes = np.zeros(int(found.groups.max(initial=-1)) + 1, np.int64)
        codes[found.groups] = groups
        evicted = codes[found.evicted]
        order = np.argsort(evicted)
        mine = found._replace(groups=groups, evicted=evicted[order], offsets=found.offsets[order])
        self._bounds.add(sketch.mark, slots, mine)
        rows = Partials(
            slots=slots,
            positions=found.lasts,
            lows=np.full(slots.size, sketch.mark),
            adds=adds,
            extremes=np.empty((slots.size, 0)),
            ats=np.empty((slots.size, 0), np.int64),
            ids=np.empty((slots.size, 0), np.int64),
        )
        return rows, addends

    def forget(self, mark: int) -> None:
        """Drop the bounds of panes that no window after a pane needs."""
        self._bounds.drop_before(mark - self._longest)

    def bounded(self, part: EngineAnswers) -> EngineAnswers:
        """Return answers with the bounds of their scores."""
        found = self._bounds.bounded(part.windows, self._shape.queries)
        more: dict[str, Any] = {name: column[found.kept] for name, column in part.more.items()}
        more |= {"low": found.lows, "error": found.errors, "missing": found.most_missing}
        return part._replace(windows=found.windows, more=more, held=part.held[:0])

    def state(self) -> dict[str, Any]:
        """Return the state of open panes for `load`."""
        return self._open.state()

    def load(self, state: dict[str, Any], newest: int | None = None) -> None:
        """Restore open panes. With other panes, `newest` is the position of the newest row."""
        self._open.load(state, newest)

    def closed(self, used: Ints) -> dict[str, Any]:
        """Return the bounds of closed panes for `load_closed`. The groups with the codes `used` are numbered again."""
        return self._bounds.state(used)

    def load_closed(self, state: dict[str, Any]) -> None:
        """Restore the bounds of closed panes."""
        self._bounds.load(state)


def merged_bounds(table: pa.Table, windows: Ints, order: Ints) -> dict[str, pa.Array]:
    """Return the errors of merged answers, and which rows are guaranteed.

    `table` has the answers of all shards, `windows` the window of each row, and `order` the rows that remain. A key
    belongs to one shard, so bounds do not change; but the keys that are missing are those of all shards.
    """
    if f"{BOUND}low" not in table.column_names:
        return {"error": pa.repeat(0.0, order.size), "guaranteed": pa.repeat(True, order.size)}
    missing = np.full(int(windows.max(initial=-1)) + 1, 0.0)
    np.maximum.at(missing, windows, one(table[f"{BOUND}missing"]).to_numpy())
    dropped = np.ones(windows.size, bool)
    dropped[order] = False
    np.maximum.at(missing, windows[dropped], one(table["score"]).to_numpy()[dropped])
    chosen = pa.array(order)
    lows = one(table[f"{BOUND}low"]).to_numpy()[order]
    return {"error": one(table[f"{BOUND}error"]).take(chosen), "guaranteed": pa.array(lows >= missing[windows[order]])}
