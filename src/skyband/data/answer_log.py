"""Answers as flat arrays: the buffers that kernels fill, and the answers of a push."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from skyband.kernels.stream import GROUP, ROWS, WINDOWS, Answers, Floats, Ints
from skyband.windows import NEVER

__all__ = ["AnswerLog", "RankedWindows", "as_fields", "chosen", "joined"]

_FIRST_ROWS = 4096
_MOST_ROWS = 1 << 20  # buffers grow to this many rows; full ones are replaced by new ones


class RankedWindows(NamedTuple):
    """Answers as flat arrays: one entry per window, and the rows of all windows in sequence, best first."""

    queries: Ints  # per window: the index of the query in the workload
    groups: Ints  # per window: the group's code, -1 for a query without groups
    ends: Ints  # per window
    counts: Ints  # per window: its number of rows
    keys: Floats  # per row
    ids: Ints  # per row
    starts: Ints = np.empty(0, np.int64)  # per window; empty, or NEVER, if the query and the end determine it


def joined(parts: Iterable[RankedWindows]) -> RankedWindows:
    """Concatenate the answers of all `parts`."""
    found = list(parts)
    if len(found) == 1:
        return found[0]
    columns: dict[str, Any] = {name: [np.empty(0, np.int64)] for name in RankedWindows._fields}
    columns["keys"] = [np.empty(0)]
    started = any(part.starts.size for part in found)
    for part in found:
        for name, column in part._asdict().items():
            columns[name].append(column)
        if started and not part.starts.size:
            columns["starts"].append(np.full(part.ends.size, NEVER))
    return RankedWindows(**{name: np.concatenate(pieces) for name, pieces in columns.items()})


def chosen(ranked: RankedWindows, wanted: Any) -> RankedWindows:
    """Return the windows selected by the mask `wanted`, with their rows."""
    if wanted.all():
        return ranked
    rows = np.repeat(wanted, ranked.counts)
    queries, groups, ends, counts = ranked.queries, ranked.groups, ranked.ends, ranked.counts
    starts = ranked.starts[wanted] if ranked.starts.size else ranked.starts
    return RankedWindows(
        queries[wanted], groups[wanted], ends[wanted], counts[wanted], ranked.keys[rows], ranked.ids[rows], starts
    )


def as_fields(ranked: RankedWindows) -> dict[str, Any]:
    """Return the arrays by name, to be stored; without the starts if they are not given.

    >>> none = np.empty(0, np.int64)
    >>> list(as_fields(RankedWindows(none, none, none, none, np.empty(0), none)))
    ['queries', 'groups', 'ends', 'counts', 'keys', 'ids']
    """
    found = ranked._asdict()
    if not ranked.starts.size:
        del found["starts"]
    return found


class AnswerLog:
    """Collects the answers of a push: engines write to `buffers` and call `make_room` when these are full.

    The first buffers have room for `expected` rows, if that is a reasonable number.
    """

    def __init__(self, expected: int = 0) -> None:
        self._parts: list[RankedWindows] = []
        self._queries: Sequence[int] = (0,)
        self._windows = 0  # the number of windows in the buffers that are already in a part
        self._rows = 0
        self.buffers = _buffers(max(_FIRST_ROWS, min(expected, _MOST_ROWS)), -1)

    def begin(self, group: int, queries: Sequence[int]) -> None:
        """Set the group and the queries (by index in the workload) of the next answers.

        An engine that serves many groups sets the group of each answer itself.
        """
        self._cut()
        self.buffers.cursor[GROUP] = group
        self._queries = queries

    def make_room(self, rows: int) -> None:
        """Replace the full buffers by new ones with room for an answer of at least `rows` rows."""
        self._cut()
        self._windows = self._rows = 0
        room = max(rows, min(_MOST_ROWS, 4 * self.buffers.keys.size))
        self.buffers = _buffers(room, int(self.buffers.cursor[GROUP]))

    def take(self) -> list[RankedWindows]:
        """Return the answers since the last call, in order."""
        self._cut()
        parts, self._parts = self._parts, []
        return parts

    def _cut(self) -> None:
        """Turn the windows written since the last cut into a part."""
        windows, rows = int(self.buffers.cursor[WINDOWS]), int(self.buffers.cursor[ROWS])
        if windows == self._windows:
            return
        mine, its_rows = slice(self._windows, windows), slice(self._rows, rows)
        places = np.asarray(self._queries, np.int64)[self.buffers.queries[mine]]
        self._parts.append(
            RankedWindows(
                places,
                self.buffers.groups[mine],
                self.buffers.ends[mine],
                np.diff(self.buffers.stops[mine], prepend=self._rows),
                self.buffers.keys[its_rows],
                self.buffers.ids[its_rows],
            )
        )
        self._windows, self._rows = windows, rows


def _buffers(rows: int, group: int) -> Answers:
    windows = max(64, rows // 8)
    return Answers(
        queries=np.empty(windows, np.int64),
        groups=np.empty(windows, np.int64),
        ends=np.empty(windows, np.int64),
        stops=np.empty(windows, np.int64),
        keys=np.empty(rows),
        ids=np.empty(rows, np.int64),
        cursor=np.array([0, 0, group], np.int64),
    )
