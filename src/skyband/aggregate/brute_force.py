"""The answers of aggregate queries by their definition: every window is grouped by key, scored and sorted on its own.

This code shares no engine, reducer or shard with the pipeline. It shares the definition of a query and, without Spark,
the evaluation of expressions over Arrow.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.aggregate.query import AggregateTopK
from skyband.data.arrow import one
from skyband.errors import UnsupportedError
from skyband.expressions import compile_expression
from skyband.queries.workload import Workload

__all__ = ["by_definition", "defined_score"]


def _total(values: Sequence[float]) -> float:
    """Return the sum, rounded once; NaN if it contains both infinities."""
    infinite = {value for value in values if math.isinf(value)}
    if infinite:
        return infinite.pop() if len(infinite) == 1 else math.nan
    try:
        return math.fsum(values)
    except OverflowError:  # of a partial sum, or of the result
        exact = sum(map(Fraction, values), Fraction(0))
        try:
            return float(exact)
        except OverflowError:
            return math.inf if exact > 0 else -math.inf


def _deviation(values: Sequence[float]) -> float:
    """Return the sample standard deviation, from exact sums; NaN for one value."""
    number = len(values)
    if number < 2 or any(map(math.isinf, values)):
        return math.nan
    exact = [Fraction(value) for value in values]
    spread = number * sum(value * value for value in exact) - sum(exact) ** 2
    if not spread:
        return 0.0
    half = (spread.numerator.bit_length() - spread.denominator.bit_length()) // 2  # squares of large values overflow
    try:
        return math.ldexp(math.sqrt(float(spread / Fraction(4) ** half) / (number * (number - 1))), half)
    except OverflowError:
        return math.inf


_SCORES: dict[str, Callable[[Sequence[float]], float]] = {
    "sum": _total,
    "count": lambda values: float(len(values)),
    "max": lambda values: max(values) + 0.0,
    "min": lambda values: min(values) + 0.0,
    "avg": lambda values: _total(values) / len(values),
    "stddev": _deviation,
}


# The fields that the definition here uses. A query with other ones has other answers.
_DEFINED = frozenset(
    [
        "name",
        "k",
        "size",
        "slide",
        "key",
        "aggregate",
        "value",
        "where",
        "partition_by",
        "origin",
        "full_only",
        "order",
        "having",
    ]
)


def defined_score(query: AggregateTopK) -> Callable[[Sequence[float]], float]:
    """Return the function from the values of a key in a window to its score; NaN is not ranked.

    >>> import skyband as sb
    >>> defined_score(sb.AggregateTopK(k=1, size=10, aggregate="avg"))([1.0, 2.0])
    1.5
    """
    others = [item.name for item in fields(query) if item.init and item.name not in _DEFINED]
    given = [name for name in others if getattr(query, name) != getattr(type(query), name)]
    if not _SCORES.keys() >= set(query.aggregates) or given:
        what = given[0] if given else "aggregate" if query.aggregate not in _SCORES else "having"
        raise UnsupportedError(
            f"query {query.name!r} has {what}={getattr(query, what)!r}, which verify cannot compute by brute force. "
            f"Verify a file with the aggregates {', '.join(_SCORES)}."
        )
    return _SCORES[query.aggregate]


_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "<=": operator.le,
    "<": operator.lt,
    "=": operator.eq,
    "<>": lambda score, bound: not math.isnan(score) and score != bound,
}


def meets(query: AggregateTopK, values: Sequence[float]) -> bool:
    """Return whether the values of a key in a window meet the conditions of ``having=``; NaN meets none."""
    return all(
        _COMPARE[condition.operator](_SCORES[condition.aggregate](values), condition.bound)
        for condition in query.conditions
    )


def by_definition(rows: pa.Table, workload: Workload[Any], *, time: str, id_: str | None = None) -> pa.Table:
    """Return all answers: query, groups, window end, rank, key and score. Rows need no id."""
    names = list(dict.fromkeys(name for query in workload for name in query.groups))
    kinds = {name: compile_expression(name, rows.schema).type for name in names}
    return pa.concat_tables([_answers(rows, query, kinds, time) for query in workload])


def _answers(rows: pa.Table, query: AggregateTopK, kinds: dict[str, pa.DataType], time: str) -> pa.Table:
    if query.where is not None:
        rows = rows.filter(pc.fill_null(compile_expression(query.where, rows.schema).evaluate(rows), False))
    keys = _plain(compile_expression(str(query.key), rows.schema).evaluate(rows))
    values = pa.repeat(0.0, rows.num_rows)
    if query.value is not None:
        found = compile_expression(query.value, rows.schema).evaluate(rows)
        values = _plain(found.cast(pa.float64(), safe=False))
    valid = pc.and_(pc.and_(one(rows[time]).is_valid(), keys.is_valid()), values.is_valid())
    rows, keys, values = rows.filter(valid), keys.filter(valid), values.filter(valid)
    groups = {name: _plain(compile_expression(name, rows.schema).evaluate(rows)) for name in query.groups}
    at = one(rows[time]).cast(pa.int64()).to_numpy(zero_copy_only=False)
    order = np.argsort(at, kind="stable")
    places = pc.rank(keys, "ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    found_rows = [
        (int(row), end, rank, score)
        for inside, end in _windows(at[order], query)
        for row, rank, score in _ranked(order[inside], at, _codes(groups), places, values.to_numpy(), query)
    ]
    chosen = pa.array([row for row, *_ in found_rows], pa.int64())
    columns: dict[str, Any] = {"query": pa.repeat(query.name, len(found_rows))}
    for name, kind in kinds.items():
        columns[name] = groups[name].take(chosen) if name in groups else pa.nulls(len(found_rows), kind)
    ends = pa.array([end for _, end, *_ in found_rows], pa.int64())
    columns["window_end"] = ends.cast(rows.schema.field(time).type)
    columns["rank"] = pa.array([rank for *_, rank, _ in found_rows], pa.int64())
    columns["key"] = keys.take(chosen)
    columns["score"] = pa.array([score for *_, score in found_rows], pa.float64())
    return pa.table(columns)


def _plain(column: Any) -> Any:
    """Return a column without NaN, which is missing, and without -0.0."""
    if not pa.types.is_floating(column.type):
        return column
    return pc.add(pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column), pa.scalar(0.0, column.type))


def _codes(groups: dict[str, Any]) -> Any:
    """Return a number for the group of each row; None if all rows are of one group."""
    codes = None
    for group in groups.values():
        encoded = group.dictionary_encode(null_encoding="encode")
        mine = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        codes = (
            mine if codes is None else np.unique(codes * (len(encoded.dictionary) + 1) + mine, return_inverse=True)[1]
        )
    return codes


def _windows(at: Any, query: AggregateTopK) -> Iterator[tuple[slice, int]]:
    """Yield the range of sorted positions in each window that contains one, and the window's end."""
    size, slide, origin = query.window.size, query.window.slide, query.window.origin
    low = 0
    end = 0 if not at.size else origin + ((int(at[0]) - origin) // slide + 1) * slide
    while low < at.size:
        low, high = (int(place) for place in np.searchsorted(at, [end - size, end]))
        if low < high:
            if not query.full_only or end - size >= at[0]:
                yield slice(low, high), end
            end += slide
        elif low < at.size:
            end = origin + ((int(at[low]) - origin) // slide + 1) * slide  # the next window with a position


def _ranked(
    inside: Any, at: Any, codes: Any, places: Any, values: Any, query: AggregateTopK
) -> Iterator[tuple[int, int, float]]:
    """Yield a row of each of the best keys of a window, its rank in its group, and its score."""
    score = defined_score(query)
    by_key: dict[tuple[int, int], list[int]] = {}
    for row in inside.tolist():
        by_key.setdefault((0 if codes is None else int(codes[row]), int(places[row])), []).append(row)
    sign = -1.0 if query.ascending else 1.0
    by_group: dict[int, list[tuple[float, int, int, int]]] = {}
    for (group, key), mine in by_key.items():
        listed = values[mine].tolist()
        found = score(listed)
        if not math.isnan(found) and meets(query, listed):
            by_group.setdefault(group, []).append((sign * found, int(at[mine].max()), key, mine[0]))
    for keys in by_group.values():
        for rank, (found, _, _, row) in enumerate(sorted(keys, reverse=True)[: query.k], 1):
            yield row, rank, sign * found + 0.0
