"""Cut the rows of every group into sessions."""

from __future__ import annotations

from typing import NamedTuple

from skyband.kernels._jit import kernel
from skyband.kernels.stream import Ints

__all__ = ["Sessions", "cut_sessions"]


class Sessions(NamedTuple):
    """Sessions in the order of their rows; arrays have room for one session per row."""

    owner: Ints  # per row: the number of its session
    groups: Ints  # per session
    starts: Ints
    ends: Ints


@kernel
def cut_sessions(
    positions: Ints, begins: Ints, answered: Ints, gap: int, limit: int, certain: int, found: Sessions
) -> int:
    """Number the sessions of rows that are sorted by group and position, and return how many there are.

    The rows of a group before its entry in `answered` are those that are left of one open session. A session that
    starts before `certain` may have begun earlier, so it is not cut where it reaches the limit.
    """
    count = 0
    for group in range(begins.size - 1):
        for row in range(begins[group], begins[group + 1]):
            at = positions[row]
            if row == begins[group] or (at >= found.ends[count - 1] and at >= answered[group]):
                found.groups[count] = group
                found.starts[count] = at
                count += 1
            end = at + gap
            start = found.starts[count - 1]
            if start >= certain:
                end = min(end, start + limit)
            found.ends[count - 1] = end
            found.owner[row] = count - 1
    return count
