"""What aggregate queries compute from a row: a key, a value and a shard for each scan, and its groups."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from skyband.aggregate.plan import (
    AggregatePlan,
    AggregateScan,
    group_name,
    key_name,
    optional_columns,
    own_name,
    scans_of,
)
from skyband.aggregate.query import AggregateTopK
from skyband.errors import InvalidQueryError, UnsupportedError
from skyband.queries.families import FAMILIES
from skyband.sharding.projection import (
    WHOLE,
    Projection,
    ProjectionRequest,
    answer_fields,
    refuse_emission,
    refuse_session_changes,
)
from skyband.sharding.row_source import HIDDEN, RowSource, plain

__all__ = ["project", "taken"]

_SCHEMA = FAMILIES["aggregate"].answers
_TIME = f"{HIDDEN}time"
_ID = f"{HIDDEN}id"


def taken(request: ProjectionRequest) -> tuple[str, ...]:
    """Return the names of columns that every answer has."""
    missing = {column.name for column in _SCHEMA.columns if column.optional} - {*optional_columns(request.workload)}
    return tuple(name for name in request.taken(_SCHEMA) if name not in missing)


def project(source: RowSource[Any, Any], request: ProjectionRequest) -> Projection:
    """Check the workload against the columns of `source`, and list what is computed from a row."""
    queries = request.workload.queries
    refuse_session_changes(queries, request)
    refuse_emission(queries, request)
    if request.emission.lateness:
        _refuse_vanishing(queries, request)
    at = source.column(source.time(request.time))
    scans = scans_of(queries)
    groups = [_groups(source, scan, queries[scan.places[0]]) for scan in scans]
    keys = [_keys(source, scan, queries[scan.places[0]]) for scan in scans]
    parts = _parts(source, scans, keys, queries)
    numbers = range(len(scans))
    known = [name for scan in scans for name in source.spelled(scan.partition_by)] + [*parts]
    returned_as = _returned(source, queries, known)
    returned = {plain(name): old for name, old in returned_as.items()}
    own_groups = _own_groups(source, scans, queries)
    id_name, id_column = _id(source, request, returned)
    plan = AggregatePlan(
        queries=queries,
        shards=request.shards,
        time=_TIME,
        groups=tuple(tuple(found) for found in groups),
        keys=tuple(key_name(number) for number in numbers),
        parts=tuple(plain(name) for name in parts),
        part_kinds=tuple(parts.values()),
        values=tuple(f"{HIDDEN}value_{number}" if scans[number].value else None for number in numbers),
        wanted=tuple(f"{HIDDEN}wanted_{number}" for number in numbers),
        homes=tuple(f"{HIDDEN}home_{number}" for number in numbers),
        id=id_name,
        ids_given=request.id is not None,
        returned=tuple(returned),
        own_groups=tuple(own_groups),
        utc=source.is_instant(source.kind_of(at)),
        refuse_late=request.refuse_late,
        output=request.output,
        old_scores=request.old_scores,
        emission=request.emission,
    )
    columns: dict[str, Any] = {_TIME: at, **{new: source.column(old) for new, old in returned.items()}, **id_column}
    columns |= {own_name(name): source.column(old) for name, old in own_groups.items()}
    columns |= {name: source.without_nan(column) for found in groups for name, column in found.items()}
    for number, scan in enumerate(scans):
        columns |= _row_columns(source, scan, number, plan, keys[number], [columns[name] for name in groups[number]])
    bound = source.kind_of(at) if plan.axis == "time" else WHOLE
    own = dict(zip(plan.parts or ("key",), map(source.kind_of, keys[0]), strict=True))
    fields = answer_fields(
        request.columns(_SCHEMA.with_keys(plan.parts)),
        {"window_start": bound, "window_end": bound, **own},
        groups={name: source.kind_of(columns[name]) for name in plan.group_columns},
        wanted=optional_columns(queries),
        rest={name: source.kind_of(columns[name]) for name in returned},
    )
    shown = {group_name(name): name for scan in scans for name in source.spelled(scan.partition_by)}
    shown |= dict(zip(returned, returned_as, strict=True)) | dict(zip(plan.parts, parts, strict=True))
    names = tuple(shown.get(name, name) for name, _ in fields)
    return Projection(columns=columns, plan=plan, fields=fields, names=names, checked=())


# Conditions that a key still meets with more rows.
_LASTING = {("count", ">="), ("count", ">"), ("count_distinct", ">="), ("count_distinct", ">"), ("max", ">="),
            ("max", ">"), ("min", "<="), ("min", "<")}  # fmt: skip


def _refuse_vanishing(queries: Iterable[AggregateTopK], request: ProjectionRequest) -> None:
    """Reject queries whose windows can lose all keys by a late row: an answer without rows cannot be emitted again."""
    for query in queries:
        lasting = all((condition.aggregate, condition.operator) in _LASTING for condition in query.conditions)
        if query.delete is None and lasting:
            continue
        given = f"delete={query.delete!r}" if query.delete is not None else f"having={query.having!r}"
        raise UnsupportedError(
            f"{request.emission.features[-1][2]} is not supported for query {query.name!r} with {given}: a late row "
            "could remove all keys of an answer that has been emitted, and an answer without rows cannot replace it. "
            "Use a longer watermark; or a condition that more rows cannot break, such as having='count(*) >= 3'."
        )


def _groups(source: RowSource[Any, Any], scan: AggregateScan, query: AggregateTopK) -> dict[str, Any]:
    """Return the group columns of a scan by their names in tables of partials."""
    columns = source.groups(scan.partition_by, query).values()
    return dict(zip(map(group_name, source.spelled(scan.partition_by)), columns, strict=True))


def _returned(source: RowSource[Any, Any], queries: Sequence[AggregateTopK], groups: list[str]) -> dict[str, str]:
    """Return the columns of a row that come back, by the name they have in answers: none if no query has row=True."""
    return source.returned(queries, set(groups)) if any(query.row for query in queries) else {}


def _own_groups(source: RowSource[Any, Any], scans: Sequence[AggregateScan], queries: Any) -> dict[str, str]:
    """Return the group columns that are columns of the row for a query with row=True that does not group by them.

    By the name that the group has in tables of partials: the name of the stream's column.
    """
    found: dict[str, str] = {}
    for scan in scans:
        if any(queries[place].row for place in scan.places):
            mine = set(source.spelled(scan.partition_by))
            others = (name for other in scans for name in source.spelled(other.partition_by))
            found |= {group_name(name): name for name in others if name not in mine and name in source}
    return found


def _id(
    source: RowSource[Any, Any], request: ProjectionRequest, returned: Mapping[str, str]
) -> tuple[str | None, dict[str, Any]]:
    """Return the name of the column that orders rows with the same time, and the column if it is not returned."""
    numbered = request.workload.axis == "count"  # rows are numbered by time and id
    identified = any(query.identified for query in request.workload) and (request.id is not None or bool(returned))
    if not numbered and not identified:
        return None, {}
    if request.id is not None and (found := source.id(request.id)) in returned.values():
        return next(new for new, old in returned.items() if old == found), {}
    return _ID, {_ID: source.time_and_id(request.time, request.id)[1]}


def _keys(source: RowSource[Any, Any], scan: AggregateScan, query: AggregateTopK) -> list[Any]:
    if not scan.key_columns:
        raise InvalidQueryError(
            f"query {query.name!r} has no key=. The key is computed from the row's columns. Set key= to an SQL "
            "expression, for example key='client'."
        )
    return [source.key(query, text) for text in scan.key_columns]


def _parts(
    source: RowSource[Any, Any],
    scans: Sequence[AggregateScan],
    keys: list[list[Any]],
    queries: Sequence[AggregateTopK],
) -> dict[str, str]:
    """Return the names and types of the key's columns in answers; empty if it is the column ``key``."""
    kinds = {", ".join(source.described(source.kind_of(key)) for key in mine) for mine in keys}
    if len(kinds) > 1 and all(len(scan.key_columns) == 1 for scan in scans):
        raise InvalidQueryError(
            f"the queries have keys of the types {', '.join(sorted(kinds))}, but answers have one key column. "
            "Cast the keys to one type, or use one workload per type."
        )
    found = [tuple(source.spelled(scan.key_columns)) for scan in scans]
    if len(set(found)) > 1 and any(len(names) > 1 for names in found):
        raise InvalidQueryError(
            f"the queries have the keys {' and '.join(', '.join(names) for names in dict.fromkeys(found))}, but a key "
            "of several columns has them in every answer. Use the same key=, or one workload per key."
        )
    if len(found[0]) == 1:
        return {}
    groups = {name.lower() for scan in scans for name in source.spelled(scan.partition_by)}
    bounds = () if any(query.sketched for query in queries) else ("error", "guaranteed")
    own = [name for name in _SCHEMA.names if name not in bounds]
    for name in found[0]:
        if name.lower() in (*own, *groups):
            raise InvalidQueryError(
                f"key={list(found[0])!r}: {name!r} is also the name of another column of the answers. Rename the "
                "column of the stream, or use another expression."
            )
    return {name: source.described(source.kind_of(key)) for name, key in zip(found[0], keys[0], strict=True)}


