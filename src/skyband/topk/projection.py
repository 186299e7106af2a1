"""What top-k queries compute from a row: its id, a score for each scan, and its groups."""

from __future__ import annotations

from typing import Any

from skyband.errors import InvalidQueryError
from skyband.sharding.plan import without_copies
from skyband.sharding.projection import WHOLE, Projection, ProjectionRequest, answer_fields
from skyband.sharding.row_source import HIDDEN, RowSource, plain
from skyband.topk.algorithm_selection import choose_on_spark
from skyband.topk.algorithms import engine_named
from skyband.topk.plan import Scan, TopKPlan, scans_of
from skyband.topk.query import TopK
from skyband.topk.shard_answers import answer_columns

__all__ = ["project", "taken"]


def taken(request: ProjectionRequest) -> tuple[str, ...]:
    """Return the names of columns that every answer has."""
    return tuple(column.name for column in answer_columns(request.output))


def project(source: RowSource[Any, Any], request: ProjectionRequest) -> Projection:
    """Check the workload against the columns of `source`, and list what is computed from a row.

    A group column is null in the answers of queries without groups. With `row_copies` the row's own value is returned
    as well, as ``row_<name>``.
    """
    workload = request.workload
    named = choose_on_spark(workload.queries).algorithm if request.algorithm == "auto" else request.algorithm
    engine = engine_named(named)
    engine.refuse_ties(workload.queries)
    at = source.time(request.time)
    scans = scans_of(workload)
    scores = [_score(source, scan, workload.queries[scan.places[0]]) for scan in scans]
    groups = [source.groups(scan.partition_by, workload.queries[scan.places[0]]) for scan in scans]
    spelled = [name for scan in scans for name in source.spelled(scan.partition_by)]
    returned_as = source.returned(workload, set(spelled), row_copies=request.row_copies)
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
    )
    bound = source.kind_of(columns[time_name]) if plan.axis == "time" else WHOLE
    fields = answer_fields(
        answer_columns(plan.output),
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
    """Return the scan's score; null where the filter removes the row, NaN where the row has no score."""
    if scan.by is None:
        raise InvalidQueryError(
            f"query {query.name!r} has no by=. The score is computed from the row's columns. Set by= to an SQL "
            "expression, for example by='price * size'."
        )
    number = source.number(query, "by", scan.by, "by must be numeric to rank rows")
    return source.filtered(number, scan.where, query)
