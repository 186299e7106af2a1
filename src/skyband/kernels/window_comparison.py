"""Changes from one window of a query to the next: rows that entered, left or moved."""

from __future__ import annotations

from typing import NamedTuple

from skyband.kernels._jit import kernel
from skyband.kernels.stream import Ints

NONE = -1
ENTERED = 0
LEFT = 1
MOVED = 2


class ComparedWindows(NamedTuple):
    """Windows by query, group and end; their rows one after another, best first."""

    owners: Ints  # per window: a number for its query and group
    ends: Ints
    steps: Ints  # per window: the distance to the next window end of its query; 0: no window is ever empty
    known: Ints  # per window: 1 if its rows have been reported already
    begins: Ints  # per window, and one more
    rows: Ints
    ranks: Ints


class ChangeBuffers(NamedTuple):
    """Output buffers for the changes: at most two for each row of a window."""

    windows: Ints  # the window of the same owner nearest to the change
    ends: Ints  # the end of the window in which it happens
    rows: Ints
    ranks: Ints
    old_ranks: Ints
    kinds: Ints


@kernel
def leave(windows: ComparedWindows, w: int, end: int, now: Ints, to: ChangeBuffers, size: int) -> int:
    """Report the rows of window `w` that are not in the window that ends at `end`; return the number of changes.

    `now` has the rank of each row in that window, 0 for a row that is not in it.
    """
    for i in range(windows.begins[w], windows.begins[w + 1]):
        if now[windows.rows[i]] == 0:
            to.windows[size], to.ends[size], to.rows[size] = w, end, windows.rows[i]
            to.ranks[size], to.old_ranks[size], to.kinds[size] = 0, windows.ranks[i], LEFT
            size += 1
    return size


@kernel
def arrive(windows: ComparedWindows, w: int, before: Ints, to: ChangeBuffers, size: int) -> int:
    """Report the rows of window `w` that entered or have another rank; return the number of changes.

    `before` has the rank of each row in the window before, 0 for a row that was not in it.
    """
    for i in range(windows.begins[w], windows.begins[w + 1]):
        row, rank = windows.rows[i], windows.ranks[i]
        if before[row] != rank:
            to.windows[size], to.ends[size], to.rows[size] = w, windows.ends[w], row
            to.ranks[size], to.old_ranks[size] = rank, before[row]
            to.kinds[size] = ENTERED if before[row] == 0 else MOVED
            size += 1
    return size


@kernel
def note(windows: ComparedWindows, w: int, known: bool, ranks: Ints) -> None:
    """Store the ranks of a window's rows, or reset them to 0."""
    for i in range(windows.begins[w], windows.begins[w + 1]):
        ranks[windows.rows[i]] = windows.ranks[i] if known else 0


@kernel
def find_changes(
    windows: ComparedWindows, reached: int, before: Ints, now: Ints, to: ChangeBuffers, last: Ints
) -> tuple[int, int]:
    """Compare each window with the one before it; return the number of changes and of windows in `last`.

    Empty windows are not in `windows`. If the next window of an owner would have ended at or before `reached`, it is
    empty, and all rows have left. `last` gets each owner's newest window unless an empty one followed. `before` and
    `now` hold a zero for each row, and hold zeros again at the end.
    """
    size = kept = 0
    for w in range(windows.ends.size):
        first = w == 0 or windows.owners[w] != windows.owners[w - 1]
        empty_between = not first and 0 < windows.steps[w - 1] < windows.ends[w] - windows.ends[w - 1]
        if windows.known[w] == 0:
            if empty_between:
                size = leave(windows, w - 1, windows.ends[w - 1] + windows.steps[w - 1], now, to, size)
            elif not first:
                note(windows, w, True, now)
                size = leave(windows, w - 1, windows.ends[w], now, to, size)
                note(windows, w, False, now)
                note(windows, w - 1, True, before)
            size = arrive(windows, w, before, to, size)
            if not first:
                note(windows, w - 1, False, before)
        if w + 1 == windows.ends.size or windows.owners[w + 1] != windows.owners[w]:
            if 0 < windows.steps[w] <= reached - windows.ends[w]:
                size = leave(windows, w, windows.ends[w] + windows.steps[w], now, to, size)
            else:
                last[kept] = w
                kept += 1
    return size, kept
