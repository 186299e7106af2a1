"""The keys of an executor by pane: deletes of keys without a value, and more keys in a window than its query allows.

Rows arrive one push after another here, so those of the open pane are reduced to the newest one of each key. A pane is
looked at when it has ended, as a shard does: see `key_panes`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.aggregate.key_panes import KeyPanes, refuse_more_keys
from skyband.aggregate.shape import AggregateShape
from skyband.kernels.stream import Floats, Ints
from skyband.windows import ALWAYS, NEVER

__all__ = ["FollowedKeys", "KeysOfRows"]


class KeysOfRows(NamedTuple):
    """The keys of rows by slot, and what decides which row of a key is the newest. NaN is the value of a delete."""

    slots: Ints
    positions: Ints
    ids: Ints
    values: Floats
    counts: Ints  # the number of rows that each row stands for

    @classmethod
    def nothing(cls) -> KeysOfRows:
        """Return no rows."""
        none = np.empty(0, np.int64)
        return cls(none, none, none, np.empty(0), none)

    def taken(self, rows: slice) -> KeysOfRows:
        """Return some of the rows."""
        slots, positions, ids, values, counts = self
        return KeysOfRows(slots[rows], positions[rows], ids[rows], values[rows], counts[rows])

    def and_rows(self, others: KeysOfRows) -> KeysOfRows:
        """Return the newest row of each key, for all rows of the key."""
        slots, positions, ids, values, counts = (
            np.concatenate([mine, theirs]) for mine, theirs in zip(self, others, strict=True)
        )
        order = np.lexsort([ids, positions, slots])
        begins = np.flatnonzero(np.diff(slots[order], prepend=-1))
        newest = order[np.append(begins[1:], order.size) - 1]
        summed = np.add.reduceat(counts[order], begins) if order.size else counts
        return KeysOfRows(slots[newest], positions[newest], ids[newest], values[newest], summed)


class FollowedKeys:
    """The newest pane of each key, and the rows of the open pane."""

    def __init__(self, shape: AggregateShape) -> None:
        self.unknown_deletes = 0
        self._shape, self._panes = shape, shape.panes
        self._since = [ALWAYS] * len(shape.queries)
        self._keys = KeyPanes(self._first_start)
        self._open = KeysOfRows.nothing()
        self._end, self._mark = NEVER, 0  # of the open pane; NEVER: there is none

    def answer_since(self, starts: list[int]) -> None:
        """Set, per query, the smallest window start that is answered; NEVER for a removed query."""
        self._since = starts

    def take(self, rows: KeysOfRows) -> None:
        """Take rows in the order of panes; raise an error if a window that has ended has too many keys."""
        marks = self._panes.marks_of(rows.positions)
        for some in np.split(np.arange(marks.size), np.flatnonzero(np.diff(marks)) + 1):
            if not some.size:
                continue
            mine = rows.taken(slice(int(some[0]), int(some[-1]) + 1))
            if self._end != NEVER and int(marks[some[0]]) != self._mark:
                self._close()
            self._mark, self._end = int(marks[some[0]]), int(self._panes.ends_of(mine.positions[:1])[0])
            self._open = self._open.and_rows(mine)

    def advance(self, to: int) -> None:
        """Look at the open pane if it ends at or before a position."""
        if self._end <= to:
            self._close()

    def _close(self) -> None:
        """Look at the keys of the open pane."""
        rows, self._open, self._end = self._open, KeysOfRows.nothing(), NEVER
        marks = np.full(rows.slots.size, self._mark)
        self.unknown_deletes += self._keys.unknown_deletes(rows.slots, marks, rows.values, rows.counts)
        pairs = zip(self._shape.queries, self._since, strict=True)
        limited = [(query, query.max_keys, start) for query, start in pairs if query.max_keys and start != NEVER]
        refuse_more_keys(self._keys, limited, rows.slots, marks, rows.values)

    def _first_start(self, mark: int) -> int:
        """Return the earliest start of the windows that end next after a pane begins."""
        windows = [query.window for query in self._shape.queries]
        starts = zip(windows, self._since, strict=True)
        return min(max(window.start(window.first_end_after(mark)), since) for window, since in starts)

    def begin_with(self, slots: Ints, lasts: Ints) -> None:
        """Suppose that these keys have values since these positions."""
        self._keys.load(None, slots, self._panes.marks_of(lasts) if slots.size else lasts)

    def state(self, slots: Ints) -> dict[str, Any]:
        """Return what is known of the keys in these slots, for `load`."""
        return {
            "unknown_deletes": self.unknown_deletes,
            "keys": self._keys.state(slots),
            "open": self._open._asdict(),
            "end": self._end,
            "mark": self._mark,
        }

    def load(self, state: dict[str, Any], slots: Ints) -> None:
        """Restore what `state` returned."""
        self.unknown_deletes, self._end, self._mark = state["unknown_deletes"], state["end"], state["mark"]
        self._keys.load(state["keys"], slots, 0)
        self._open = KeysOfRows(**state["open"])
