"""Baselines: fast NumPy implementations, and a compiled lower bound."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numba import njit

from benchmarks.measure import Timing, best_of


def best_of_array(values: Any, k: int) -> Any:
    """Indices of the k highest values, best first."""
    found = np.argpartition(values, values.size - k)[values.size - k :] if values.size > k else np.arange(values.size)
    return found[np.argsort(-values[found])]


def by_window(scores: Any, size: int, slide: int, k: int, first_end: int) -> Iterator[Any]:
    """The answers of the windows that end at `first_end` and after: `np.argpartition` of the whole window."""
    for end in range(first_end, scores.size + 1, slide):
        yield best_of_array(scores[end - size : end], k) + (end - size)


class ByPane:
    """`np.argpartition` of each slide's objects; then, for each window, of the tops of its panes.

    The best of each slide are in a ring, so the candidates of a window are one array without copying.
    """

    def __init__(self, scores: Any, size: int, slide: int, k: int) -> None:
        self.scores, self.slide, self.k = scores, slide, k
        self.kept = min(slide, k)
        self.keys = np.empty((size // slide, self.kept))
        self.ids = np.empty((size // slide, self.kept), np.int64)

    def take(self, pane: int) -> None:
        """Push the objects of one slide."""
        begin = pane * self.slide
        mine = self.scores[begin : begin + self.slide]
        ring = pane % self.keys.shape[0]
        if self.kept == self.slide:
            self.keys[ring], self.ids[ring] = mine, np.arange(begin, begin + self.slide)
        else:
            top = np.argpartition(mine, self.slide - self.k)[self.slide - self.k :]
            self.keys[ring], self.ids[ring] = mine[top], top + begin

    def answer(self) -> Any:
        """Ids of the answer of the current window, best first."""
        return self.ids.ravel()[best_of_array(self.keys.ravel(), self.k)]


def by_pane(scores: Any, size: int, slide: int, k: int) -> Iterator[Any]:
    """The answers of all full windows."""
    user = ByPane(scores, size, slide, k)
    for pane in range(scores.size // slide):
        user.take(pane)
        if (pane + 1) * slide >= size:
            yield user.answer()


def seconds_a_window(scores: Any, size: int, k: int, samples: int, rounds: int) -> list[float]:
    """CPU time of recomputing single windows: the best of several rounds for each sampled window.

    How long a selection takes depends on the window, so it is the mean over windows that stands for all of them.
    """
    found = []
    for end in np.linspace(size, scores.size, samples).astype(int):
        window = scores[end - size : end]
        found.append(best_of(partial(best_of_array, window, k), rounds).best)
    return found


def seconds_a_slide(scores: Any, size: int, slide: int, k: int, rounds: int, within: float) -> Timing:
    """CPU time of a slide of the per-pane user whose window is full: rounds of as many slides as the time allows."""
    user = ByPane(scores, size, slide, k)
    full = size // slide
    for pane in range(full):
        user.take(pane)
    last, pane, found = scores.size // slide, full, []
    for _ in range(rounds):
        begin, done = time.thread_time(), 0
        while done == 0 or (time.thread_time() - begin < within / rounds and done < last - full):
            user.take(pane)
            user.answer()
            done += 1
            pane = pane + 1 if pane + 1 < last else full
        found.append((time.thread_time() - begin) / done)
    return Timing(found)


@njit(cache=False)  # type: ignore[untyped-decorator]  # numba has no types
def threshold_scan(scores: Any, bar: float) -> int:
    """Count the scores that reach the threshold: the minimum work of an exact algorithm that knows it in advance."""
    found = 0
    for i in range(scores.size):
        found += scores[i] >= bar
    return found
