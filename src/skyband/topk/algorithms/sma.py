"""SMA: a skyband of limited size over an index of the whole window, refilled when it runs short."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skyband.kernels.select import empty_waiting
from skyband.kernels.stream import Answers, Rows
from skyband.topk.algorithms.base import Engine, Objects, State, packed, with_room
from skyband.topk.algorithms.kskyband import empty_band
from skyband.topk.kernels import kskyband
from skyband.topk.kernels import sma as kernels
from skyband.topk.query import TopK

__all__ = ["SMA"]

MOST_CELLS = 1024
_SLOTS = ("keys", "positions", "ids", "follower", "cell")
_CELLS = ("bounds", "oldest", "newest", "counts")
_REALS = ("keys", "bounds", "bar")


class SMA(Engine):
    """Keep every object of the window in an index, and the skyband of the best k_max = 2k of them.

    The skyband is filled with the k_max best objects of the window. From then on it adds objects that beat the worst of
    them, with dominance counters, and drops objects that k later and better ones beat. So it contains the k best of the
    window as long as it contains k objects (or all of them). If expiry leaves fewer when an answer is due, it is
    refilled. The index avoids a scan of the window: a refill visits only the best cells by score. The bounds of the
    cells come from a sample of the scores, so that cells are equally full. Cells are rebuilt when the window has
    doubled, or when refills have visited as many objects without result as the window contains.

    `candidates` counts all objects in the index, because any of them may be needed by the next refill; `counters` has
    the size of the skyband, the number of refills and the objects they visited. State: O(n) objects. Cost:
    O(log cells) to load an object into the index and O(1) to purge it, O(log k + n_d) if it enters the skyband, n_d
    candidates being dominated by it; a refill costs O(k log k + n / cells).

    Differences from the paper: the score is given, so its grid over the attributes has one dimension. The skyband is
    limited to k_max objects by raising the bar. In a refill, an object dominates the worse ones at its own position,
    whichever came first, because they are in the same windows.

    Mouratidis, Bakiras, Papadias: Continuous Monitoring of Top-k Queries over Sliding Windows, SIGMOD 2006.

    >>> import skyband as sb
    >>> monitor = sb.Monitor(sb.TopK(k=1, size=6, slide=3), algorithm="sma")
    >>> monitor.push(None, [5.0, 9.0, 7.0, 3.0, 1.0])
    >>> monitor.candidates, monitor.answers()["score"].to_pylist()
    (5, [9.0])
    """

    name = "sma"
    summary = "the whole window in an index, and a small skyband that is refilled from it (SIGMOD 2006)"

    def __init__(self, queries: Sequence[TopK], since: Sequence[int] | None = None) -> None:
        super().__init__(queries, since)
        lengths = dict.fromkeys(_SLOTS, 64) | dict.fromkeys(_CELLS, 4) | {"bar": 1, "registers": kernels.REGISTERS}
        arrays: dict[str, Any] = {
            name: np.zeros(n, np.float64 if name in _REALS else np.int64) for name, n in lengths.items()
        }
        self._grid = kernels.Grid(**arrays)
        self._grid.registers[[kernels.CELLS, kernels.COMPLETE]] = 1
        self._band = empty_band(self._most_candidates(64))
        self._work = _room(64)

    def _most_candidates(self, capacity: int) -> int:
        return min(2 * self._kernel_query.k, capacity) + 1

    def _run(self, rows: Rows, at: int, watermark: int, first: int, answers: Answers) -> tuple[int, int]:
        return kernels.advance(
            self._grid, self._band, self._work, self._kernel_query, rows, at, watermark, first, answers
        )

    def _grow(self) -> None:
        old = self._grid
        room = old.keys.size
        numbers = self._numbers()
        cells = min(MOST_CELLS, 2 * room // kernels.SHALLOWEST)
        self._grid = with_room(old, 2 * room, keep=[*_CELLS, "bar", "registers"])
        self._grid = with_room(self._grid, cells, keep=[*_SLOTS, "bar", "registers"])
        for name in _SLOTS:
            getattr(self._grid, name)[numbers % (2 * room)] = getattr(old, name)[numbers % room]
        self._band = with_room(self._band, self._most_candidates(2 * room), keep=["registers"])
        self._work = _room(2 * room)

    def _numbers(self) -> Any:
        """The numbers of the objects in the window, oldest first."""
        return np.arange(self._grid.registers[kernels.HEAD], self._grid.registers[kernels.TAIL])

    @property
    def candidates(self) -> int:
        return int(self._grid.registers[kernels.TAIL] - self._grid.registers[kernels.HEAD])

    def objects(self) -> Objects:
        slots = self._numbers() % self._grid.keys.size
        return Objects(self._grid.keys[slots], self._grid.positions[slots], self._grid.ids[slots])

    @property
    def next_end(self) -> int:
        return int(self._grid.registers[kernels.NEXT_END])

    def counters(self) -> dict[str, int]:
        registers = self._grid.registers
        return {
            "skyband": int(self._band.registers[kskyband.SIZE]),
            "refills": int(registers[kernels.REFILLS]),
            "refill_visits": int(registers[kernels.REFILL_VISITS]),
            "redraws": int(registers[kernels.REDRAWS]),
        }

    def state(self) -> dict[str, Any]:
        return {"grid": packed(self._grid), "band": packed(self._band)}

    def load(self, state: State) -> None:
        self._grid = kernels.Grid(**state["grid"])
        self._band = kskyband.Band(**state["band"])
        self._work = _room(self._grid.keys.size)


def _room(capacity: int) -> kernels.SmaScratch:
    """Allocate scratch space for selecting among `capacity` objects."""
    columns: list[Any] = [np.zeros(capacity, np.float64 if i == 0 else np.int64) for i in range(5)]
    columns.append(empty_waiting())
    return kernels.SmaScratch(*columns)
