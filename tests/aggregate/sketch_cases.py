"""Random streams for queries with ``method="sketch"``, and the check of their answers against exact totals."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

import skyband as sb
from tests.aggregate import oracle
from tests.aggregate.cases import KEYS, Case
from tests.aggregate.oracle import Row

WEIGHTS = {
    "whole": [0.0, 1.0, 2.0, 5.0, 40.0],
    "fractions": [0.1, 0.2, 0.3, 1e-9, 7.7],
    "hard": [1e16, 1e-300, 1.0, 5e-324, 2.0**53, 1e200, 0.1],
}


def draw(random: Random, *, most: int = 80, axis: str | None = None) -> Case:
    count = random.random() < 0.4 if axis is None else axis == "count"
    grouped, valued = random.random() < 0.4, random.random() < 0.7
    queries = [draw_query(random, f"q{place}", count, grouped, valued) for place in range(random.randint(1, 3))]
    name = random.choice(list(KEYS))
    keys, kind = KEYS[name]
    if name == "int":
        keys = random.choice([keys, range(40)])
    values = WEIGHTS[random.choice(list(WEIGHTS))]
    position, rows = random.randint(-50, 50), []
    for _ in range(random.randint(0, most)):
        position += random.choice([0, 0, 0, 1, 1, 2, 30 if random.random() < 0.1 else 1])
        key = None if random.random() < 0.05 else random.choice(keys)
        value = None if random.random() < 0.05 else random.choice(values)
        rows.append(Row(None if count else position, key, value, random.choice(["x", "y", None]) if grouped else None))
    return Case(queries, rows, kind, valued, grouped, False)


def draw_query(random: Random, name: str, count: bool, grouped: bool, valued: bool) -> Any:
    size, k = random.randint(1, 30), random.choice([1, 2, 3])
    unit = (lambda ticks: ticks) if count else (lambda ticks: f"{ticks} microseconds")
    return sb.AggregateTopK(
        name=name,
        k=k,
        size=unit(size),
        slide=unit(random.randint(1, size)),
        aggregate=random.choice(["sum", "count"]) if valued else "count",
        method="sketch",
        counters=random.choice([k, k + 1, 5, 50]),
        full_only=random.random() < 0.3,
        partition_by=["g"] if grouped and random.random() < 0.5 else (),
    )


def check(case: Case, found: Any, listed_windows: Any = None) -> None:
    """Check the answers of a case: the keys in every window, the bounds, and what is guaranteed."""
    assert isinstance(found, list)
    by_window = defaultdict(list)
    for row in found:
        by_window[row["query"], row.get("group"), row["window_end"]].append(row)
    seen = 0
    for query, totals in exact_totals(case, listed_windows):
        for window, sums in totals.items():
            seen += 1
            check_window(query, by_window[query.name, *window], sums)
    assert seen == len(by_window)


def exact_totals(case: Case, listed_windows: Any = None) -> Any:
    """Yield, for each query, the exact totals of all keys of its windows."""
    every = [replace(query, k=10**6, method="exact", counters=None, error=None) for query in case.queries]
    totals: Any = {query.name: defaultdict(dict) for query in case.queries}
    exact = oracle.answers(every, case.rows, valued=case.valued, grouped=case.grouped, listed_windows=listed_windows)
    for name, group, _, end, _, key, score in exact:
        totals[name][group, end][key] = Fraction(score)
    for query in case.queries:
        yield query, totals[query.name]


def check_window(query: Any, rows: list[dict[str, Any]], totals: dict[Any, Fraction]) -> None:
    """Check the rows of one window. `totals` are exact up to one rounding."""
    weight = sum(totals.values())
    slack = weight / 2**50  # of the totals here and of bounds, which are rounded away from the total
    assert [row["rank"] for row in rows] == list(range(1, len(rows) + 1))
    assert len({row["key"] for row in rows}) == len(rows) == min(query.k, len(totals))
    assert [row["score"] for row in rows] == sorted((row["score"] for row in rows), reverse=True)
    whole = all(total.denominator == 1 and total < 2**53 for total in totals.values())
    ascending = sorted(totals.values())
    for row in rows:
        total, score, error = totals[row["key"]], Fraction(row["score"]), Fraction(row["error"])
        mine = 0 if whole else total / 2**52
        assert score - error - mine <= total <= score + mine, (row, float(total))
        assert error <= weight * Fraction(1, query.most_counters + 1) + (0 if whole else slack), (row, float(weight))
        if row["guaranteed"]:
            assert len(ascending) - bisect_right(ascending, total + mine) < query.k, row
    shown = {row["key"] for row in rows}
    missing = max((total for key, total in totals.items() if key not in shown), default=0)
    assert missing <= Fraction(rows[-1]["score"]) * (1 if whole else 1 + Fraction(1, 2**50))
