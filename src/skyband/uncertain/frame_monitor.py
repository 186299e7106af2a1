"""The monitor of queries over uncertain streams over data frames."""

from __future__ import annotations

from skyband.local.frame_monitor import FrameMonitorBase
from skyband.uncertain.monitor import Monitor
from skyband.uncertain.query import UncertainTopK

__all__ = ["FrameMonitor"]


class FrameMonitor(FrameMonitorBase[UncertainTopK], Monitor):  # type: ignore[misc]  # its pending answers are tables
    """A `Monitor` that was created with `time`."""
