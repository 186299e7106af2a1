"""What changes from one window of a query to the next: who entered, who left, who moved."""

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

    owners: Ints  # per window: tells query and group apart
    ends: Ints
    steps: Ints  # per window: how far the next window of its query ends after it; 0: no window is ever empty
    known: Ints  # per window: 1 if its rows have been reported already
    begins: Ints  # per window, and one more
    rows: Ints
    ranks: Ints


class ChangeBuffers(NamedTuple):
    """Room for the changes: at most two for each row of a window."""

    windows: Ints  # the window of the same owner that stands nearest to where the change happens
    ends: Ints  # of the window in which it happens
    rows: Ints
    ranks: Ints
    old_ranks: Ints
    kinds: Ints


@kernel
def leave(windows: ComparedWindows, w: int, end: int, now: Ints, to: ChangeBuffers, size: int) -> int:
    """Report the rows of window `w` that are not in the window that ends at `end`; return how many changes there are.

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
    """Report the rows of window `w` that are new in it or have another rank; return how many changes there are.

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
    """Write the ranks of a window's rows down, or forget them."""
    for i in range(windows.begins[w], windows.begins[w + 1]):
        ranks[windows.rows[i]] = windows.ranks[i] if known else 0


@kernel
def find_changes(
    windows: ComparedWindows, reached: int, before: Ints, now: Ints, to: ChangeBuffers, last: Ints
) -> tuple[int, int]:
    """Compare each window with the one before it; return how many changes there are, and how many windows `last` names.

    A window that holds no object is not among `windows`, but ends all the same: where the next one of an owner would
    have ended at or before `reached`, all have left by then. `last` is given each owner's newest window unless it was
    followed by such an empty one. `before` and `now` are zeros, one for each row there is, and are left so.
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
