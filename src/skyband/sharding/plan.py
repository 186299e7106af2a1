"""What the plans of all families have in common. Light: the driver loads it to ask which state there is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from skyband.queries import Axis

__all__ = ["ShardPlan"]


@dataclass(frozen=True, kw_only=True)
class ShardPlan:
    """A workload over rows of one shape. Frozen, and light enough to travel with every task."""

    family: ClassVar[str]  # whose `shard` module has the shard's class
    merges_answers: ClassVar[bool] = False  # whether the answers of all shards are merged, per micro-batch
    # The names of the state's parts in a checkpoint: another name would be another, empty state.
    value_state: ClassVar[str] = "shard"
    segment_state: ClassVar[str | None] = None  # None: the family stores no segments

    queries: tuple[Any, ...]
    shards: int

    @property
    def units(self) -> int:
        """How many shards there are in all."""
        return self.shards

    @property
    def axis(self) -> Axis:
        """What all windows run along."""
        axis: Axis = self.queries[0].axis
        return axis
