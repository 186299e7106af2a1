"""What top-k queries compute from a row: its id, a score for each scan, and its groups."""

from __future__ import annotations

from typing import Any

from skyband.errors import InvalidQueryError
from skyband.queries.families import FAMILIES
from skyband.sharding.plan import without_copies
from skyband.sharding.projection import (
    WHOLE,
    Projection,
    ProjectionRequest,
    answer_fields,
    refuse_emission,
    refuse_session_changes,
)
from skyband.sharding.row_source import HIDDEN, RowSource, plain
from skyband.topk.algorithm_selection import choose_on_spark
from skyband.topk.algorithms import engine_named
from skyband.topk.plan import OrderColumn, Scan, TopKPlan, scans_of
from skyband.topk.query import TopK

__all__ = ["project", "taken"]

_SCHEMA = FAMILIES["topk"].answers


def taken(request: ProjectionRequest) -> tuple[str, ...]:
    """Return the names of columns that every answer has."""
    return request.taken(_SCHEMA)


def project(source: RowSource[Any, Any], request: ProjectionRequest) -> Projection:
    """Check the workload against the columns of `source`, and list what is computed from a row.

    In the answers of queries without groups, a group column has the row's own value, or null if it is an expression.
    """
    workload = request.workload
    named = choose_on_spark(workload.queries).algorithm if request.algorithm == "auto" else request.algorithm
    engine = engine_named(named)
    engine.refuse_ties(workload.queries)
    engine.refuse_distinct(workload.queries)
    at = source.time(request.time)
    scans = scans_of(workload)
    refuse_session_changes(workload.queries, request)
    refuse_emission(workload.queries, request)
    ranked = [_score(source, scan, workload.queries[scan.places[0]]) for scan in scans]
    scores = [score for score, _ in ranked]
    groups = [source.groups(scan.partition_by, workload.queries[scan.places[0]]) for scan in scans]
    spelled = [name for scan in scans for name in source.spelled(scan.partition_by)]
    returned_as = source.returned(workload, set(spelled))
    returned = {plain(name): old for name, old in returned_as.items()}
    names = {old: new for new, old in returned.items()}
    columns = {new: source.column(old) for new, old in returned.items()}
    time_name, id_name = names.get(at, at), f"{HIDDEN}id"
    if at not in names:
        time_name = f"{HIDDEN}time"
        columns[time_name] = source.column(at)
    if request.id is not None and (known := source.id(request.id)) in names:
        id_name = names[known]
    else:
        columns[id_name] = source.time_and_id(at, request.id)[1]
    columns |= {name: column for found in groups for name, column in found.items()}
    orders, entities = [], []
    for scan, (_, exact) in zip(scans, ranked, strict=True):
        found = _order(source, scan, workload.queries[scan.places[0]], exact, names)
        orders.append(tuple(column for column, _ in found))
        columns |= {column.name: value for column, value in found if column.name not in columns}
        distinct = None if scan.rule is None else scan.rule.distinct
        entities.append(distinct and _named(source, distinct, names))
        if distinct is not None and entities[-1] not in columns:
            source.type_of(workload.queries[scan.places[0]], "distinct", distinct)
            columns[str(entities[-1])] = source.expression(distinct)
    columns |= {f"{HIDDEN}score_{number}": column for number, column in enumerate(scores)}
    grouped = {plain(name): name for name in spelled}
    kept = set(returned) | {name for name, written in grouped.items() if written in source}
    plan = TopKPlan(
        queries=workload.queries,
        algorithm=engine.name,
        shards=request.shards,
        time=time_name,
        id=id_name,
        scores=tuple(f"{HIDDEN}score_{number}" for number in range(len(scans))),
        groups=tuple(tuple(found) for found in groups),
        columns=tuple(sorted(kept)),
        returned=tuple(returned),
        may_be_late=request.may_be_late,
        delay=request.delay,
        output=request.output,
        old_scores=request.old_scores,
        emission=request.emission,
        orders=tuple(orders) if any(orders) else (),
        entities=tuple(entities) if any(entities) else (),
    )
    bound = source.kind_of(columns[time_name]) if plan.axis == "time" else WHOLE
    fields = answer_fields(
        request.columns(_SCHEMA),
        {"window_start": bound, "window_end": bound},
        groups={name: source.kind_of(columns[name]) for name in plan.group_columns},
        rest={name: source.kind_of(columns[name]) for name in plan.returned},
    )
    shown = {**grouped, **dict(zip(returned, returned_as, strict=True))}
    return Projection(
        columns=columns,
        plan=plan,
        fields=fields,
        names=tuple(shown.get(name, name) for name, _ in fields),
        checked=tuple(without_copies(plan.columns)),
    )


def _score(source: RowSource[Any, Any], scan: Scan, query: TopK) -> Any:
    """Return the scan's score, null where the filter removes the row and NaN where it has none; and its exact value.

    The exact value is None if doubles have the same order.
    """
    if scan.by is None:
        raise InvalidQueryError(
            f"query {query.name!r} has no by=. The score is computed from the row's columns. Set by= to an SQL "
            "expression, for example by='price * size'."
        )
    if scan.rule is not None and scan.rule.half_life is not None:
        number = source.number(query, "by", scan.by, "by must be numeric, because it decays")
        return source.filtered(number, scan.where, query), None
    number, exact = source.ranked(query, "by", scan.by)
    return source.filtered(number, scan.where, query), exact


def _order(source: RowSource[Any, Any], scan: Scan, query: TopK, exact: Any, names: dict[str, str]) -> Any:
    """Return the columns that rank rows with equal scores, and how they are computed."""
    assert scan.by is not None
    found = []
    if exact is not None:
        column = OrderColumn(_named(source, scan.by, names), integer=source.is_integer(source.kind_of(exact)))
        found.append((column, exact))
    for later in () if scan.rule is None else scan.rule.columns:
        kind = source.type_of(query, "by", later.text)
        if not source.is_ordered(kind):
            raise InvalidQueryError(
                f"query {query.name!r}: by={later.text!r} has type {source.described(kind)}, which has no order."
            )
        ascending = query.order == "asc"
        column = OrderColumn(
            _named(source, later.text, names),
            flipped=later.order != query.order,
            nulls_low=later.nulls_first if ascending else not later.nulls_first,
        )
        found.append((column, source.expression(later.text)))
    return found


def _named(source: RowSource[Any, Any], text: str, names: dict[str, str]) -> str:
    """Return the name of an expression's column: that of the row if answers return it, else a hidden one."""
    spelled = source.spelled([text.strip()])[0]
    return names.get(spelled, f"{HIDDEN}order_{text.strip().encode().hex()}")
