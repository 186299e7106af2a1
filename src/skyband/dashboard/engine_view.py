"""Inside the engine: the numbers of all streams now, and their trail over the last minutes."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from skyband.dashboard.board_state import Show
from skyband.dashboard.plan_view import sharing_of
from skyband.dashboard.wire import moment_text, plain
from skyband.queries.workload import Workload

if TYPE_CHECKING:
    from skyband.topk.explain import Sharing

__all__ = ["EngineView"]

SECONDS = 300  # of the trail
SMOOTHED = 10  # seconds that a rate is taken over: rows come a micro-batch at a time
_TOLD = (
    "rows",
    "late",
    "dropped_null",
    "malformed",
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
_TRAILED = ("rows_per_second", "candidates", "state_bytes", "emit_lag")


class EngineView:
    """Looks at the numbers once in a while, and remembers them."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self._lock = threading.Lock()
        self._counted: deque[tuple[float, dict[str, int]]] = deque()  # when, and the rows of each stream then
        self._trail: deque[dict[str, Any]] = deque(maxlen=SECONDS)
        self._now: dict[str, Any] = {}
        self._shared: dict[str, tuple[Workload[Any] | None, Sharing | None]] = {}

    def look(self) -> None:
        """Take the numbers down; to be called about once a second."""
        at, numbers = time.monotonic(), self._show.numbers()
        with self._lock:
            self._counted.append((at, {name: int(one.get("rows") or 0) for name, one in numbers.items()}))
            while at - self._counted[0][0] > SMOOTHED:
                self._counted.popleft()
            self._now = {name: self._told(name, one) for name, one in numbers.items()}
            seen = {name: {what: one[what] for what in _TRAILED} for name, one in self._now.items()}
            self._trail.append({"at": moment_text(time.time_ns() // 1000, "time"), **seen})

    def now(self) -> dict[str, Any]:
        """The numbers, as they are sent."""
        with self._lock:
            return {"streams": self._now}

    def with_trail(self) -> dict[str, Any]:
        """The numbers, and where they come from."""
        with self._lock:
            return {"streams": self._now, "trail": list(self._trail)}

    def _told(self, name: str, numbers: Mapping[str, Any]) -> dict[str, Any]:
        found = {what: plain(numbers.get(what)) for what in _TOLD}
        found["rows_per_second"] = self._rate(name) if numbers.get("rows") is not None else None
        sharing = self._sharing(name)
        found["share_factor"] = None if sharing is None else sharing.factor
        found["views"] = None if sharing is None else sharing.views
        return found

    def _sharing(self, name: str) -> Sharing | None:
        """What a stream's queries share; looked at again when they are others."""
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
