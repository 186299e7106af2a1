"""Answers of uncertain queries by their definitions, at the moments at which a plan has answered them.

A plan decides when a query is answered, and probabilities are rounded. So the answers that were found are judged: at
each of their moments, the criterion of the semantics is computed again for all tuples of the window, and an answer is
right if no other one is better by more than the tolerance. Right answers are expected as they were found; for others,
the definition's answer is. This code shares no kernel with the pipeline; it shares the definition of a query and,
without Spark, the evaluation of expressions over Arrow and the hash of a row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import one
from skyband.data.row_hash import row_hash
from skyband.expressions import compile_expression
from skyband.queries.workload import Workload
from skyband.uncertain.definitions import Criteria, UncertainTuple, close, criteria, definition, is_right
from skyband.uncertain.query import OWN_COLUMNS, UncertainTopK

__all__ = ["TUPLE", "answer_kinds", "by_moments", "group_kinds", "group_name", "judged"]

TUPLE = ("at", "id", "score", "probability", "rule", "stream")  # the columns of tuples
_NEVER_EMPTY = ("pk-topk", "global-topk", "u-kranks", "u-topk", "expected-rank")


class _Row(NamedTuple):
    """A row of an answer."""

    id: Any
    score: float
    probability: float
    expected_rank: float | None
    prf: float | None
    stream: Any


def group_name(place: int) -> str:
    """Return the name of a group column beside the columns `TUPLE`."""
    return f"group_{place}"


def answer_kinds(
    workload: Workload[Any],
    time: pa.DataType,
    id_: pa.DataType,
    stream: pa.DataType,
    groups: Mapping[str, pa.DataType],
) -> pa.Schema:
    """Return the columns of answers that are compared, with the types of time, id, stream and groups."""
    meanings = {query.semantics for query in workload}
    fields = [("query", pa.string()), ("time", time), ("rank", pa.int64()), ("id", id_), ("score", pa.float64())]
    fields.append(("probability", pa.float64()))
    fields += [(name, pa.float64()) for name, semantics in OWN_COLUMNS.items() if semantics in meanings]
    fields += [("stream", stream)] if any(query.stream for query in workload) else []
    return pa.schema([*fields, *groups.items()])


def tuples_of(rows: pa.Table, query: UncertainTopK, time: str, id_: str | None) -> pa.Table:
    """Return the columns `TUPLE` of a query's tuples, computed from all rows."""
    ids = pa.array(row_hash(rows)) if id_ is None else one(rows[id_])
    rows = rows.append_column("__skyband_id", ids)
    if query.where is not None:
        rows = rows.filter(pc.fill_null(compile_expression(query.where, rows.schema).evaluate(rows), False))

    def computed(text: str | None) -> Any:
        return pa.nulls(rows.num_rows) if text is None else compile_expression(text, rows.schema).evaluate(rows)

    score, chance = (computed(text).cast(pa.float64(), safe=False) for text in (query.by, query.probability))
    columns = (one(rows[time]).cast(pa.int64()), one(rows["__skyband_id"]), score, chance)
    named = dict(zip(TUPLE, (*columns, computed(query.rule), computed(query.stream)), strict=True))
    return pa.table(named | {group_name(place): computed(name) for place, name in enumerate(query.groups)})


def group_kinds(tables: Sequence[pa.Table], workload: Workload[Any]) -> dict[str, pa.DataType]:
    """Return the group columns of all queries with their types; `tables` have the tuples of each query."""
    return {
        name: table.schema.field(group_name(place)).type
        for table, query in zip(tables, workload, strict=True)
        for place, name in enumerate(query.groups)
    }


def by_moments(
    rows: pa.Table, workload: Workload[Any], *, time: str, id_: str | None, found: pa.Table | None
) -> tuple[pa.Table, pa.Schema]:
    """Return the kinds of answers if `found` is None, else the answers that are expected beside it."""
    used = rows.slice(0, 0) if found is None else rows  # kinds need no rows
    tables = [tuples_of(used, query, time, id_) for query in workload]
    streams = [table["stream"].type for table, query in zip(tables, workload, strict=True) if query.stream]
    at = rows.schema.field(time).type if workload.axis == "time" else pa.int64()
    groups = group_kinds(tables, workload)
    kinds = answer_kinds(workload, at, tables[0]["id"].type, streams[0] if streams else pa.null(), groups)
    return (kinds.empty_table() if found is None else judged(tables, workload, found)), kinds


