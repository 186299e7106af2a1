"""PreTopk: the minimal candidate set, with a separate predicted top-k set for every open window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skyband.errors import UnsupportedError
from skyband.kernels.stream import Answers, Rows
from skyband.topk.algorithms.base import Engine, Objects, State, packed, with_room
from skyband.topk.kernels import pretopk as kernels
from skyband.topk.query import TopK

__all__ = ["PreTopk"]

MOST_WINDOWS = 1 << 26
MOST_REFERENCES = 1 << 31  # four bytes each: eight gigabytes


class PreTopk(Engine):
    """Keep exactly the minimal candidate set (MTK): the union of the predicted top-k of all open windows.

    Each open window has a heap of references to the k best objects so far that do not expire before it ends. An
    answered window is dropped with its heap; a new one begins empty. The worst object of a set gets worse as the
    window's number grows (Lemma 4.2), so a new object is offered from the newest window backwards until one rejects it.
    Nothing is recomputed, but every window has its own cost. State: O(MTK) objects, 2k on average in the paper's model,
    and C_nw * k references. Cost: one comparison for an object that is dropped at once, O(log k) for each window
    entered.

    The space for references grows with the sets, to the same size for all windows: it is at most twice the size of the
    largest set so far, times C_nw.

    Yang, Shastri, Rundensteiner, Ward: An Optimal Strategy for Monitoring Top-k Queries in Streaming Windows,
    EDBT 2011.

    >>> import skyband as sb
    >>> monitor = sb.Monitor(sb.TopK(k=1, size=6, slide=3), algorithm="pretopk")
    >>> monitor.push(None, [5.0, 9.0, 7.0, 3.0, 1.0])
    >>> monitor.candidates, monitor.answers()["score"].to_pylist()
    (2, [9.0])
    """

    name = "pretopk"
    summary = "a predicted top-k set for each open window; nothing recomputed (EDBT 2011)"

    def __init__(self, queries: Sequence[TopK], since: Sequence[int] | None = None) -> None:
        super().__init__(queries, since)
        query = queries[0]
        windows = query.window.most_alive
        fullest = min(query.k, query.sliding.size) if query.axis == "count" else query.k
        if windows > MOST_WINDOWS or windows * fullest > MOST_REFERENCES:
            one_pointer = "'mintopk', which keeps one pointer per window, or " if windows <= MOST_WINDOWS else ""
            raise UnsupportedError(
                f"{query.name!r} has {windows} windows open at once, and pretopk keeps up to {fullest} references for "
                f"each. It supports at most {MOST_WINDOWS} windows and {MOST_REFERENCES} references. Use the algorithm "
                f"{one_pointer}'panes', which keeps nothing per window, or a longer slide."
            )
        self._pool = kernels.Pool(
            np.zeros(64),
            np.zeros(64, np.int64),
            np.zeros(64, np.int64),
            _chain(0, 64),
            np.zeros(2, np.int64),
        )
        self._sets = kernels.Predictions(
            np.zeros((windows, min(query.k, max(1, 64 // windows))), np.int32),
            np.zeros(windows, np.int64),
            np.zeros(kernels.REGISTERS, np.int64),
        )

    def _run(self, rows: Rows, at: int, watermark: int, first: int, answers: Answers) -> tuple[int, int]:
        return kernels.advance(self._pool, self._sets, self._kernel_query, rows, at, watermark, first, answers)

    def _grow(self) -> None:
        capacity, width = self._pool.keys.size, self._sets.heaps.shape[1]
        if self._pool.registers[kernels.FREE] == kernels.NO_SLOT:
            self._pool = with_room(self._pool, 2 * capacity, keep=["registers"])
            self._pool.references[capacity:] = _chain(capacity, 2 * capacity)
            self._pool.registers[kernels.FREE] = capacity
        else:
            self._sets = with_room(self._sets, min(2 * width, self._kernel_query.k), keep=["sizes", "registers"])

    @property
    def candidates(self) -> int:
        return int(self._pool.registers[kernels.OBJECTS])

    def objects(self) -> Objects:
        held = self._pool.references > 0
        return Objects(self._pool.keys[held], self._pool.positions[held], self._pool.ids[held])

    @property
    def next_end(self) -> int:
        return self._kernel_query.origin + int(self._sets.registers[kernels.OLDEST]) * self._kernel_query.slide

    def counters(self) -> dict[str, int]:
        return {"references": int(self._sets.sizes.sum())}

    def state(self) -> dict[str, Any]:
        return {"pool": packed(self._pool), "sets": packed(self._sets)}

    def load(self, state: State) -> None:
        self._pool = kernels.Pool(**state["pool"])
        self._sets = kernels.Predictions(**state["sets"])


def _chain(low: int, high: int) -> Any:
    """The `references` of free slots from `low` to `high`, each linked to the next."""
    following = np.arange(low + 1, high + 1, dtype=np.int64)
    following[-1] = kernels.NO_SLOT
    return -2 - following
