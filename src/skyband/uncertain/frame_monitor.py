"""The monitor of queries over uncertain streams over data frames."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from skyband.errors import UnsupportedError
from skyband.local.frame_monitor import FrameMonitorBase
from skyband.queries.fields import checked_choice
from skyband.queries.workload import Workload, of_family
from skyband.uncertain.monitor import Monitor
from skyband.uncertain.query import UncertainTopK
from skyband.uncertain.schedules import PLANS, Schedule
from skyband.uncertain.timetable import Timetable

__all__ = ["FrameMonitor"]


class FrameMonitor(FrameMonitorBase[UncertainTopK], Monitor):  # type: ignore[misc]  # its pending answers are tables
    """A `Monitor` that was created with `time`."""

    def __init__(
        self,
        queries: UncertainTopK | Iterable[UncertainTopK] | Workload[UncertainTopK],
        *,
        plan: str = "auto",
        **named: Any,
    ) -> None:
        FrameMonitorBase.__init__(self, queries, checked_choice("plan", plan, PLANS), **named)

    @property
    def plan(self) -> Schedule:
        """The schedule of runs, as that of a monitor of arrays."""
        alone = [Monitor(self.queries, plan=self._algorithm, computed=True)] if not self._shards else []
        monitors: list[Monitor] = alone or getattr(self._shards[0], "monitors")  # noqa: B009 - not of every shard
        if len(monitors) > 1:
            raise UnsupportedError(
                f"the queries have {len(monitors)} different expressions or filters, and each has its own schedule. "
                "Use one monitor for each to read its plan."
            )
        return monitors[0].plan

    @property
    def next_time(self) -> int | None:
        """Time of the next run, None while no tuple is held."""
        return self._shards[0].next_end if self._shards else None

    @property
    def _timetables(self) -> list[Timetable]:
        monitors: list[Monitor] = [one for shard in self._shards for one in getattr(shard, "monitors")]  # noqa: B009
        return [times for monitor in monitors for times in monitor._timetables]

    @classmethod
    def _made(cls, queries: list[UncertainTopK], saved: dict[str, Any]) -> Self:
        return cls(queries, plan=saved["algorithm"], time=saved["time"], id=saved["id"])

    @classmethod
    def _checked(
        cls, queries: UncertainTopK | Iterable[UncertainTopK] | Workload[UncertainTopK], computed: bool
    ) -> Workload[UncertainTopK]:
        # Queries with different expressions may have different sizes here; the projection checks them.
        return of_family(queries, cls.asks, cls._family().monitor)
