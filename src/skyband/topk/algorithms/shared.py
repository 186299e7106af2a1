"""The common part of engines that answer many queries together: the meta query."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from skyband.errors import UnsupportedError
from skyband.kernels.stream import Ints
from skyband.topk.algorithms.base import Engine, State, kernel_queries, packed
from skyband.topk.kernels import batches
from skyband.topk.kernels import views as kernels
from skyband.topk.kernels.agenda import Agenda
from skyband.topk.query import TopK

__all__ = ["SharedEngine"]

MOST_VIEWS = 1 << 24  # about a hundred bytes each


class SharedEngine(Engine):
    """Keep the live views of all queries: one for each start of an unanswered window."""

    shares = True
    #: New objects wait for a batch if they enter at least so many views on average; 0: always.
    batches_from: ClassVar[int] = 8

    def __init__(self, queries: Sequence[TopK], since: Sequence[int] | None = None) -> None:
        super().__init__(queries, since)
        plan = kernels.plan_of(kernel_queries(self._queries, self._since))
        if (most := kernels.most_views(plan)) > MOST_VIEWS:
            raise UnsupportedError(
                f"the {len(self._queries)} queries can have {most} windows with different starts open at once, but "
                f"{self.name} keeps an entry for each start and supports at most {MOST_VIEWS}. Use algorithm='panes', "
                "which keeps nothing per window, or longer slides."
            )
        self._meta = kernels.SharedViews(
            plan, kernels.empty_views(), kernels.empty_progress(plan), *kernels.empty_agendas(plan)
        )

    def _batch_registers(self) -> Ints:
        """Return the registers of batches before the first one."""
        registers = np.zeros(batches.REGISTERS, np.int64)
        registers[batches.LEAST] = self.batches_from
        return registers

    @abstractmethod
    def _move_views(self, live: Ints, capacity: int) -> None:
        """Renumber the views `live` from 0 on, in a ring with `capacity` entries; all others are closed."""

    def _grow_views(self) -> bool:
        """Make room for one more view and one more record; return whether room was missing."""
        views, progress, grown = self._meta.views, self._meta.progress, False
        if kernels.lacks_records(progress):
            progress, grown = kernels.with_more_records(progress), True
        if kernels.lacks_views(views):
            live = kernels.live_numbers(views)
            views, grown = kernels.without_closed(views), True
            capacity = views.starts.size
            progress = progress._replace(first_records=kernels.moved(progress.first_records, live, capacity))
            self._move_views(live, capacity)
        self._meta = self._meta._replace(views=views, progress=progress)
        return grown

    @property
    def views(self) -> int:
        """Number of live views."""
        return int(self._meta.views.registers[kernels.LIVE])

    @property
    def next_end(self) -> int:
        return int(self._meta.ends.due[self._meta.ends.heap[0]])

    def state(self) -> dict[str, Any]:
        return {
            "views": packed(self._meta.views),
            "progress": packed(self._meta.progress),
            "starts": packed(self._meta.starts),
            "ends": packed(self._meta.ends),
        }

    def load(self, state: State) -> None:
        self._meta = self._meta._replace(
            views=kernels.Views(**state["views"]),
            progress=kernels.ViewProgress(**state["progress"]),
            starts=Agenda(**state["starts"]),
            ends=Agenda(**state["ends"]),
        )
