"""Random aggregate queries and streams: many ties, equal times, gaps, odd slides, all kinds of keys and values."""

from __future__ import annotations

import math
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa

import skyband as sb
from skyband.aggregate import Monitor
from tests.aggregate.oracle import Row

KEYS = {
    "int": ([1, 2, 3, -5], pa.int64()),
    "text": (["a", "b", "abcdefghi", "abcdefghj", "abcdefgh", "é", ""], pa.string()),
    "float": ([0.0, -0.0, 1.5, -2.5], pa.float64()),
}
PLAIN = [1.0, 2.0, 0.1, 0.2, 0.3, -1.0, 0.0, -0.0]
HARD = [1e16, -1e16, 1e-300, 1e300, -1e300, 5e-324, 2.0**53, 2.0**-60]
INFINITE = [math.inf, -math.inf, math.nan]

TOTALS = ["sum", "count"]
ROWS = ["max", "min", "latest", "first"]
AGGREGATES = ["sum", "count", "avg", "stddev", "stddev_pop", *ROWS]
OF_VALUES = ["count_distinct", "approx_count_distinct", "median", "quantile"]
COUNTED = ["count(*) >= 2", "count(*) < 3", "count(*) > 1 and score <> 3"]
HAVING = [*COUNTED, "score > 0", "score <= 1", "max(value) = 0.3", "stddev(value) >= 0.1"]
HAVING += ["avg(value) > -1 and min(value) < 1", "latest(value) > 0"]
HAVING_OF_VALUES = [*COUNTED, "count_distinct(value) > 1", "median(value) <= 0.2 and score > 0"]


class Case(NamedTuple):
    queries: list[Any]
    rows: list[Row]
    key_kind: pa.DataType
    valued: bool
    grouped: bool
    identified: bool  # whether rows have ids, not row numbers

    @property
    def count(self) -> bool:
        return self.queries[0].axis == "count"

    def columns(self, low: int, high: int) -> dict[str, Any]:
        """The arguments of a push of these rows."""
        part = self.rows[low:high]
        return {
            "positions": None if self.count else pa.array([row.position for row in part], pa.int64()),
            "keys": pa.array([row.key for row in part], self.key_kind),
            "values": pa.array([row.value for row in part], pa.float64()) if self.valued else None,
            "ids": pa.array([row.id for row in part], pa.int64()) if self.identified else None,
            "groups": pa.array([row.group for row in part], pa.string()) if self.grouped else None,
        }


def draw(
    random: Random,
    *,
    most: int = 60,
    axis: str | None = None,
    grouped: bool | None = None,
    identified: bool | None = None,
) -> Case:
    count = random.random() < 0.4 if axis is None else axis == "count"
    grouped = random.random() < 0.4 if grouped is None else grouped
    valued = random.random() < 0.85
    queries = [draw_query(random, f"q{place}", count, grouped, valued) for place in range(random.randint(1, 5))]
    keys, kind = KEYS[random.choice(list(KEYS))]
    values = PLAIN + (HARD if random.random() < 0.5 else []) + (INFINITE if random.random() < 0.3 else [])
    position, rows = random.randint(-50, 50), []
    for _ in range(random.randint(0, most)):
        position += random.choice([0, 0, 0, 1, 1, 2, 5, 40 if random.random() < 0.1 else 1])
        rows.append(
            Row(
                None if count or random.random() < 0.03 else position,
                None if random.random() < 0.05 else random.choice(keys),
                None if random.random() < 0.05 else random.choice(values),
                random.choice(["x", "y", None]) if grouped else None,
            )
        )
    identified = random.random() < 0.5 if identified is None else identified
    if identified:  # in an order of their own, so that the last row at a time is not that with the largest id
        ids = random.sample(range(-100, 1000), len(rows))
        rows = [row._replace(id=one) for row, one in zip(rows, ids, strict=True)]
    return Case(queries, rows, kind, valued, grouped, identified)


def draw_query(random: Random, name: str, count: bool, grouped: bool, valued: bool) -> Any:
    aggregate = random.choice(AGGREGATES) if valued else "count"
    if valued and random.random() < 0.3:
        aggregate = random.choice(OF_VALUES)
    having = HAVING_OF_VALUES if aggregate in OF_VALUES else HAVING if valued else COUNTED
    if aggregate == "approx_count_distinct":
        having = COUNTED
    size = random.randint(1, 30)
    slide = random.randint(1, size)
    unit = (lambda ticks: ticks) if count else (lambda ticks: f"{ticks} microseconds")
    return sb.AggregateTopK(
        name=name,
        k=random.choice([1, 2, 3, 100]),
        size=unit(size),
        slide=unit(slide),
        aggregate=aggregate,
        quantile=random.choice([0, 0.1, 1 / 3, 0.9, 1]) if aggregate == "quantile" else None,
        row=aggregate in ROWS and random.random() < 0.4,
        order=random.choice(["desc", "asc"]),
        others=aggregate in TOTALS and random.random() < 0.4,
        share=aggregate in TOTALS and random.random() < 0.4,
        having=random.choice([None, None, *having]),
        origin=random.choice([None, 0, 3, -7]),
        full_only=random.random() < 0.3,
        partition_by=["g"] if grouped and random.random() < 0.5 else (),
        ties="rank" if random.random() < 0.3 else "row_number",
    )


def in_pieces(case, random):
    """The answers to a case that a monitor gives piece by piece, as tables; it is stored and resumed in between."""
    cuts = sorted(random.randint(0, len(case.rows)) for _ in range(random.randint(1, 6)))
    monitor, found = Monitor(case.queries), []
    for low, high in zip([0, *cuts], [*cuts, len(case.rows)], strict=True):
        monitor.push(**case.columns(low, high))
        if random.random() < 0.7:
            monitor = Monitor.resume(monitor.snapshot())
        if random.random() < 0.5:
            found.append(monitor.answers())
    monitor.finish()
    return [*found, Monitor.resume(monitor.snapshot()).answers()]
