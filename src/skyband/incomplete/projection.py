"""What queries over incomplete streams compute from a row: object, stream and value for each scan."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from skyband.errors import InvalidQueryError
from skyband.incomplete.plan import IncompletePlan, scans_of
from skyband.incomplete.query import IncompleteTopK, optional_columns
from skyband.incomplete.reducer import ID, TIME, columns_of
from skyband.queries.families import FAMILIES
from skyband.queries.workload import Workload
from skyband.sharding.projection import WHOLE, Projection, ProjectionRequest, answer_fields, refuse_emission
from skyband.sharding.row_source import RowSource, plain

__all__ = ["declared", "project", "taken", "with_streams"]

_SCHEMA = FAMILIES["incomplete"].answers


def taken(request: ProjectionRequest) -> tuple[str, ...]:
    """Return the names of columns that every answer has."""
    return request.taken(_SCHEMA)


def declared(query: IncompleteTopK, frames: Collection[Any] | None) -> IncompleteTopK:
    """Return the query with all its streams named; `frames` are the streams with one data frame each."""
    for name, example in (("object", "flow_id"), ("value", "bytes")):
        if getattr(query, name) is None:
            raise InvalidQueryError(
                f"query {query.name!r} has no {name}=. It is computed from the row's columns. Set {name}= to an SQL "
                f"expression, for example {name}={example!r}."
            )
    if frames is None:
        if query.stream is None:
            raise InvalidQueryError(
                f"query {query.name!r} has no stream=. With one data frame for all streams, a column must contain the "
                "stream name. Set stream= to an SQL expression, or pass a dict of stream names to data frames."
            )
        if query.streams is None:
            raise InvalidQueryError(
                f"query {query.name!r} has no streams=. The number of streams bounds how far a score can rise, and the "
                "data frame does not contain it. List them all, for example streams=['a', 'b']."
            )
        return query
    if query.stream is not None:
        raise InvalidQueryError(
            f"query {query.name!r} has stream={query.stream!r}, but there is already one data frame per stream. "
            "Remove stream=."
        )
    streams = tuple(query.streams or frames)
    for name in frames:
        if name not in streams:
            raise InvalidQueryError(
                f"there is a data frame for the stream {name!r}, but query {query.name!r} declares "
                f"streams={list(streams)}. Add it to streams=, or remove the data frame."
            )
    return IncompleteTopK(**{**query.to_dict(), "streams": streams})


def with_streams(workload: Workload[IncompleteTopK], values: Callable[[str], Any]) -> Workload[IncompleteTopK]:
    """Return the queries with all their streams named; by default those in the input, which `values` computes."""
    queries = []
    for query in workload:
        if query.streams is None and query.stream is not None:
            names = sorted(str(name) for name in values(query.stream).unique().to_pylist() if name is not None)
            query = IncompleteTopK(**{**query.to_dict(), "streams": names or ["0"]})  # noqa: PLW2901
        queries.append(declared(query, None))
    return Workload(queries)


def project(source: RowSource[Any, Any], request: ProjectionRequest, stream: Any = None) -> Projection:
    """Check the workload against the columns of `source`, and list what is computed from a row.

    The queries have their streams declared. `stream` names the one that all rows of `source` belong to, if they do.
    """
    queries = request.workload.queries
    refuse_emission(queries, request)
    scans = scans_of(queries)
    at, identity = source.time_and_id(request.time, request.id)
    columns = {TIME: at, ID: identity}
    for number, scan in enumerate(scans):
        query = queries[scan.places[0]]
        label = source.text(str(stream)) if scan.stream is None else source.label_text(query, "stream", scan.stream)
        value = source.number(query, "value", str(query.value), "value must be numeric to be aggregated into a score")
        parts = (
            source.label(query, "object", str(query.object), "ties are broken by the larger object"),
            label,
            source.filtered(value, query.where, query),
        )
        columns |= dict(zip(columns_of(number), parts, strict=True))
        groups = source.groups(scan.partition_by, query)
        columns |= {name: source.without_nan(column) for name, column in groups.items()}
    kinds = {source.described(source.kind_of(columns[columns_of(number)[0]])) for number in range(len(scans))}
    if len(kinds) > 1:
        raise InvalidQueryError(
            f"the queries have objects of the types {', '.join(sorted(kinds))}, but answers have one object column. "
            "Cast the objects to one type, or use one workload per type."
        )
    plan = IncompletePlan(
        queries=queries,
        shards=request.shards,
        refuse_late=request.refuse_late,
        groups=tuple(tuple(map(plain, source.spelled(scan.partition_by))) for scan in scans),
        delay=request.delay,
        output=request.output,
        old_scores=request.old_scores,
        emission=request.emission,
    )
    own = {
        "time": source.kind_of(at) if queries[0].axis == "time" else WHOLE,
        "object": source.kind_of(columns[columns_of(0)[0]]),
    }
    grouped = {name: source.kind_of(columns[name]) for name in plan.group_columns}
    fields = answer_fields(request.columns(_SCHEMA), own, groups=grouped, wanted=optional_columns(queries))
    shown = {plain(name): name for scan in scans for name in source.spelled(scan.partition_by)}
    return Projection(
        columns=columns,
        plan=plan,
        fields=fields,
        names=tuple(shown.get(name, name) for name, _ in fields),
        checked=tuple(columns),
    )
