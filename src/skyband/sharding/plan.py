"""What the plans of all families have in common, and what leaves a pipeline. Light: the driver loads it, too."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from skyband.queries import Axis

__all__ = ["COPY", "Output", "ShardPlan", "without_copies"]

Output = Literal["answers", "changes", "both"]
COPY = "row_"  # begins the name of a row's own column where answers have another column of that name


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


def without_copies(columns: Iterable[str]) -> list[str]:
    """The columns without second copies of those that groups are told by: which there are depends on the queries.

    >>> without_copies(["price", "symbol", "row_symbol", "row_rank"])
    ['price', 'symbol', 'row_rank']
    """
    known = list(columns)
    return [name for name in known if not (name.startswith(COPY) and name.removeprefix(COPY) in known)]
