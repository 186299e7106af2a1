"""The windows that a step of a shard answers: those that have become final, corrected ones, and open ones.

Rows are only added to a window. So its answer has changed since some step if and only if it contains a row that arrived
after it, and rows are stored in the order of their arrival: one number separates new rows from known ones. An answer
that has not changed is not repeated. No digest of earlier answers is stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from skyband.data.answer_log import RankedWindows, chosen
from skyband.kernels.stream import Bools, Ints
from skyband.sharding.open_windows import are_due, open_until
from skyband.topk.query import TopK
from skyband.windows import ALWAYS

__all__ = ["EmittedWindows", "OpenAnswers", "corrected", "with_new_rows"]


class EmittedWindows(NamedTuple):
    """Windows of a scan, and what the columns of their answers say."""

    windows: RankedWindows
    order: Ints  # from an id in `windows` to the index of the row
    final: bool = True
    revision: int = 0

    @property
    def is_first(self) -> bool:
        """Whether these windows have become final now."""
        return self.final and not self.revision


class OpenAnswers:
    """Which open windows have been answered, and with which rows.

    An open window is answered up to the first end after the newest row. Windows that end later have only begun; the
    same rows are in the window before them.
    """

    def __init__(self, every: int) -> None:
        self._every = every
        self.known = 0  # number of rows, the first ones of the shard's table, that have been ranked for open windows
        self.newest = ALWAYS  # the newest position at that time
        self.firsts: dict[str, int] = {}  # where full windows began at that time, by scan

    def are_due(self, newest: int) -> bool:
        """Whether open windows are answered again, after enough event time."""
        return are_due(newest, self.newest, self._every)

    def changed(
        self, windows: RankedWindows, order: Ints, queries: Sequence[TopK], clock: int, newest: int, full: Bools
    ) -> Bools:
        """Return which windows are open and have another answer than before; `full`: those that are reported now."""
        ends, places = windows.ends, windows.queries
        begun = ends > (ALWAYS if self.newest == ALWAYS else open_until(queries, self.newest)[places])
        found = begun | full | with_new_rows(windows, order, self.known)
        return found & (ends > clock) & (ends <= open_until(queries, newest)[places])

    def keep(self, kept: Any, newest: int, firsts: Mapping[str, int], *, are_answered: bool) -> None:
        """Adjust to the rows that the shard keeps, after a step that has answered open windows or not."""
        if are_answered:
            self.known, self.newest, self.firsts = int(kept.sum()), newest, dict(firsts)
        else:
            self.known = int(kept[: self.known].sum())

    def state(self) -> dict[str, Any]:
        """Return the state for `load`."""
        return {"known": self.known, "newest": self.newest, "firsts": self.firsts}

    def load(self, saved: dict[str, Any] | None) -> None:
        """Continue from what `state` returned; without it, all open windows are answered again."""
        if saved is not None:
            self.known, self.newest, self.firsts = saved["known"], saved["newest"], saved["firsts"]


def with_new_rows(windows: RankedWindows, order: Ints, known: int) -> Bools:
    """Return which windows have a row in their answer that is not one of the first `known`."""
    found = np.zeros(windows.ends.size, bool)
    windows_of_rows = np.repeat(np.arange(windows.ends.size), windows.counts)
    found[windows_of_rows[order[windows.ids] >= known]] = True
    return found


def corrected(windows: RankedWindows, order: Ints, clock: int, known: int, starts: Ints, since: Ints) -> RankedWindows:
    """Return the windows that were final at `clock` and have another answer now; `known` rows were there before.

    `since` is the smallest start that each window's query reported then: with an older first object, a query that
    reports full windows only reports more of them.
    """
    is_new = with_new_rows(windows, order, known) | (starts < since)
    return chosen(windows, (windows.ends <= clock) & is_new)
