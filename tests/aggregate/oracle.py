"""Aggregate answers by definition: plain Python, every window looked through on its own, nothing of the engine."""

from __future__ import annotations

import math
import operator
from fractions import Fraction
from typing import Any, NamedTuple

import pyarrow as pa

from skyband.data.row_hash import row_hash


class Row(NamedTuple):
    position: int | None  # None on a count axis too
    key: Any
    value: float | None
    group: Any = None
    id: Any = None  # None: the row number
    delete: bool = False  # whether the row deletes its key


def answers(queries, rows: list[Row], *, valued=True, grouped=False, listed_windows=None):
    """The rows of the answer table as tuples: query, group, start, end, rank, key, id if a query wants it, score.

    `listed_windows` has all windows of some queries, which are not sliding, by their names.
    """
    found = []
    rows = [row if row.id is not None else row._replace(id=number) for number, row in enumerate(rows)]
    with_rows = any(query.row for query in queries)
    with_shares = any(query.share for query in queries)
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
            spans = (listed_windows or {}).get(query.name)
            if spans is None and query.gap is not None:
                spans = sessions(query.window.gap, query.window.max_length, stream)
            spans = sliding(query.window, stream) if spans is None else spans
            for start, end, ranked in windows(query, stream, spans, first, count):
                for place_in, (rank, (score, _, key, name, share)) in enumerate(ranked):
                    order = (group is None, group if group is not None else "")
                    described = (key, name if query.row else None, score) if with_rows else (key, score)
                    described += (share if query.share else None,) if with_shares else ()
                    answer = (query.name, group, start, end, rank, *described)
                    found.append(((end, place, order, place_in), answer))
    return [row for _, row in sorted(found, key=lambda item: item[0])]


def is_object(row: Row, count: bool, valued: bool) -> bool:
    if row.key is None or row.key != row.key or (row.position is None and not count):
        return False
    return not valued or row.delete or (row.value is not None and not math.isnan(row.value))


