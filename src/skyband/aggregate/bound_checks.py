"""Verification of queries with ``method="sketch"``: their answers are compared with bounds, not for equality.

Brute force gives the exact totals of all keys of a window. Answers that agree with them are what is expected; if one
row of a window does not, the exact answer is expected instead, so that the comparison shows both.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from skyband.aggregate.query import AggregateTopK

__all__ = ["agrees", "expected_rows", "with_bounds", "within_bounds"]

_ROUNDING = 1e-12  # of sums of totals


def with_bounds(table: pa.Table, queries: Iterable[AggregateTopK]) -> pa.Table:
    """Return exact answers with the columns of bounds, if a query has a sketch."""
    if any(query.sketched for query in queries):
        table = table.append_column("error", pa.repeat(0.0, table.num_rows))
        table = table.append_column("guaranteed", pa.repeat(True, table.num_rows))
    return table


def within_bounds(expected: pa.Table, found: pa.Table, queries: Iterable[AggregateTopK]) -> pa.Table:
    """Return the expected answers of all queries. `expected` has the exact totals of all keys of sketches."""
    sketches = {query.name: query for query in queries if query.sketched}
    if not sketches:
        return expected
    groups = expected.column_names[1 : expected.column_names.index("window_end")]
    keys = _keys(expected.column_names)
    exact, answers = (_by_window(table, sketches, ["query", *groups, "window_end"]) for table in (expected, found))
    rows = [row for row in expected.to_pylist() if row["query"] not in sketches]
    for window, totals in exact.items():
        rows += expected_rows(sketches[window[0]], totals, answers.get(window, []), keys)
    return pa.Table.from_pylist(rows, schema=expected.schema)


def expected_rows(
    query: AggregateTopK, totals: list[dict[str, Any]], answers: list[dict[str, Any]], keys: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the rows expected in a window: the answers if they agree with the totals of all keys, else the best."""
    return answers if agrees(query, totals, answers, keys) else [row for row in totals if row["rank"] <= query.k]


def agrees(
    query: AggregateTopK, totals: list[dict[str, Any]], answers: list[dict[str, Any]], keys: Sequence[str]
) -> bool:
    """Return whether all bounds of a window hold, and what is guaranteed is true.

    >>> import skyband as sb
    >>> query = sb.AggregateTopK(k=1, size=10, aggregate="count", method="sketch", counters=1)
    >>> exact = [{"rank": 1, "key": "a", "score": 4.0}, {"rank": 2, "key": "b", "score": 1.0}]
    >>> agrees(query, exact, [{"rank": 1, "key": "a", "score": 5.0, "error": 1.0, "guaranteed": True}], ["key"])
    True
    >>> agrees(query, exact, [{"rank": 1, "key": "a", "score": 3.0, "error": 0.0, "guaranteed": True}], ["key"])
    False
    """
    by_key = {tuple(row[name] for name in keys): row["score"] for row in totals}
    answers = sorted(answers, key=lambda row: row["rank"])
    named = [tuple(row[name] for name in keys) for row in answers]
    ascending, most = sorted(by_key.values()), math.fsum(by_key.values()) * query.largest_error * (1 + _ROUNDING)
    if [row["rank"] for row in answers] != list(range(1, min(query.k, len(by_key)) + 1)):
        return False
    if len(set(named)) < len(named) or not by_key.keys() >= set(named):
        return False
    for key, row in zip(named, answers, strict=True):
        # Totals are rounded to the nearest number, bounds away from the total.
        low, high = math.nextafter(by_key[key], -math.inf), math.nextafter(by_key[key], math.inf)
        if not (row["score"] - row["error"] <= high and low <= row["score"] and 0 <= row["error"] <= most + high - low):
            return False
        if row["guaranteed"] and len(ascending) - bisect_right(ascending, high) >= query.k:
            return False
    missing = max((total for key, total in by_key.items() if key not in set(named)), default=0.0)
    scores = [row["score"] for row in answers]
    return scores == sorted(scores, reverse=True) and missing <= math.nextafter(scores[-1], math.inf)


def _keys(names: Sequence[str]) -> list[str]:
    return list(names[names.index("rank") + 1 : names.index("score")])


def _by_window(
    table: pa.Table, sketches: dict[str, AggregateTopK], names: Sequence[str]
) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in _rows(table):
        if row["query"] in sketches:
            found.setdefault(tuple(row[name] for name in names), []).append(row)
    return found


def _rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    for batch in table.to_batches():
        yield from batch.to_pylist()
