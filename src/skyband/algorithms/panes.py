"""The pane executor: MinTopk's candidate set, maintained a pane at a time instead of an object at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skyband.algorithms.base import Engine, Objects, State, packed, with_room
from skyband.kernels import panes as kernels
from skyband.kernels.radix import sort_room
from skyband.kernels.stream import Answers, Rows
from skyband.query import TopK

__all__ = ["Panes"]

_OPEN = ("open_keys", "open_positions", "open_ids")
_STANDING = ("keys", "positions", "ids", "dominated")


class Panes(Engine):
    """Holds exactly the minimal candidate set of the closed panes, and the k best of the open one.

    Inside a pane a threshold rejects hopeless objects by blocks; when the pane closes, one sweep merges its k best with
    the standing candidates and drops what k objects of the same youngest view beat. Cost: one comparison for a
    hopeless object, O(candidates) a pane.

    >>> import skyband as sb
    >>> query = sb.TopK(k=2, size=4, slide=2)
    >>> sb.replay(query, None, [5.0, 9.0, 7.0, 1.0], algorithm="panes")["id"].to_pylist()
    [1, 0, 1, 2]
    """

    name = "panes"
    summary = "MinTopk's candidates kept a pane at a time: what `auto` runs for one query"

    def __init__(self, queries: Sequence[TopK], since: Sequence[int] | None = None) -> None:
        super().__init__(queries, since)
        standing: list[Any] = [np.zeros((2, 64), np.float64 if name == "keys" else np.int64) for name in _STANDING]
        opened: list[Any] = [np.zeros(64, np.float64 if name == "open_keys" else np.int64) for name in _OPEN]
        self._panes = kernels.Panes(*standing, *opened, np.zeros(kernels.REGISTERS, np.int64))
        self._room = sort_room(64)
        self._sample = np.empty(kernels.SAMPLE)
        self._picked = np.empty(kernels.BLOCK, np.int64)

    def _run(self, rows: Rows, at: int, watermark: int, first: int, answers: Answers) -> tuple[int, int]:
        return kernels.advance(
            self._panes, self._asked, rows, at, watermark, first, answers, self._room, self._sample, self._picked
        )

    def _grow(self) -> None:
        room, opened = self._panes.keys.shape[1], self._panes.open_keys.size
        if self._panes.registers[kernels.OPEN] == opened and opened < 2 * self._asked.k:
            # Twice k is as much as selection profits from: half of it is kept at each cut.
            keep = (*_STANDING, "registers")
            self._panes = with_room(self._panes, min(2 * opened, 2 * self._asked.k + 64), keep=keep)
            self._room = sort_room(self._panes.open_keys.size)
        else:
            self._panes = with_room(self._panes, max(2 * room, room + opened), keep=(*_OPEN, "registers"))

    @property
    def candidates(self) -> int:
        return int(self._panes.registers[kernels.STANDING] + self._panes.registers[kernels.OPEN])

    def objects(self) -> Objects:
        r, panes = self._panes.registers, self._panes
        side, standing, opened = r[kernels.SIDE], r[kernels.STANDING], r[kernels.OPEN]
        return Objects(
            np.concatenate([panes.keys[side, :standing], panes.open_keys[:opened]]),
            np.concatenate([panes.positions[side, :standing], panes.open_positions[:opened]]),
            np.concatenate([panes.ids[side, :standing], panes.open_ids[:opened]]),
        )

    @property
    def next_end(self) -> int:
        return int(self._panes.registers[kernels.BOUNDARY])

    def state(self) -> dict[str, Any]:
        return packed(self._panes)

    def load(self, state: State) -> None:
        self._panes = kernels.Panes(**state)
        self._room = sort_room(self._panes.open_keys.size)
