"""Descriptions of the queries that the page shows, from a workload or inferred from answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from skyband.queries import Query
from skyband.queries.answer_schema import CHANGE_COLUMNS
from skyband.queries.families import FAMILIES
from skyband.sharding.emission import marks_in

if TYPE_CHECKING:
    from skyband.workload_file import WorkloadFile

__all__ = ["QueryInfo", "added_columns", "query_infos", "stream_of"]

# Columns that Skyband adds to the columns of the ranked row.
_ADDED = frozenset(
    {name for family in FAMILIES.values() for name in family.answers.framing}
    | {column.name for column in CHANGE_COLUMNS}
)


def added_columns(names: Sequence[str]) -> frozenset[str]:
    """Return the columns of answers that are not columns of the ranked row."""
    return _ADDED.union(marks_in(names))


@dataclass(frozen=True)
class QueryInfo:
    """The description of a query on the page."""

    name: str
    stream: str
    family: str
    k: int | None = None  # None if unknown
    window: str | None = None
    text: str | None = None  # canonical SQL, if known
    groups: tuple[str, ...] = ()  # columns
    by: str | None = None
    axis: str = "time"
    ascending: bool = False
    id: str | None = None  # the column that identifies objects; None: chosen from the columns of the answers
    label: str | None = None  # the column that names objects; None: the id
    query: Query | None = field(default=None, compare=False)

    def is_other_than(self, other: QueryInfo) -> bool:
        """Return whether this is a different query, and not a more complete description of the same one."""
        known = self.query is not None and other.query is not None
        shape = [(one.stream, one.family, one.groups, one.axis) for one in (self, other)]
        return shape[0] != shape[1] or (known and self.query != other.query)

    def to_dict(self, columns: Sequence[str]) -> dict[str, Any]:
        """Return the description as JSON values. `columns` are the columns of its answers."""
        return {
            "name": self.name,
            "stream": self.stream,
            "family": self.family,
            "k": self.k,
            "window": self.window,
            "text": self.text,
            "groups": list(self.groups),
            "by": self.by,
            "axis": self.axis,
            "ascending": self.ascending,
            "columns": list(columns),
            "label": self.label,
        }


def query_infos(file: WorkloadFile) -> dict[str, QueryInfo]:
    """Return the queries of a workload file by name."""
    return {
        query.name: _query_info(query, stream, file.streams[stream].id, file.labels.get(query.name))
        for stream, workload in file.workloads.items()
        for query in workload
    }


def stream_of(name: str, queries: Iterable[QueryInfo]) -> dict[str, Any]:
    """Return the description of a stream as JSON values."""
    mine = [one for one in queries if one.stream == name]
    return {
        "name": name,
        "family": mine[0].family if mine else "topk",
        "axis": mine[0].axis if mine else "time",
        "queries": [one.name for one in mine],
    }


def _query_info(query: Query, stream: str, id_: str | None, label: str | None) -> QueryInfo:
    return QueryInfo(
        name=query.name,
        stream=stream,
        family=query.family,
        k=query.k,
        window=query.window_text,
        text=query.to_sql(),
        groups=query.groups,
        by=query.score_text,
        axis=query.axis,
        ascending=query.ascending,
        id=id_ if query.whole_rows else None,
        label=label,
        query=query,
    )