def sliding(window, stream: list[Row]) -> list[tuple[int, int]]:
    size, slide, origin = window.size, window.slide, window.origin
    ends = set()
    for row in stream:
        end = origin + ((row.position - origin) // slide + 1) * slide
        while end <= row.position + size:
            ends.add(end)
            end += slide
    return [(end - size, end) for end in sorted(ends)]


def sessions(gap: int, most: int | None, stream: list[Row], certain: float = -math.inf) -> list[tuple[int, int]]:
    """Rows that follow each other within less than `gap`, for less than `most` after the first.

    A session with its first row before `certain` may have begun earlier: it is not cut, and not returned.
    """
    found: list[list[int]] = []
    for at in sorted(row.position for row in stream):
        if not found or at >= found[-1][1]:
            found.append([at, at])
        start = found[-1][0]
        found[-1][1] = at + gap if most is None or start < certain else min(at + gap, start + most)
    return [(start, end) for start, end in found if start >= certain]


def windows(query, stream: list[Row], spans: list[tuple[int, int]], first: int, count: bool):
    for start, end in spans:
        if count and end > len(stream):
            continue
        if query.full_only and start < first:
            continue
        inside: dict[Any, list[Row]] = {}
        for row in stream:
            if start <= row.position < end:
                inside.setdefault(row.key, []).append(row)
        scored = [
            (score(spelled(query), mine), mine[-1].position, key, row_of(query.aggregate, mine).id)
            for key, mine in inside.items()
            if meets(query, mine)
        ]
        sign = -1 if query.order == "asc" else 1
        scored = [(sign * value, *rest) for value, *rest in scored if not math.isnan(value)]
        ranked = sorted(scored, reverse=True)
        if query.ties == "rank":
            ranked = [row for row in ranked if better_than(row[0], ranked) < query.k]
        else:
            ranked = ranked[: query.k]
        if ranked:
            ranks = list(range(1, len(ranked) + 1))
            if query.ties == "rank":
                ranks = [1 + better_than(row[0], ranked) for row in ranked]
            best = [(sign * value, *rest) for value, *rest in ranked]
            all_rows = [row for mine in inside.values() for row in mine]
            total = score(query.aggregate, all_rows) if query.others or query.share else 0.0
            named = {key for _, _, key, _ in best}
            others = [row for row in all_rows if row.key not in named]
            if query.others and others:
                best.append((score(query.aggregate, others), None, None, None))
                ranks.append(len(best))
            rows = [(comparable(row[0]), *row[1:], share_of(row[0], total)) for row in best]
            yield start, end, list(zip(ranks, rows, strict=True))


def better_than(value: float, rows: list) -> int:
    """The number of keys with a higher score."""
    return sum(row[0] > value for row in rows)


def comparable(value: Any) -> Any:
    """NaN, the sum of other keys with both infinities, is not equal to itself."""
    return "nan" if isinstance(value, float) and math.isnan(value) else value


def share_of(part: float, total: float) -> float | None:
    return None if not total or not math.isfinite(total) or math.isnan(part) else part / total


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
        aggregate = spelled(query) if what == "score" else what.partition("(")[0]
        if not COMPARED[compared](score(aggregate, rows), float(bound)):
            return False
    return True


def spelled(query) -> str:
    return query.aggregate if query.quantile is None else f"quantile {query.quantile!r}"


def score(aggregate: str, rows: list[Row]) -> float:
    if aggregate == "count":
        return float(len(rows))
    values = [row.value for row in rows]
    if aggregate.startswith(("count_distinct", "approx", "median", "quantile")):
        return of_values(aggregate, values)
    if aggregate in ("latest", "first"):
        row = row_of(aggregate, rows)
        return math.nan if row.delete else float(row.value) + 0.0
    if aggregate in ("max", "min"):
        return float({"max": max, "min": min}[aggregate](values)) + 0.0
    if aggregate in ("stddev", "stddev_pop"):
        return deviation(values, lost=1 if aggregate == "stddev" else 0)
    infinite = {value for value in values if math.isinf(value)}
    total = (infinite.pop() if len(infinite) == 1 else math.nan) if infinite else math.fsum(values)
    return total / len(rows) if aggregate == "avg" else total


def of_values(aggregate: str, values: list[float]) -> float:
    if aggregate == "count_distinct":
        return float(len(set(values)))
    if aggregate == "approx_count_distinct":
        return estimate(values)
    return quantile(sorted(values), 0.5 if aggregate == "median" else float(aggregate.split(" ")[1]))


def quantile(values: list[float], fraction: float) -> float:
    """Linear interpolation between the neighbours of place ``fraction * (n - 1)``, as Spark's `percentile`."""
    place = fraction * (len(values) - 1)
    lower, upper = math.floor(place), math.ceil(place)
    if lower == upper or values[lower] == values[upper]:
        return values[lower] + 0.0
    return (upper - place) * values[lower] + (place - lower) * values[upper]


def estimate(values: list[float]) -> float:
    """HyperLogLog with 1024 registers and Ertl's estimator, from Spark's `xxhash64` of each value."""
    registers = [0] * 1024
    for number in row_hash(pa.table({"value": pa.array([value + 0.0 for value in values], pa.float64())})).tolist():
        bits = f"{number % 2**64:064b}"
        rest = bits[10:] + "1"
        registers[int(bits[:10], 2)] = max(registers[int(bits[:10], 2)], rest.index("1") + 1)
    total = 1024 * tau(1 - registers.count(55) / 1024)
    for rank in range(54, 0, -1):
        total = (total + registers.count(rank)) / 2
    total += 1024 * sigma(registers.count(0) / 1024)
    return float(round(1024**2 / (2 * math.log(2) * total)))


def sigma(share: float) -> float:
    return share + sum(share ** (2**i) * 2.0 ** (i - 1) for i in range(1, 60))


def tau(share: float) -> float:
    if share in (0.0, 1.0):
        return 0.0
    return (1 - share - sum((1 - share ** (2.0**-i)) ** 2 * 2.0**-i for i in range(1, 60))) / 3


def deviation(values: list[float], lost: int) -> float:
    """The standard deviation of a sample or, with nothing lost, of a population.

    Nothing is rounded before the sum of squares around the mean is known.
    """
    number = len(values)
    if number <= lost or any(math.isinf(value) for value in values):
        return math.nan
    exact = [Fraction(value) for value in values]
    spread = number * sum(value * value for value in exact) - sum(exact) ** 2
    if not spread:
        return 0.0
    half = (spread.numerator.bit_length() - spread.denominator.bit_length()) // 2  # doubles hold no square of 1e200
    try:
        return math.ldexp(math.sqrt(float(spread / Fraction(4) ** half) / (number * (number - lost))), half)
    except OverflowError:
        return math.inf


def listed(table):
    """An answer table as the same tuples."""
    columns = [[comparable(value) for value in table[name].to_pylist()] for name in table.column_names]
    rows = list(zip(*columns, strict=True))
    return rows if "group" in table.column_names else [(row[0], None, *row[1:]) for row in rows]
