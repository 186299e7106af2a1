"""The answers of queries over incomplete streams by their definition, tuple by tuple and window by window.

This code shares no engine, reducer or shard with the pipeline. It shares the definition of a query and, without Spark,
the evaluation of expressions over Arrow and the hash of a row that orders simultaneous tuples without an id.
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
from skyband.errors import UnsupportedError
from skyband.expressions import compile_expression
from skyband.incomplete.query import APPROXIMATE, MONOTONE, IncompleteTopK
from skyband.queries.workload import Workload

__all__ = ["TUPLE", "answers_of", "by_definition", "group_name", "refuse_undefined"]

TUPLE = ("at", "tie", "object", "stream", "value")  # the columns of tuples


class _Tuple(NamedTuple):
    position: int
    object: int  # larger numbers are larger objects
    stream: str
    value: float


def by_definition(rows: pa.Table, workload: Workload[Any], *, time: str, id_: str | None) -> pa.Table:
    """Return all answers: query, groups, time, rank, object and score."""
    names = dict.fromkeys(name for query in workload for name in query.groups)
    kinds = {name: compile_expression(name, rows.schema).type for name in names}
    bound = rows.schema.field(time).type
    return pa.concat_tables([answers_of(_tuples(rows, query, time, id_), query, bound, kinds) for query in workload])


def group_name(place: int) -> str:
    """Return the name of a group column beside the columns `TUPLE`."""
    return f"group_{place}"


def refuse_undefined(query: IncompleteTopK) -> None:
    """Raise if the answers of a query have no definition to compare with."""
    if query.method in APPROXIMATE:
        raise UnsupportedError(
            f"query {query.name!r} has method={query.method!r}, whose answers may miss objects, so they differ from "
            "brute force. Verify it with method='exact', or measure it with skyband.incomplete.precision."
        )
    if query.aggregate not in MONOTONE:
        raise UnsupportedError(
            f"query {query.name!r} has the expression aggregate={query.aggregate!r}, which verify cannot compute by "
            f"brute force. Verify a file with the aggregates {', '.join(MONOTONE)}."
        )


def _tuples(rows: pa.Table, query: IncompleteTopK, time: str, id_: str | None) -> pa.Table:
    """Return the columns of a query's tuples, computed from all rows."""
    if query.where is not None:
        rows = rows.filter(pc.fill_null(compile_expression(query.where, rows.schema).evaluate(rows), False))
    columns = {
        "at": one(rows[time]).cast(pa.int64()),
        "tie": pa.array(row_hash(rows)) if id_ is None else one(rows[id_]),
        "object": compile_expression(str(query.object), rows.schema).evaluate(rows),
        "stream": compile_expression(str(query.stream), rows.schema).evaluate(rows).cast(pa.string()),
        "value": compile_expression(str(query.value), rows.schema).evaluate(rows).cast(pa.float64(), safe=False),
    }
    for place, name in enumerate(query.groups):
        columns[group_name(place)] = compile_expression(name, rows.schema).evaluate(rows)
    return pa.table(columns)


def answers_of(
    tuples: pa.Table, query: IncompleteTopK, bound: pa.DataType, groups: Mapping[str, pa.DataType]
) -> pa.Table:
    """Return the answers of one query from the columns `TUPLE` and its groups; times have the type `bound`.

    `groups` are the group columns of all queries, with their types.
    """
    refuse_undefined(query)
    mine = {name: one(tuples[group_name(place)]) for place, name in enumerate(query.groups)}
    mine = {
        name: pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), pc.add(column, pa.scalar(0.0, column.type)))
        if pa.types.is_floating(column.type)
        else column
        for name, column in mine.items()
    }
    by_group: dict[Any, list[int]] = defaultdict(list)
    for row, group in enumerate(zip(*(column.to_pylist() for column in mine.values()), strict=True)):
        by_group[group].append(row)
    parts = [pa.array(rows, pa.int64()) for rows in by_group.values()] if mine else [pa.array(range(tuples.num_rows))]
    tables = [_empty(tuples, bound if query.axis == "time" else pa.int64(), groups)]
    for rows in parts:
        found = _alone(tuples.take(rows), query, bound)
        for name, kind in groups.items():
            value = pa.scalar(None, kind) if name not in mine else mine[name].take(rows[:1])[0]
            found = found.append_column(name, pa.repeat(value, found.num_rows).cast(kind))
        tables.append(found)
    return pa.concat_tables(tables)


