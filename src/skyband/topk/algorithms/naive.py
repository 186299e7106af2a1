"""The baseline: keep the whole window and select its k best at every slide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skyband.kernels.select import empty_waiting
from skyband.kernels.stream import Answers, Rows
from skyband.topk.algorithms.base import Engine, Objects, State, listed_windows, packed, with_room
from skyband.topk.kernels import naive as kernels
from skyband.topk.kernels.listed import Lists
from skyband.topk.query import TopK

__all__ = ["Naive"]


class Naive(Engine):
    """Keep every object of the window; each slide costs a pass over all of them.

    The baseline for all other engines. State: O(n) objects. Cost: O(n + k log k) a slide.

    >>> import skyband as sb
    >>> query = sb.TopK(k=2, size=4, slide=2)
    >>> sb.replay(query, None, [5.0, 9.0, 7.0, 1.0], algorithm="naive")["id"].to_pylist()
    [1, 0, 1, 2]
    """

    name = "naive"
    summary = "keeps the whole window and selects the k best at every slide (baseline)"
    ranks_ties = True
    takes_lists = True

    def __init__(self, queries: Sequence[TopK], since: Sequence[int] | None = None) -> None:
        super().__init__(queries, since)
        self._listed = listed_windows(self._queries, 0, 0)
        columns: dict[str, Any] = {
            name: np.zeros(64, np.float64 if name.endswith("keys") else np.int64)
            for name in kernels.NaiveWindow._fields[:6]
        }
        self._window = kernels.NaiveWindow(
            **columns, waiting=empty_waiting(), registers=np.zeros(kernels.REGISTERS, np.int64)
        )

    def _run(self, rows: Rows, at: int, watermark: int, first: int, answers: Answers) -> tuple[int, int]:
        return kernels.advance(
            self._window, self._kernel_query, self._listed, self._ties, rows, at, watermark, first, answers
        )

    def _read_windows(self, listed: Lists) -> None:
        self._listed = listed

    def _grow(self) -> None:
        self._window = with_room(self._window, 2 * self._window.keys.size, keep=["waiting", "registers"])

    @property
    def candidates(self) -> int:
        registers = self._window.registers
        return int(registers[kernels.TAIL] - registers[kernels.HEAD])

    def objects(self) -> Objects:
        held = slice(self._window.registers[kernels.HEAD], self._window.registers[kernels.TAIL])
        return Objects(self._window.keys[held], self._window.positions[held], self._window.ids[held])

    @property
    def next_end(self) -> int:
        return int(self._window.registers[kernels.NEXT_END])

    def state(self) -> dict[str, Any]:
        return packed(self._window)

    def load(self, state: State) -> None:
        self._window = kernels.NaiveWindow(**state)
