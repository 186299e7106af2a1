"""The monitor of aggregate queries over data frames."""

from __future__ import annotations

from skyband.aggregate.monitor import Monitor
from skyband.aggregate.query import AggregateTopK
from skyband.local.frame_monitor import FrameMonitorBase

__all__ = ["FrameMonitor"]


class FrameMonitor(FrameMonitorBase[AggregateTopK], Monitor):  # type: ignore[misc]  # its pending answers are tables
    """A `Monitor` that was created with `time`."""
