"""What a step of a shard did."""

from __future__ import annotations

from typing import NamedTuple

from skyband.windows import ALWAYS

__all__ = ["Tally"]


class Tally(NamedTuple):
    """What a step did, and what is held after it."""

    late: int = 0
    windows: int = 0
    answers: int = 0  # rows of answers; of changes, where only these leave
    candidates: int = 0  # rows held
    newest: int = ALWAYS  # the newest position seen
    last_end: int = ALWAYS  # the newest window answered ends here
    too_often: int = 0  # tuples of incomplete streams beyond the occurrences declared
