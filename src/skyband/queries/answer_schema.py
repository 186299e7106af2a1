"""The columns of answers: one schema per family, for tables, Spark types, sinks, the terminal and the dashboard."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

__all__ = ["CHANGE_COLUMNS", "FINAL", "OLD_SCORE", "REVISION", "AnswerColumn", "AnswerSchema", "moment_of"]

# The kind of a column; "own" is a type from the input: of a time or a sequence number, an id, a key, a stream.
Kind = Literal["text", "rank", "number", "flag", "own"]
_MOMENTS = ("window_end", "time")
FINAL, REVISION = "final", "revision"  # columns of answers that are emitted more than once


class AnswerColumn(NamedTuple):
    """One column of an answer."""

    name: str
    kind: Kind
    optional: bool = False  # only if a query requests it
    ranked: bool = False  # identifies or describes the ranked item, such as its key


CHANGE_COLUMNS = (
    AnswerColumn("change", "text"),
    AnswerColumn("old_rank", "rank"),
)  # additional columns of a change feed
OLD_SCORE = AnswerColumn("__skyband_old_score", "number")  # the score in the previous window; only alerts receive it


@dataclass(frozen=True)
class AnswerSchema:
    """The columns of a family's answers in order, without group columns and columns of the input row."""

    columns: tuple[AnswerColumn, ...]
    row_id: AnswerColumn | None = None  # identifies the row in a monitor's tables; on Spark the row itself is included
    identity: tuple[str, ...] = ("id",)  # the columns that identify the ranked item from one answer to the next

    @property
    def table_columns(self) -> tuple[AnswerColumn, ...]:
        """The columns of a monitor's tables: `columns` with the row id before the score."""
        if self.row_id is None:
            return self.columns
        score = self.names.index("score")
        return *self.columns[:score], self.row_id, *self.columns[score:]

    def output_columns(self, *, changes: bool, old_scores: bool = False) -> tuple[AnswerColumn, ...]:
        """The columns of answers; a change feed also has `change` before the rank and `old_rank` after it.

        With `old_scores`, it has the score in the previous window, too.

        >>> schema = AnswerSchema((AnswerColumn("query", "text"), AnswerColumn("rank", "rank")))
        >>> [column.name for column in schema.output_columns(changes=True)]
        ['query', 'change', 'rank', 'old_rank']
        """
        if not changes:
            return self.columns
        rank = self.names.index("rank")
        change, old_rank = CHANGE_COLUMNS
        added = (old_rank, OLD_SCORE) if old_scores else (old_rank,)
        return *self.columns[:rank], change, self.columns[rank], *added, *self.columns[rank + 1 :]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns. Input columns must not have these names."""
        return tuple(column.name for column in self.columns)

    def with_keys(self, names: Collection[str]) -> AnswerSchema:
        """Return the schema with the columns of a key instead of the column ``key``; itself if there are none.

        >>> from skyband.queries.families import FAMILIES
        >>> FAMILIES["aggregate"].answers.with_keys(["team", "player"]).names[4:]
        ('team', 'player', 'score', 'share', 'error', 'guaranteed')
        """
        if not names:
            return self
        at = self.names.index("key")
        parts = tuple(AnswerColumn(name, "own", ranked=True) for name in names)
        return replace(self, columns=(*self.columns[:at], *parts, *self.columns[at + 1 :]))

    @property
    def moment(self) -> str:
        """The time column of an answer: when it became final."""
        return moment_of(self.names)

    @property
    def framing(self) -> tuple[str, ...]:
        """The columns that do not describe the ranked item."""
        return tuple(column.name for column in self.columns if not column.ranked)


def moment_of(names: Collection[str]) -> str:
    """Return the time column of an answer: when it became final.

    >>> moment_of(["query", "window_start", "window_end", "rank"]), moment_of(["query", "time", "rank"])
    ('window_end', 'time')
    """
    return next((name for name in _MOMENTS if name in names), _MOMENTS[-1])
