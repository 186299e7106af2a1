"""The columns of answers: one schema a family, read by tables, Spark types, sinks, the terminal and the dashboard."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, NamedTuple

__all__ = ["CHANGE_COLUMNS", "AnswerColumn", "AnswerSchema", "moment_of"]

# What a column holds; "own" is a type that comes with the rows: a time or a sequence number, an id, a key, a stream.
Kind = Literal["text", "rank", "number", "flag", "own"]
_MOMENTS = ("window_end", "time")


class AnswerColumn(NamedTuple):
    """One column of an answer."""

    name: str
    kind: Kind
    optional: bool = False  # only where some query asks for it
    ranked: bool = False  # a part of what is ranked, such as its key; others say when, where and how it is ranked


CHANGE_COLUMNS = (AnswerColumn("change", "text"), AnswerColumn("old_rank", "rank"))  # what a change feed has besides


@dataclass(frozen=True)
class AnswerSchema:
    """The columns that every answer of a family has, in their order; groups and the row's own columns stand apart."""

    columns: tuple[AnswerColumn, ...]
    row_id: AnswerColumn | None = None  # stands for the row in tables of a monitor; on Spark the row itself does

    @property
    def table_columns(self) -> tuple[AnswerColumn, ...]:
        """The columns of a monitor's tables: those of all answers, with the row's id before the score."""
        if self.row_id is None:
            return self.columns
        score = self.names.index("score")
        return *self.columns[:score], self.row_id, *self.columns[score:]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns: rows cannot bring columns of their own under these."""
        return tuple(column.name for column in self.columns)

    @property
    def moment(self) -> str:
        """The column that says when an answer was final."""
        return moment_of(self.names)

    @property
    def framing(self) -> tuple[str, ...]:
        """The columns that are no part of what is ranked."""
        return tuple(column.name for column in self.columns if not column.ranked)


def moment_of(names: Collection[str]) -> str:
    """Of the columns of answers, the one that says when an answer was final.

    >>> moment_of(["query", "window_start", "window_end", "rank"]), moment_of(["query", "time", "rank"])
    ('window_end', 'time')
    """
    return next((name for name in _MOMENTS if name in names), _MOMENTS[-1])
