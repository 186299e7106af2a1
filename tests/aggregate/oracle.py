"""Aggregate answers by definition: plain Python, every window looked through on its own, nothing of the engine."""

from __future__ import annotations

import math
import operator
from fractions import Fraction
from typing import Any, NamedTuple


class Row(NamedTuple):
    position: int | None  # None on a count axis too
    key: Any
    value: float | None
    group: Any = None
    id: Any = None  # None: the row number


def answers(queries, rows: list[Row], *, valued=True, grouped=False):
    """The rows of the answer table as tuples: query, group, start, end, rank, key, id if a query wants it, score."""
    found = []
    rows = [row if row.id is not None else row._replace(id=number) for number, row in enumerate(rows)]
    with_rows = any(query.row for query in queries)
    by_group = [bool(query.partition_by) for query in queries]
    if grouped and not any(by_group):
        by_group = [True] * len(queries)
    count = queries[0].axis == "count"
    objects = [row for row in rows if is_object(row, count, valued)]
    for place, query in enumerate(queries):
        streams: dict[Any, list[Row]] = {}
        for row in objects:
            streams.setdefault(row.group if by_group[place] else None, []).append(row)
        first = 0 if count or not objects else objects[0].position
        for group, mine in streams.items():
            stream = [row._replace(position=number) for number, row in enumerate(mine)] if count else mine
            for end, ranked in windows(query, stream, first, count):
                for rank, (score, _, key, name) in enumerate(ranked, 1):
                    order = (group is None, group if group is not None else "")
                    described = (key, name if query.row else None, score) if with_rows else (key, score)
                    answer = (query.name, group, end - query.window.size, end, rank, *described)
                    found.append(((end, place, order, rank), answer))
    return [row for _, row in sorted(found, key=lambda item: item[0])]


def is_object(row: Row, count: bool, valued: bool) -> bool:
    if row.key is None or row.key != row.key or (row.position is None and not count):
        return False
    return not valued or (row.value is not None and not math.isnan(row.value))


def windows(query, stream: list[Row], first: int, count: bool):
    size, slide, origin = query.window.size, query.window.slide, query.window.origin
    ends = set()
    for row in stream:
        end = origin + ((row.position - origin) // slide + 1) * slide
        while end <= row.position + size:
            ends.add(end)
            end += slide
    for end in sorted(ends):
        if count and end > len(stream):
            continue
        if query.full_only and end - size < first:
            continue
        inside: dict[Any, list[Row]] = {}
        for row in stream:
            if end - size <= row.position < end:
                inside.setdefault(row.key, []).append(row)
        scored = [
            (score(query.aggregate, mine), mine[-1].position, key, row_of(query.aggregate, mine).id)
            for key, mine in inside.items()
            if meets(query, mine)
        ]
        sign = -1 if query.order == "asc" else 1
        scored = [(sign * value, *rest) for value, *rest in scored if not math.isnan(value)]
        ranked = sorted(scored, reverse=True)[: query.k]
        if ranked:
            yield end, [(sign * value, *rest) for value, *rest in ranked]


def row_of(aggregate: str, rows: list[Row]) -> Row:
    """The row of a key that has its score; some row if the score is not that of a row."""
    if aggregate == "first":
        return min(rows, key=lambda row: (row.position, row.id))
    sign = {"max": 1, "min": -1}.get(aggregate, 0)
    return max(rows, key=lambda row: (sign * row.value if sign else 0, row.position, row.id))


COMPARED = {
    ">=": operator.ge,
    "<=": operator.le,
    "<>": lambda a, b: a < b or a > b,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
}


def meets(query, rows: list[Row]) -> bool:
    """Whether the rows of a key meet all conditions of `having`."""
    for term in query.having.split(" and ") if query.having else ():
        what, compared, bound = term.split(" ")
        aggregate = query.aggregate if what == "score" else what.partition("(")[0]
        if not COMPARED[compared](score(aggregate, rows), float(bound)):
            return False
    return True


def score(aggregate: str, rows: list[Row]) -> float:
    if aggregate == "count":
        return float(len(rows))
    values = [row.value for row in rows]
    if aggregate in ("latest", "first"):
        return float(row_of(aggregate, rows).value) + 0.0
    if aggregate in ("max", "min"):
        return float({"max": max, "min": min}[aggregate](values)) + 0.0
    if aggregate == "stddev":
        return deviation(values)
    infinite = {value for value in values if math.isinf(value)}
    total = (infinite.pop() if len(infinite) == 1 else math.nan) if infinite else math.fsum(values)
    return total / len(rows) if aggregate == "avg" else total


def deviation(values: list[float]) -> float:
    """The sample standard deviation: nothing is rounded before the sum of squares around the mean is known."""
    number = len(values)
    if number < 2 or any(math.isinf(value) for value in values):
        return math.nan
    exact = [Fraction(value) for value in values]
    spread = number * sum(value * value for value in exact) - sum(exact) ** 2
    if not spread:
        return 0.0
    half = (spread.numerator.bit_length() - spread.denominator.bit_length()) // 2  # doubles hold no square of 1e200
    try:
        return math.ldexp(math.sqrt(float(spread / Fraction(4) ** half) / (number * (number - 1))), half)
    except OverflowError:
        return math.inf


def listed(table):
    """An answer table as the same tuples."""
    columns = [table[name].to_pylist() for name in table.column_names]
    rows = list(zip(*columns, strict=True))
    return rows if "group" in table.column_names else [(row[0], None, *row[1:]) for row in rows]
