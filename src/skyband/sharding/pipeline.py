"""The stations that rows pass, whatever runs them: a reducer, shards, and a merge of the shards' answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from skyband.data.arrow import plain_columns
from skyband.kernels.stream import Ints
from skyband.sharding.combiner import Reduce
from skyband.sharding.envelope import Envelope

__all__ = ["BoundedRows", "LocalAnswers", "ShardPipeline", "in_shape"]

# What shards answer with: the shard's number, the end of the table's first window, and the table.
LocalAnswers = Iterable[tuple[int, int, pa.Table]]


class BoundedRows(Protocol):
    """All rows of a bounded input, from which a plan's columns are computed. An input may read columns on demand."""

    @property
    def size(self) -> int:
        """Number of rows."""

    def project(self, names: Sequence[str]) -> pa.Table:
        """Compute columns of the plan for all rows. Columns that every row needs are requested first, together."""

    def project_rows(self, rows: Ints, names: Sequence[str]) -> pa.Table:
        """Compute columns of the plan for some rows, given by their indexes."""


class ShardPipeline(NamedTuple):
    """A family's stations. Each takes the plan first; `end` is the column of a shard's tables with the window's end."""

    reduce: Callable[[Any, Iterable[pa.RecordBatch], int], Iterable[Envelope]]  # from that position on no row is late
    positions: Callable[[Any, pa.Table], Ints]  # of an envelope's rows
    merge: Callable[[Any, LocalAnswers, pa.Schema], Iterator[pa.Table]]  # given all answers of a micro-batch
    end: str = "time"
    reduce_again: Reduce | None = None  # drops rows of several tasks; None: their rows are only put together
    matching: Callable[[Any, pa.Table], pa.Table] | None = None  # the rows that some query can use; None: all
    # All answers over bounded rows, in order and with the columns of the schema; None: the reducer and shards are used.
    whole: Callable[[Any, BoundedRows, pa.Schema], pa.Table] | None = None
    takes_dictionaries: bool = False  # whether `reduce` accepts texts as dictionaries, if they are not ids


def in_shape(table: pa.Table, kinds: pa.Schema) -> pa.Table:
    """Return a table of answers with these columns and types; a column that only other queries need is null."""
    for name in kinds.names:
        if name not in table.column_names:
            table = table.append_column(name, pa.nulls(table.num_rows, kinds.field(name).type))
    return plain_columns(table.select(kinds.names)).cast(kinds)