def _empty(tuples: pa.Table, time: pa.DataType, groups: Mapping[str, pa.DataType]) -> pa.Table:
    kinds = {"query": pa.string(), "time": time, "rank": pa.int64(), "object": tuples.schema.field("object").type}
    return pa.schema(list({**kinds, "score": pa.float64(), **groups}.items())).empty_table()


def _alone(tuples: pa.Table, query: IncompleteTopK, bound: pa.DataType) -> pa.Table:
    """Return the answers of a query over the tuples of one group, in any order."""
    columns = {name: one(tuples[name]) for name in TUPLE}
    columns["value"] = pc.if_else(pc.is_nan(columns["value"]), pa.scalar(None, pa.float64()), columns["value"])
    table = pa.table(columns)
    for name in ("at", "object", "stream", "value"):
        table = table.filter(pc.is_valid(table[name]))
    table = table.take(pc.sort_indices(table, [("at", "ascending"), ("tie", "ascending")]))
    objects = one(table["object"])
    places = pc.rank(objects, "ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    samples = dict(zip(places.tolist(), range(table.num_rows), strict=True))
    listed = (table["at"].to_pylist(), places.tolist(), table["stream"].to_pylist(), table["value"].to_pylist())
    found = list(_answers(query, list(map(_Tuple, *listed))))
    times = pa.array([end for end, *_ in found], pa.int64())
    return pa.table(
        {
            "query": pa.repeat(query.name, len(found)),
            "time": times.cast(bound) if query.axis == "time" else times,
            "rank": pa.array([rank for _, rank, *_ in found], pa.int64()),
            "object": objects.take(pa.array([samples[place] for _, _, place, _ in found], pa.int64())),
            "score": pa.array([score for *_, score in found], pa.float64()),
        }
    )


def _answers(query: IncompleteTopK, tuples: Sequence[_Tuple]) -> Iterator[tuple[int, int, int, float]]:
    """Yield the rows of all answers: time, rank, object and score."""
    kept = _counted(query, tuples)
    if not kept:
        return
    sign = -1.0 if query.ascending else 1.0
    end = query.window.first_end_after(kept[0].position)
    while (start := query.window.start(end)) <= kept[-1].position and (query.axis == "time" or end <= len(kept)):
        by_object = defaultdict(list)
        for one_of in kept:
            if start <= one_of.position < end:
                by_object[one_of.object].append(one_of)
        ranked = sorted(
            ((sign * _score(query, mine), mine[-1].position, place) for place, mine in by_object.items()), reverse=True
        )
        scores = [score for score, *_ in ranked]
        for place_in, (score, _, place) in enumerate(ranked):
            rank = place_in + 1 if query.ties == "row_number" else scores.index(score) + 1
            if rank <= query.k:
                yield end, rank, place, sign * score
        end = query.window.first_end_after(end)


def _counted(query: IncompleteTopK, tuples: Sequence[_Tuple]) -> list[_Tuple]:
    """Return the tuples that count; in a window, a stream reports an object at most `occurrences` times."""
    kept: list[_Tuple] = []
    reported: dict[tuple[int, str], list[int]] = defaultdict(list)
    for given in tuples:
        at = len(kept) if query.axis == "count" else given.position
        start = query.window.start(query.window.first_end_after(at))
        before = reported[given.object, given.stream]
        if sum(position >= start for position in before) < query.limit:
            before.append(at)
            kept.append(given._replace(position=at))
    return kept


def _score(query: IncompleteTopK, mine: Sequence[_Tuple]) -> float:
    """Return the aggregate of an object's tuples, which are in the order of arrival."""
    by_stream = []
    for stream in query.streams or ():
        found = [one_of.value for one_of in mine if one_of.stream == str(stream)]
        total = found[0] if found else query.bounds_of(stream)[1 if query.ascending else 0]
        for value in found[1:]:
            total += value
        by_stream.append(total)
    if query.aggregate in ("min", "max"):
        return min(by_stream) if query.aggregate == "min" else max(by_stream)
    total = 0.0
    for stream, value in zip(query.streams or (), by_stream, strict=True):
        total += query.weight_of(stream) * value
    return total / len(by_stream) if query.aggregate == "avg" else total
