"""What queries over uncertain streams compute from a row: score, probability and rule for each class of queries."""

from __future__ import annotations

from typing import Any

from skyband.errors import InvalidQueryError, UnsupportedError
from skyband.queries.families import FAMILIES
from skyband.sharding.projection import WHOLE, Projection, ProjectionRequest, answer_fields, refuse_emission
from skyband.sharding.row_source import RowSource, plain
from skyband.uncertain.plan import UncertainPlan
from skyband.uncertain.query import OWN_COLUMNS, UncertainTopK, classes_of, require_one_size_per_class
from skyband.uncertain.reducer import ID, TIME, columns_of, stream_column
from skyband.uncertain.schedules import PLANS

__all__ = ["project", "taken"]

_SCHEMA = FAMILIES["uncertain"].answers


def taken(request: ProjectionRequest) -> tuple[str, ...]:
    """Return the names of columns that every answer has."""
    return request.taken(_SCHEMA)


def project(source: RowSource[Any, Any], request: ProjectionRequest) -> Projection:
    """Check the workload against the columns of `source`, and list what is computed from a row."""
    queries = request.workload.queries
    refuse_emission(queries, request)
    method = _method(request.algorithm)
    require_one_size_per_class(queries)
    spelled = [source.spelled(together[0].groups) for together in classes_of(queries)]
    plan = UncertainPlan(
        queries=queries,
        method=method,
        shards=request.shards,
        groups=tuple(tuple(map(plain, names)) for names in spelled),
        refuse_late=request.refuse_late,
        may_be_late=request.may_be_late or request.refuse_late,
        output=request.output,
        old_scores=request.old_scores,
        emission=request.emission,
    )
    at, identity = source.time_and_id(request.time, request.id)
    columns = {TIME: at, ID: identity}
    for number, together in enumerate(plan.classes):
        columns |= _tuple_columns(source, together[0], columns_of(number))
        columns |= _labelled(source, together, stream_column(number))
        groups = source.groups(together[0].groups, together[0])
        columns |= {name: source.without_nan(column) for name, column in groups.items()}
    streams = [stream_column(number) for number, stream in enumerate(plan.streams) if stream is not None]
    kinds = {source.described(source.kind_of(columns[name])) for name in streams}
    if len(kinds) > 1:
        raise InvalidQueryError(
            f"the queries have streams of the types {', '.join(sorted(kinds))}, but answers have one stream column. "
            "Cast the streams to one type, or use one workload per type."
        )
    own = {"time": source.kind_of(at) if plan.axis == "time" else WHOLE, "id": source.kind_of(identity)}
    if streams:
        own["stream"] = source.kind_of(columns[streams[0]])
    meanings = {query.semantics for query in plan.queries}
    extra = {column for column, semantics in OWN_COLUMNS.items() if semantics in meanings}
    grouped = {name: source.kind_of(columns[name]) for name in plan.group_columns}
    fields = answer_fields(request.columns(_SCHEMA), own, groups=grouped, wanted=extra | own.keys())
    shown = {plain(name): name for names in spelled for name in names}
    return Projection(
        columns=columns,
        plan=plan,
        fields=fields,
        names=tuple(shown.get(name, name) for name, _ in fields),
        checked=(TIME, ID, *grouped),
    )


def _method(algorithm: str) -> str:
    if algorithm in PLANS:
        return algorithm
    raise UnsupportedError(
        f"algorithm={algorithm!r} is not supported for UncertainTopK queries. Use one of {', '.join(PLANS)}."
    )


def _tuple_columns(source: RowSource[Any, Any], query: UncertainTopK, names: tuple[str, str, str]) -> dict[str, Any]:
    """Return score, probability and rule of a row, for queries that run together."""
    if query.by is None or query.probability is None:
        raise InvalidQueryError(
            f"query {query.name!r} needs by= and probability=. They are computed from the row's columns. Set both to "
            "SQL expressions, for example by='speed', probability='confidence'."
        )
    score = source.number(query, "by", query.by, "by must be numeric to rank rows")
    chance = source.number(query, "probability", query.probability, "probability must be numeric")
    rule = source.text(None) if query.rule is None else source.label_text(query, "rule", query.rule)
    return dict(zip(names, (source.filtered(score, query.where, query), chance, rule), strict=True))


def _labelled(source: RowSource[Any, Any], together: tuple[UncertainTopK, ...], name: str) -> dict[str, Any]:
    """Return which stream a row comes from, where queries that run together rank streams."""
    query = next((query for query in together if query.stream is not None), None)
    if query is None:
        return {}
    return {name: source.label(query, "stream", str(query.stream), "ties are broken by the larger stream")}