def judged(tables: Sequence[pa.Table], workload: Workload[Any], found: pa.Table) -> pa.Table:
    """Return the expected answers beside `found`, which has the columns of `answer_kinds`.

    `tables` have the tuples of each query, in any order.
    """
    expected: list[dict[str, Any]] = []
    unknown: dict[str, Any] = dict.fromkeys(found.column_names)
    for table, query in zip(tables, workload, strict=True):
        order = found.filter(pc.equal(found["query"], query.name))
        order = order.sort_by([("time", "ascending"), ("rank", "ascending")])
        answers: dict[tuple[Any, ...], dict[int, list[_Row]]] = defaultdict(dict)
        times = one(order["time"]).cast(pa.int64()).to_pylist()
        names = [name for name in _Row._fields if name in order.column_names]
        owners = _groups_of([order[name] for name in query.groups], order.num_rows)
        for at, owner, values in zip(times, owners, order.select(names).to_pylist(), strict=True):
            answers[owner].setdefault(at, []).append(_Row(**{**dict.fromkeys(_Row._fields), **values}))
        by_group: dict[tuple[Any, ...], list[int]] = defaultdict(list)
        columns = [table[group_name(place)] for place in range(len(query.groups))]
        for row, owner in enumerate(_groups_of(columns, table.num_rows)):
            by_group[owner].append(row)
        for owner in [*by_group, *(other for other in answers if other not in by_group)]:
            inside = _in_order(table.take(pa.array(by_group.get(owner, []), pa.int64())), query)
            named = {"query": query.name, **dict(zip(query.groups, owner, strict=True))}
            for at, rows in _expected(inside, query, answers.get(owner, {})):
                expected += [{**unknown, **named, "time": at, "rank": rank, **row._asdict()} for rank, row in rows]
    kind = found.schema.field("time").type
    found_columns: dict[str, pa.Array] = {}
    for field in found.schema:
        values = [row[field.name] for row in expected]
        found_columns[field.name] = (
            pa.array(values, pa.int64()).cast(kind) if field.name == "time" else pa.array(values, field.type)
        )
    return pa.table(found_columns, schema=found.schema)


def _groups_of(columns: Sequence[pa.ChunkedArray], rows: int) -> list[tuple[Any, ...]]:
    """Return the group of each row; NaN is null."""
    if not columns:
        return [()] * rows
    values = [
        pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), pc.add(column, pa.scalar(0.0, column.type)))
        if pa.types.is_floating(column.type)
        else column
        for column in columns
    ]
    return list(zip(*(column.to_pylist() for column in values), strict=True))


def _in_order(table: pa.Table, query: UncertainTopK) -> list[UncertainTuple]:
    """Return the tuples with a time and a score in stream order: of equal scores, later ones are better."""
    score = pc.if_else(pc.is_nan(table["score"]), pa.scalar(None, pa.float64()), table["score"])
    table = table.filter(pc.and_(table["at"].is_valid(), score.is_valid()))
    keys = [(name, "ascending") for name in ("at", "id", "score", "probability")]
    table = table.take(pc.sort_indices(table, keys))
    found = [UncertainTuple(**row) for row in table.select(TUPLE).to_pylist()]
    if query.ascending:
        found = [one._replace(score=0.0 - one.score) for one in found]
    return found if query.axis == "time" else [one._replace(at=place) for place, one in enumerate(found)]


def _expected(
    tuples: list[UncertainTuple], query: UncertainTopK, answers: dict[int, list[_Row]]
) -> Iterator[tuple[int, list[tuple[int, _Row]]]]:
    """Yield the moments of one query with the expected rows and their ranks."""
    size, positions = query.window.size, np.array([one.at for one in tuples], np.int64)

    def window(at: int) -> list[UncertainTuple]:
        low, high = np.searchsorted(positions, [at - size, at])
        return tuples[low:high]

    for at in sorted([*answers, *_missed(positions, query, sorted(answers))]):
        inside, rows = window(at), answers.get(at, [])
        listed = criteria(inside, query)
        if not _are_right(inside, query, listed, rows):
            best = definition(inside, query, listed)
            scores = [0.0 - one.score if query.ascending else one.score for one in inside]
            rows = [_Row(inside[i].id, scores[i], *numbers) for i, *numbers in best]
        yield at, list(enumerate(rows, 1))


def _are_right(inside: Sequence[UncertainTuple], query: UncertainTopK, found: Criteria, rows: list[_Row]) -> bool:
    """Return whether the rows are an answer of this window, up to the tolerance."""
    sign = -1.0 if query.ascending else 1.0
    places = {(one.id, sign * one.score + 0.0): i for i, one in enumerate(inside)}
    chosen = [places[row.id, row.score] for row in rows if (row.id, row.score) in places]
    streams = [row.stream for row in rows]
    if not rows or len(chosen) < len(rows) or not is_right(inside, query, found, chosen, streams):
        return False
    wanted = [found.numbers(i, place, stream) for place, (i, stream) in enumerate(zip(chosen, streams, strict=True))]
    return all(
        _agree(mine, number, size)
        for row, (*numbers, _, size) in zip(rows, wanted, strict=True)
        for mine, number in zip((row.probability, row.expected_rank, row.prf), numbers, strict=True)
    )


def _agree(found: float | None, wanted: float | None, size: float) -> bool:
    return found is wanted if found is None or wanted is None else close(found, wanted, size)


def _missed(positions: Any, query: UncertainTopK, moments: list[int]) -> Iterator[int]:
    """Yield the latest times of answers that are missing: between two answers is at most `every`.

    A time is only missed if a tuple was in the window at all times since the answer before it.
    """
    if not positions.size or query.semantics not in _NEVER_EMPTY:
        return
    size, every, newest = query.window.size, query.window.slide, int(positions[-1])
    at = int(positions[0])
    if query.axis == "count":
        at, newest = 0, newest + 1
    for after in [*moments, None]:
        due = at + every
        low, high = np.searchsorted(positions, [due - size, at + (at == positions[0])])
        if low < high and (due < after if after is not None else due <= newest):
            yield due
        at = at if after is None else after
