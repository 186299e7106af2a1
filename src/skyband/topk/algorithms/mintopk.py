"""MinTopk: the minimal candidate set in one list, each object with its first and last window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from skyband.errors import UnsupportedError
from skyband.kernels import ranked_list
from skyband.kernels.stream import Answers, Rows
from skyband.topk.algorithms.base import Engine, Objects, State, packed, with_more_rows
from skyband.topk.kernels import mintopk as kernels
from skyband.topk.kernels import mintopk_batch
from skyband.topk.query import TopK

__all__ = ["MinTopk"]

MOST_WINDOWS = 1 << 26  # a pointer and a counter each: half a gigabyte
FEWEST = 256  # rows in one call that can be worth a batch; passing its arrays to a kernel takes microseconds
SOME = 4_096  # rows in one call from which on its estimates take no time worth mentioning
DECLINES = 15  # calls with no more rows than one that was not worth a batch, which are not estimated
PASSING = 400  # what the arrays of a batch and the sample of rows take, in units of what a merge takes for each object
PAIRS = 128  # pairs of neighbours that are compared, to see whether scores fall

# Called once per call of few rows, which is not worth compiling them alone.
cost_of_merge: Callable[[int, float], float] = getattr(
    mintopk_batch.cost_of_merge, "py_func", mintopk_batch.cost_of_merge
)
cost_of_single: Callable[[int, float, int, float], float] = getattr(
    mintopk_batch.cost_of_single, "py_func", mintopk_batch.cost_of_single
)


class MinTopk(Engine):
    """Keep exactly the minimal candidate set (MTK): the union of the predicted top-k of all open windows.

    The super-top-k list is sorted best first. An object is in the top k of consecutive windows (Lemma 4.3), so a start
    and an end window mark define in which windows it is. A lower-bound pointer per window refers to the object that a
    new one must beat. Nothing is recomputed. State: O(MTK) objects, 2k on average in the paper's model, and C_nw
    pointers. Cost: one comparison for an object that is dropped at once, O(log MTK + windows entered) for one that is
    kept.

    Yang, Shastri, Rundensteiner, Ward: An Optimal Strategy for Monitoring Top-k Queries in Streaming Windows, EDBT
    2011.

    >>> import skyband as sb
    >>> monitor = sb.Monitor(sb.TopK(k=1, size=4, slide=2), algorithm="mintopk")
    >>> monitor.push(None, [5.0, 9.0, 7.0])
    >>> monitor.candidates, monitor.answers()["score"].to_pylist()
    (2, [9.0])
    """

    name = "mintopk"
    summary = "one list, window marks and lower-bound pointers; nothing recomputed (EDBT 2011)"
    #: New objects wait for a batch whenever that is possible, not only where it is faster.
    always_batches: ClassVar[bool] = False

    def __init__(self, queries: Sequence[TopK], since: Sequence[int] | None = None) -> None:
        super().__init__(queries, since)
        windows = queries[0].window.most_alive
        if windows > MOST_WINDOWS:
            raise UnsupportedError(
                f"{queries[0].name!r} has {windows} windows open at once, but mintopk keeps a pointer for each and "
                f"supports at most {MOST_WINDOWS}. Use algorithm='panes', which keeps nothing per window, or a longer "
                "slide."
            )
        self._list = ranked_list.empty_ranked_list()
        self._topk = kernels.SuperTopk(
            np.zeros((self._list.keys.size, 2), np.int32),
            np.zeros(windows, np.int32),
            np.zeros(windows, np.int32),
            np.zeros(kernels.REGISTERS, np.int64),
        )
        self._batch = mintopk_batch.empty_rank_batch(0, 0, 0, np.zeros(mintopk_batch.REGISTERS, np.int64))
        self._batch.registers[mintopk_batch.ALWAYS] = self.always_batches
        self._too_few = self._declines = 0
        self._is_taken = False  # whether the list is in the arrays of a batch that needs more room

    def _run(self, rows: Rows, at: int, watermark: int, first: int, answers: Answers) -> tuple[int, int]:
        query, left = self._kernel_query, rows.keys.size - at
        if not self._is_taken and not self.always_batches and (left < FEWEST or not self._may_batch(rows, at, left)):
            return kernels.advance(self._list, self._topk, query, rows, at, rows.keys.size, watermark, first, answers)
        found = kernels.advance_in_batches(
            self._list, self._topk, self._batch, query, rows, at, watermark, first, answers
        )
        self._is_taken = bool(self._batch.registers[mintopk_batch.TAKEN])
        return found

    def _may_batch(self, rows: Rows, at: int, left: int) -> bool:
        """Whether a batch can be worth it; the kernel decides. Without batches, their kernels are not even compiled."""
        if not rows.positions.size and self._kernel_query.slide > mintopk_batch.SPARSE * self._kernel_query.k:
            return False
        if left <= self._too_few and self._declines:
            self._declines -= 1
            return False
        if left < SOME:
            # One batch at most. The kernel would make the same estimate, but its arrays need not be passed for that.
            r, query, held = self._topk.registers, self._kernel_query, self.candidates
            span = int(rows.positions[-1]) - int(rows.positions[at]) + 1 if rows.positions.size else left
            windows = int(r[kernels.NEWEST] - r[kernels.OLDEST] + 1)
            single = cost_of_single(query.k, span / (query.slide * left), held, windows)
            if single * left < cost_of_merge(held, windows) + PASSING:
                self._too_few, self._declines = left, DECLINES
                return False
        places = at + np.arange(PAIRS) * (left // PAIRS)
        rises = np.count_nonzero(rows.keys[places + 1] > rows.keys[places])
        return bool(rises >= PAIRS // 8)

    def _grow(self) -> None:
        registers = self._batch.registers
        needed = int(registers[mintopk_batch.LENGTH] if registers[mintopk_batch.TAKEN] else self.candidates)
        room = int(registers[mintopk_batch.ROOM])
        if needed + 1 >= self._list.keys.size or not room:
            self._list = ranked_list.with_more_slots(self._list)
            while needed >= self._list.keys.size:
                self._list = ranked_list.with_more_slots(self._list)
            self._topk = self._topk._replace(marks=with_more_rows(self._topk.marks, self._list.keys.size))
        if room and not registers[mintopk_batch.TAKEN]:
            registers[mintopk_batch.ROOM] = 0
            self._batch = mintopk_batch.empty_rank_batch(
                (needed + room) * 9 // 8, room * 9 // 8, self._topk.tkc.size, registers
            )

    @property
    def candidates(self) -> int:
        return int(self._list.registers[ranked_list.LENGTH])

    def objects(self) -> Objects:
        slots = self.slots()
        return Objects(self._list.keys[slots], self._list.positions[slots], self._list.ids[slots])

    def slots(self) -> list[int]:
        """The slots of the super-top-k list, best first."""
        return ranked_list.slots_in_order(self._list)

    @property
    def next_end(self) -> int:
        return self._kernel_query.origin + int(self._topk.registers[kernels.OLDEST]) * self._kernel_query.slide

    def counters(self) -> dict[str, int]:
        return {"pointer_moves": int(self._topk.registers[kernels.POINTER_MOVES])}

    def state(self) -> dict[str, Any]:
        return {"list": packed(self._list), "topk": packed(self._topk)}

    def load(self, state: State) -> None:
        self._list = ranked_list.RankedList(**state["list"])
        self._topk = kernels.SuperTopk(**state["topk"])
