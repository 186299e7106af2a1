"""The newest pane of each key: how many keys windows hold, and which deletes are of keys without a value.

Both depend on panes only, not on how rows are divided among batches, tasks and shards. Tasks aggregate the rows of a
key and pane, so deletes are counted by pane: a delete is unknown if it is the only row of its key in the pane, and the
key has no value then. A key has a value if its newest row before the pane is not a delete, and is in the first window
that ends after the pane begins. So a key that appears and is deleted within one pane does not count, and several
deletes of a key in one pane do not count either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from skyband.aggregate.query import AggregateTopK
from skyband.errors import InvalidInputError
from skyband.kernels.stream import Floats, Ints
from skyband.windows import ALWAYS

__all__ = ["KeyPanes", "refuse_keys", "refuse_more_keys"]


class KeyPanes:
    """The newest pane of each key, by the key's slot, and whether its newest row there has a value.

    `start_of` returns, for the mark of a pane, the earliest start of a window that ends next. A slot that another key
    gets later has a pane before that start, so it is known as a key without a value.

    >>> keys, values = KeyPanes(lambda mark: mark - 10), np.array([1.0, np.nan, np.nan, np.nan])
    >>> slots, marks = np.array([0, 1, 0, 0]), np.array([0, 0, 5, 8])
    >>> keys.unknown_deletes(slots, marks, values, np.ones(4))
    2
    >>> [keys.held(-10) for _ in keys.by_pane(slots, marks, values)]
    [1, 0, 0]
    """

    def __init__(self, start_of: Callable[[int], int]) -> None:
        self._start_of = start_of
        self._marks = np.empty(0, np.int64)
        self._valued = np.empty(0, bool)

    def unknown_deletes(self, slots: Ints, marks: Ints, values: Floats, counts: Ints) -> int:
        """Return the number of unknown deletes among partials sorted by pane; NaN is the value of a delete.

        Each key and pane must have one partial. `counts` are the numbers of their rows.
        """
        self._reserve(slots)
        alone = np.isnan(values) & (counts == 1)
        of_deletes = np.zeros(self._marks.size, bool)
        of_deletes[slots[alone]] = True
        some = np.flatnonzero(of_deletes[slots])  # partials of keys with such a delete
        begins = np.diff(marks[some], prepend=ALWAYS) != 0
        starts = np.array([self._start_of(mark) for mark in marks[some[begins]].tolist()], np.int64)
        order = np.argsort(slots[some], kind="stable")
        starts, some = starts[(np.cumsum(begins) - 1)[order]], some[order]
        slots, marks, valued = slots[some], marks[some], ~np.isnan(values[some])
        follows = slots[1:] == slots[:-1]
        before, had_value = self._marks[slots], self._valued[slots]
        before[1:] = np.where(follows, marks[:-1], before[1:])
        had_value[1:] = np.where(follows, valued[:-1], had_value[1:])
        return int((alone[some] & ~(had_value & (before >= starts))).sum())

    def take(self, slots: Ints, marks: Ints, values: Floats) -> None:
        """Take partials sorted by pane."""
        self._reserve(slots)
        self._marks[slots], self._valued[slots] = marks, ~np.isnan(values)  # of repeated slots, the last is assigned

    def by_pane(self, slots: Ints, marks: Ints, values: Floats) -> Iterator[int]:
        """Take partials sorted by pane, and yield the mark of each pane after its partials."""
        for some in np.split(np.arange(marks.size), np.flatnonzero(np.diff(marks)) + 1):
            self.take(slots[some], marks[some], values[some])
            yield int(marks[some[0]])

    def held(self, start: int) -> int:
        """Return the number of keys that have a value in a window from `start` to the newest pane."""
        return int(np.count_nonzero(self._valued & (self._marks >= start)))

    def state(self, slots: Ints) -> dict[str, Any]:
        """Return what is known of the keys in these slots, for `load`."""
        self._reserve(slots)
        return {"marks": self._marks[slots], "valued": self._valued[slots]}

    def load(self, state: dict[str, Any] | None, slots: Ints, marks: Ints | int) -> None:
        """Restore what `state` returned. Without it, keys are supposed to have a value, in panes with these `marks`."""
        self._reserve(slots)
        self._marks[slots] = marks if state is None else state["marks"]
        self._valued[slots] = True if state is None else state["valued"]

    def _reserve(self, slots: Ints) -> None:
        size, wanted = self._marks.size, int(slots.max(initial=-1)) + 1
        if wanted > size:
            more = max(wanted, 2 * size) - size
            self._marks = np.append(self._marks, np.full(more, ALWAYS))
            self._valued = np.append(self._valued, np.zeros(more, bool))


def refuse_more_keys(
    keys: KeyPanes,
    limited: Sequence[tuple[AggregateTopK, int, int]],
    slots: Ints,
    marks: Ints,
    values: Floats,
    where: str = "",
) -> None:
    """Take partials sorted by pane, and reject more keys in a window than its query allows.

    `limited` are the queries with their limits, and the smallest starts of the windows that they answer.
    """
    if not limited:
        keys.take(slots, marks, values)
        return
    for mark in keys.by_pane(slots, marks, values):
        for query, most, since in limited:
            end = query.window.first_end_after(mark)
            if (held := keys.held(max(query.window.start(end), since))) > most:
                refuse_keys(query, end, held, where)


def refuse_keys(query: AggregateTopK, end: int, held: int, where: str = "") -> None:
    """Reject the rows of a window with more keys than its query allows."""
    unit = " (microseconds)" if query.axis == "time" else ""
    raise InvalidInputError(
        f"query {query.name!r} has max_keys={query.max_keys}, but its window that ends at {end}{unit} has {held} keys "
        f"or more{where}. No answer of this window was returned. Use a larger max_keys (a restart with it continues), "
        "a filter, or a shorter window."
    )
