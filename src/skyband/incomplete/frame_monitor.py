"""The monitor of queries over incomplete streams over data frames."""

from __future__ import annotations

from skyband.incomplete.monitor import Monitor
from skyband.incomplete.query import IncompleteTopK
from skyband.local.frame_monitor import FrameMonitorBase

__all__ = ["FrameMonitor"]


class FrameMonitor(FrameMonitorBase[IncompleteTopK], Monitor):  # type: ignore[misc]  # its pending answers are tables
    """A `Monitor` that was created with `time`."""
