"""The log of new windows, which readers follow with a cursor.

A cursor is a position in the log of one server process. The log is bounded: a reader that falls behind, or that has a
cursor of another process, must read the windows again.
"""

from __future__ import annotations

import re
import secrets
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

__all__ = ["ChangeLog", "LostCursorError", "NewWindow"]

MOST = 20_000


class LostCursorError(Exception):
    """The log no longer has the changes after a cursor."""


class NewWindow(NamedTuple):
    """A window that was added or replaced."""

    query: str
    key: str  # of its group
    moment: int


class ChangeLog:
    """The newest changes, by position. Not thread-safe; `History` holds the lock.

    >>> log = ChangeLog()
    >>> start = log.cursor
    >>> log.note(NewWindow("big", "[]", 5))
    >>> log.since(start)[0]
    [NewWindow(query='big', key='[]', moment=5)]
    """

    def __init__(self, most: int = MOST) -> None:
        self._epoch = secrets.token_hex(4)  # positions of another process mean nothing here
        self._changes: deque[NewWindow] = deque(maxlen=most)
        self._end = 0

    @property
    def cursor(self) -> str:
        """The position after the newest change."""
        return f"{self._epoch}-{self._end}"

    def note(self, change: NewWindow) -> None:
        """Append a change."""
        self._changes.append(change)
        self._end += 1

    def since(
        self, cursor: str, limit: int = MOST, is_wanted: Callable[[NewWindow], bool] = lambda _: True
    ) -> tuple[list[NewWindow], str]:
        """Return the wanted changes after a cursor, at most `limit`, and the cursor to continue with.

        A window that changed several times is returned once. Raises ValueError for a text that is not a cursor, and
        LostCursorError if changes are missing.
        """
        found = re.fullmatch("([0-9a-f]{8})-([0-9]{1,18})", cursor)
        if found is None:
            raise ValueError(cursor)
        at, first = int(found[2]), self._end - len(self._changes)
        if found[1] != self._epoch or not first <= at <= self._end:
            raise LostCursorError(cursor)
        changes: dict[NewWindow, None] = {}
        place = at - first
        while place < len(self._changes) and len(changes) < limit:
            change = self._changes[place]
            if is_wanted(change):
                changes[change] = None
            place += 1
        return list(changes), f"{self._epoch}-{first + place}"
