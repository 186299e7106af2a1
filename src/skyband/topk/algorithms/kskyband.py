"""k-skyband: one pass with dominance counters, independent of where windows begin and end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skyband.kernels.stream import Answers, Rows
from skyband.topk.algorithms.base import Engine, Objects, State, packed, with_room
from skyband.topk.kernels import kskyband as kernels
from skyband.topk.query import TopK

__all__ = ["KSkyband", "empty_band"]


def empty_band(capacity: int) -> kernels.Band:
    """Return a band with capacity for `capacity` candidates."""
    columns: list[Any] = [np.zeros(capacity, np.float64 if i == 0 else np.int64) for i in range(4)]
    columns.append(np.zeros(kernels.REGISTERS, np.int64))
    return kernels.Band(*columns)


class KSkyband(Engine):
    """Keep every object of the window that fewer than k later objects beat: the k-skyband by score and arrival.

    An object with k later and better ones cannot be in any future answer, because they are in every window that it is
    still in; so nothing is recomputed. Every new object enters, and one sweep over the worse candidates increments
    their dominance counters and drops those that reach k. Objects that arrived in one slide enter and leave all windows
    together, which the counters ignore: the k-skyband contains the minimal candidate set (MTK) and more, in particular
    the newest objects, however bad. State: O(k ln(n/k)) objects if scores do not depend on the order of arrival, O(n)
    if they always fall. Cost: O(log |C| + n_d) per object, where n_d is the number of candidates it dominates (no new
    object is rejected for less), and O(|C|) per slide in which a candidate expires.

    Papadias, Tao, Fu, Seeger: Progressive Skyline Computation in Database Systems, TODS 2005 (the k-skyband).
    Mouratidis, Bakiras, Papadias: Continuous Monitoring of Top-k Queries over Sliding Windows, SIGMOD 2006.

    >>> import skyband as sb
    >>> monitor = sb.Monitor(sb.TopK(k=1, size=6, slide=3), algorithm="kskyband")
    >>> monitor.push(None, [5.0, 9.0, 7.0, 3.0, 1.0])
    >>> monitor.candidates, monitor.answers()["score"].to_pylist()
    (4, [9.0])
    """

    name = "kskyband"
    summary = "one pass with dominance counters; every object enters the candidate set (TODS 2005)"

    def __init__(self, queries: Sequence[TopK], since: Sequence[int] | None = None) -> None:
        super().__init__(queries, since)
        self._band = empty_band(64)

    def _run(self, rows: Rows, at: int, watermark: int, first: int, answers: Answers) -> tuple[int, int]:
        return kernels.advance(self._band, self._kernel_query, rows, at, watermark, first, answers)

    def _grow(self) -> None:
        self._band = with_room(self._band, 2 * self._band.keys.size, keep=["registers"])

    @property
    def candidates(self) -> int:
        return int(self._band.registers[kernels.SIZE])

    def objects(self) -> Objects:
        held = self.candidates
        return Objects(self._band.keys[:held], self._band.positions[:held], self._band.ids[:held])

    @property
    def next_end(self) -> int:
        return int(self._band.registers[kernels.NEXT_END])

    def state(self) -> dict[str, Any]:
        return packed(self._band)

    def load(self, state: State) -> None:
        self._band = kernels.Band(**state)
