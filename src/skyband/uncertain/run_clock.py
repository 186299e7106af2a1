"""Throughput and latency of runs, as the paper on shared plans defines them."""

from __future__ import annotations

from collections.abc import Sequence

from skyband.uncertain.query import UncertainTopK

__all__ = ["RunClock"]


class RunClock:
    """Add up the time of runs, and the delays that they would cause on a stream in real time.

    Runs are executed one after another on one core: each begins at its time in the plan, or when the run before it is
    done, and lasts as long as measured. The delay of a query is the sum of the times by which the interval between two
    of its answers exceeds its `every`. Count windows have no clock, and no delays.

    >>> from skyband import UncertainTopK
    >>> clock = RunClock()
    >>> often = UncertainTopK(k=1, size="1 minute", every="10 seconds")
    >>> clock.ran(10_000_000, 1.0, [often])
    >>> clock.ran(20_000_000, 3.0, [often])  # 23 s, 12 s after the first one at 11 s
    >>> clock.throughput, clock.latency
    (0.5, 2.0)
    """

    def __init__(self) -> None:
        self.seconds = 0.0  # spent in runs
        self._answers = 0
        self._free: float | None = None  # when the last run was done
        self._last: dict[str, float] = {}  # per query: when it was last answered
        self._late: dict[str, float] = {}  # per query: the sum of its delays

    def ran(self, time: int, seconds: float, queries: Sequence[UncertainTopK]) -> None:
        """Record a run at `time` of the stream that took so many seconds and answered these queries."""
        self.seconds += seconds
        self._answers += len(queries)
        due = time / 1e6
        done = self._free = (due if self._free is None else max(due, self._free)) + seconds
        for query in queries:
            if query.axis == "time":
                gap = done - self._last.get(query.name, done) - query.window.slide / 1e6
                self._late[query.name] = self._late.get(query.name, 0.0) + max(0.0, gap)
                self._last[query.name] = done

    @property
    def throughput(self) -> float:
        """Answers per second that was spent in runs, over all queries. 0 before the first run."""
        return self._answers / self.seconds if self.seconds else 0.0

    @property
    def latency(self) -> float:
        """The mean delay of a query, in seconds. 0 for count windows."""
        return sum(self._late.values()) / len(self._late) if self._late else 0.0
