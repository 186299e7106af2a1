"""What a workload computes from the rows of a stream before they are reduced, and the shape of its answers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from skyband.errors import UnsupportedError
from skyband.queries.answer_schema import AnswerColumn, AnswerSchema
from skyband.queries.workload import Workload
from skyband.sharding.emission import ONCE, Emission
from skyband.sharding.plan import Output

__all__ = ["WHOLE", "Projection", "ProjectionRequest", "answer_fields", "refuse_emission", "refuse_session_changes"]

WHOLE = "whole"  # as a type of a field: a 64-bit integer, such as the number of a row


class ProjectionRequest(NamedTuple):
    """What a user requested, as far as it concerns single rows."""

    workload: Workload[Any]
    time: str
    id: str | None
    algorithm: str = "auto"
    output: Output = "answers"
    shards: int = 1
    may_be_late: bool = False  # whether rows may arrive behind the watermark
    refuse_late: bool = False
    delay: int = 0  # of the watermark behind the newest row, in microseconds
    emission: Emission = ONCE
    old_scores: bool = False  # whether changes have the score in the previous window

    def columns(self, schema: AnswerSchema) -> tuple[AnswerColumn, ...]:
        """Return the columns of the output, without group columns and columns of the row."""
        changes = self.output != "answers"
        return self.emission.added(schema.output_columns(changes=changes, old_scores=self.old_scores))

    def taken(self, schema: AnswerSchema) -> tuple[str, ...]:
        """Return the names of columns that every answer has."""
        return tuple(column.name for column in self.columns(schema))


@dataclass(frozen=True, kw_only=True)
class Projection:
    """The columns that a source computes for a workload. They have the names that the plan refers to."""

    columns: Mapping[str, Any]  # as the source computes them
    plan: Any  # a ShardPlan
    fields: Sequence[tuple[str, Any]]  # of answers: name, and a kind of `AnswerColumn`, WHOLE or a type of the source
    names: tuple[str, ...]  # of the same fields, as users name them
    checked: tuple[str, ...]  # the columns whose types a checkpoint must agree with


def answer_fields(
    columns: Sequence[AnswerColumn],
    own: Mapping[str, Any],
    *,
    groups: Mapping[str, Any] | None = None,
    wanted: Collection[str] = (),
    rest: Mapping[str, Any] | None = None,
) -> list[tuple[str, Any]]:
    """Return the fields of answers: `own` has the types that depend on the rows, `wanted` the optional columns.

    Columns of `groups` come after the query, the `rest` of the row's columns at the end.
    """
    first, *others = [column for column in columns if not column.optional or column.name in wanted]
    fields = {first.name: _kind(first, own), **(groups or {})}
    fields |= {column.name: _kind(column, own) for column in others}
    return [*fields.items(), *(rest or {}).items()]


def _kind(column: AnswerColumn, own: Mapping[str, Any]) -> Any:
    return own[column.name] if column.kind == "own" else column.kind


def refuse_session_changes(queries: Iterable[Any], request: ProjectionRequest) -> None:
    """Reject a change feed of sessions."""
    for query in queries:
        if query.window_kind == "session" and request.output != "answers":
            raise UnsupportedError(
                f"output={request.output!r} is not supported for query {query.name!r}, which has session windows: two "
                "sessions of a group have no row in common, so every row would enter and leave. Omit output=."
            )


def refuse_emission(queries: Iterable[Any], request: ProjectionRequest) -> None:
    """Reject provisional and corrected answers of windows and outputs that have none."""
    given = request.emission.given
    if given is None:
        return
    for query in queries:
        if query.axis == "count" or getattr(query, "gap", None) is not None:
            kind = "count windows" if query.axis == "count" else "session windows"
            raise UnsupportedError(
                f"{given} is not supported for query {query.name!r}, which has {kind}: later rows can move their "
                "bounds, so an earlier answer would be of another window. Omit it, or give the query time windows."
            )
    if request.output == "changes":
        raise UnsupportedError(
            f"{given} is not supported if only changes are written (output='changes'): a change feed compares the "
            "final answers of windows, each with the one before it. Write answers too, or omit it."
        )
