"""The monitor of top-k queries over data frames."""

from __future__ import annotations

from skyband.local.frame_monitor import FrameMonitorBase
from skyband.topk.monitor import Monitor
from skyband.topk.query import TopK

__all__ = ["FrameMonitor"]


class FrameMonitor(FrameMonitorBase[TopK], Monitor):  # type: ignore[misc]  # its pending answers are tables
    """A `Monitor` that was created with `time`."""

    @property
    def algorithm(self) -> str:
        """The name of the algorithm; ``"auto"`` before the first frame."""
        return self._algorithm if self._plan is None else str(self._plan.plan.algorithm)