def _row_columns(
    source: RowSource[Any, Any],
    scan: AggregateScan,
    number: int,
    plan: AggregatePlan,
    keys: list[Any],
    groups: list[Any],
) -> dict[str, Any]:
    """Return the scan's columns: key and value, its shard, and whether the row counts (null: filtered out)."""
    query = plan.queries[scan.places[0]]
    columns, value, named = dict(zip(plan.key_fields(number), keys, strict=True)), None, keys
    if scan.items in ("values", "hashes") and scan.value is not None:
        counted = source.key(query, scan.value, "value")
        columns[str(plan.values[number])] = counted
        keys = [*keys, counted]  # a row without it does not count
    elif scan.value is not None:
        value = source.with_zero(
            source.number(query, "value", scan.value, "value must be numeric to be aggregated", keys)
        )
        columns[str(plan.values[number])] = value
    counts = source.counts(keys, value)
    if scan.delete is not None and value is not None:
        deletes = source.filter(scan.delete, query, "delete")
        # A delete counts without a value. NaN stands for it: it is newer than all values with the same time.
        columns[str(plan.values[number])] = source.replaced(deletes, math.nan, value)
        counts = source.replaced(deletes, source.counts(keys, None), counts)
    columns[plan.wanted[number]] = source.filtered(counts, scan.where, query)
    if plan.is_ordered(number):  # all keys of a group, and all rows without groups, in one shard
        columns[plan.homes[number]] = source.home(groups or named, plan.shards if groups else 1)
    else:
        columns[plan.homes[number]] = source.home([*groups, *named], plan.shards)
    return columns
