"""The common part of all families' plans, and the output modes. Light, because the driver loads it, too."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

from skyband.queries import Axis
from skyband.sharding.emission import ONCE, Emission

__all__ = ["COPY", "HIDDEN", "Output", "ShardPlan", "plain", "source_columns", "without_copies"]

Output = Literal["answers", "changes", "both"]
HIDDEN = "__skyband_"  # prefix of reserved names
COPY = "row_"  # prefix of a row's own column if answers have another column of that name


@dataclass(frozen=True, kw_only=True)
class ShardPlan:
    """A workload over rows with one schema. Frozen, and small enough to be sent with every task."""

    family: ClassVar[str]  # the family whose `shard` module has the shard's class
    merges_answers: ClassVar[bool] = False  # whether the answers of all shards are merged in every micro-batch
    has_shards_by_scan: ClassVar[bool] = False  # whether each scan has its own shards
    # Names of the state variables in a checkpoint: with another name, Spark would start with empty state.
    value_state: ClassVar[str] = "shard"
    segment_state: ClassVar[str | None] = None  # None: the family stores no segments
    compares_merged: ClassVar[bool] = True  # whether a change feed compares merged answers; else shards compare
    has_regular_answers: ClassVar[bool] = True  # whether all answers are at window ends; else a schedule sets the times

    queries: tuple[Any, ...]
    shards: int
    output: Output = "answers"  # whole answers, only their changes, or both
    old_scores: bool = False  # whether changes have the score in the previous window
    emission: Emission = ONCE

    @cached_property
    def query_fields(self) -> list[dict[str, Any]]:
        """The queries as states store them."""
        return [query.to_dict() for query in self.queries]

    @property
    def units(self) -> int:
        """The total number of shards."""
        return self.shards

    def shard_part(self, number: int) -> str:
        """The module of the family with the class of a shard."""
        return "shard"

    @property
    def method_name(self) -> str:
        """The algorithm, schedule or method that answers the queries, for metrics."""
        raise NotImplementedError

    @property
    def bound(self) -> int | None:
        """The upper bound of the candidates of one group; None: no bound."""
        return None

    @property
    def counts_deletes(self) -> bool:
        """Whether deletes of keys without a value are counted."""
        return False

    @property
    def shares_ranks(self) -> bool:
        """Whether several rows of a merged window can have rank 1."""
        return False

    @property
    def has_whole(self) -> bool:
        """Whether all windows of bounded rows can be answered in one pass, if the family has one."""
        return True

    @property
    def axis(self) -> Axis:
        """The axis of all windows."""
        axis: Axis = self.queries[0].axis
        return axis


def source_columns(plan: ShardPlan, time: str, id_: str | None) -> dict[str, str | None]:
    """Return the columns of the source on whose values a stored state depends, for the description of a checkpoint.

    Aggregates compare the keys of their scans instead, and count rows whatever their ids are.
    """
    found: dict[str, str | None] = {"time": time.lower()}
    return found if plan.has_shards_by_scan else {**found, "id": id_ and id_.lower()}


def without_copies(columns: Iterable[str]) -> list[str]:
    """Return the columns without the copies of group columns that earlier versions have stored.

    >>> without_copies(["price", "symbol", "row_symbol", "row_rank", plain("a.b"), plain("row_a.b")])
    ['price', 'symbol', 'row_rank', '__skyband_612e62']
    """
    known = list(columns)
    return [name for name in known if _copied(name) not in known]


def _copied(name: str) -> str | None:
    """Return the column of which this is a copy, if it is one."""
    written = name
    if name.startswith(HIDDEN):
        try:
            written = bytes.fromhex(name.removeprefix(HIDDEN)).decode()
        except ValueError:
            return None  # not the name of a column of the stream
    return plain(written.removeprefix(COPY)) if written.startswith(COPY) else None


def plain(name: str) -> str:
    """Return a name that tasks can look up: Spark reads a dot in the name of a column as a field of it.

    >>> plain("price"), plain("a.b")
    ('price', '__skyband_612e62')
    """
    return name if name.isidentifier() else f"{HIDDEN}{name.encode().hex()}"
