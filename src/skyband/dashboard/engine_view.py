"""The data of the engine view: current metrics per stream, their last minutes, and the plan on a time line.

A plan has the views that windows share with the queries they serve, or the steps of a schedule.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from skyband.dashboard.board_state import Show
from skyband.dashboard.wire import moment_text, plain
from skyband.queries.families import family_of
from skyband.queries.workload import Workload
from skyband.workload_file.models import plan_for

if TYPE_CHECKING:
    from skyband.topk.explain import Sharing

__all__ = ["EngineView", "plan_of", "sharing_of"]

MOST_LANES = 400
MOST_NAMES = 50  # queries listed per lane; the others are only counted
MOST_WINDOWS = 200_000  # above this number, the views of a workload are not listed
SECONDS = 300  # length of the trail
SMOOTHED = 10  # seconds over which a rate is averaged, because rows arrive in micro-batches
_TRAILED = ("rows_per_second", "candidates", "state_bytes", "emit_lag")


def plan_of(show: Show, stream: str) -> dict[str, Any] | None:
    """Return the plan of a stream as JSON values; None if no query reads the stream."""
    queries = [one for one in show.queries().values() if one.stream == stream]
    if not queries:
        return None
    workload = show.workloads().get(stream)
    axis = queries[0].axis
    plan: dict[str, Any] = {
        "stream": stream,
        "family": queries[0].family,
        "text": None,
        "lanes": [],
        "unit": "seconds" if axis == "time" else "objects",
        "now": None,
        "more": 0,
        "share_factor": None,
        "cost": None,
    }
    if workload is None:
        return plan
    method = show.algorithm(stream)
    if family_of(workload).supports("timeline"):
        plan |= _drawn(workload, show.history.newest(stream), method)
    plan["text"] = _explained(workload, method)
    return plan


@lru_cache(maxsize=64)
def sharing_of(workload: Workload[Any]) -> Sharing | None:
    """Return how the queries of a workload share views; None if there are no views, or too many."""
    family = family_of(workload)
    if not family.supports("cost") or sum(query.window.most_alive for query in workload) > MOST_WINDOWS:
        return None
    found: Sharing = family.part("explain").sharing(workload.queries)
    return found


@lru_cache(maxsize=64)
def _explained(workload: Workload[Any], method: str) -> str:
    return workload.explain(on_spark=True, plan=plan_for(workload.family, method))


def _drawn(workload: Workload[Any], now: int | None, method: str) -> dict[str, Any]:
    """Return the time line of the workload's family, with at most MOST_NAMES queries per lane."""
    shared = sharing_of(workload)
    drawn: dict[str, Any] = {"share_factor": None if shared is None else shared.factor}
    found = family_of(workload).part("explain").timeline(workload.queries, now, method, MOST_LANES, MOST_WINDOWS)
    if found is None:
        return drawn
    lanes = [{**asdict(lane), **_names(list(lane.queries))} for lane in found.lanes]
    return {**drawn, "lanes": lanes, "more": found.more, "cost": found.cost, "now": found.now}


def _names(queries: list[str]) -> dict[str, Any]:
    return {"queries": queries[:MOST_NAMES], "more_queries": max(0, len(queries) - MOST_NAMES)}


_METRICS = (
    "rows",
    "late",
    "dropped_null",
    "malformed",
    "unreadable",
    "pruned",
    "windows",
    "answers",
    "batches",
    "candidates",
    "bound",
    "state_bytes",
    "emit_lag",
    "restarts",
    "changes",
    "queries",
    "algorithm",
    "lags",
)


class EngineView:
    """Samples the metrics and retains the samples of the last minutes."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self._lock = threading.Lock()
        self._counted: deque[tuple[float, dict[str, int]]] = deque()  # time of the sample, and row counts by stream
        self._trail: deque[dict[str, Any]] = deque(maxlen=SECONDS)
        self._now: dict[str, Any] = {}
        self._shared: dict[str, tuple[Workload[Any] | None, Sharing | None]] = {}

    def look(self) -> None:
        """Sample the metrics. Call it about once a second."""
        at, numbers = time.monotonic(), self._show.numbers()
        with self._lock:
            self._counted.append((at, {name: int(one.get("rows") or 0) for name, one in numbers.items()}))
            while at - self._counted[0][0] > SMOOTHED:
                self._counted.popleft()
            self._now = {name: self._metrics(name, one) for name, one in numbers.items()}
            seen = {name: {what: one[what] for what in _TRAILED} for name, one in self._now.items()}
            self._trail.append({"at": moment_text(time.time_ns() // 1000, "time"), **seen})

    def now(self) -> dict[str, Any]:
        """The current metrics as JSON values."""
        with self._lock:
            return {"streams": self._now}

    def with_trail(self) -> dict[str, Any]:
        """The current metrics and their trail."""
        with self._lock:
            return {"streams": self._now, "trail": list(self._trail)}

    def _metrics(self, name: str, numbers: Mapping[str, Any]) -> dict[str, Any]:
        found = {what: plain(numbers.get(what)) for what in _METRICS}
        found["rows_per_second"] = self._rate(name) if numbers.get("rows") is not None else None
        sharing = self._sharing(name)
        found["share_factor"] = None if sharing is None else sharing.factor
        found["views"] = None if sharing is None else sharing.views
        return found

    def _sharing(self, name: str) -> Sharing | None:
        """Return how a stream's queries share views. It is computed again when the workload changes."""
        workload = self._show.workloads().get(name)
        known, found = self._shared.get(name, (None, None))
        if workload is not known:
            found = None if workload is None else sharing_of(workload)
            self._shared[name] = (workload, found)
        return found

    def _rate(self, name: str) -> float:
        (since, before), (until, now) = self._counted[0], self._counted[-1]
        passed = until - since
        return round((now.get(name, 0) - before.get(name, 0)) / passed, 1) if passed > 0 else 0.0
