"""Expressions on Arrow against the same computation written in numpy, and pandas' eval: rows a second.

python -m benchmarks expressions [--quick]
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from skyband.expressions import compile_expression

ROWS, ROUNDS = 4_000_000, 5


class Case(NamedTuple):
    """An expression, and the same by hand in numpy and in pandas."""

    text: str
    by_numpy: Callable[[dict[str, Any]], Any]
    by_pandas: Callable[[pd.DataFrame], Any]


CASES = [
    Case("price * size", lambda c: c["price"] * c["size"], lambda f: f.eval("price * size")),
    Case(
        "exchange <> 'D' AND price > 50",
        lambda c: (c["exchange"] != "D") & (c["price"] > 50),
        lambda f: f.eval("exchange != 'D' and price > 50"),
    ),
    Case(
        "CASE WHEN size > 500 THEN price * 2 WHEN exchange = 'N' THEN price ELSE 0D END",
        lambda c: np.where(c["size"] > 500, c["price"] * 2, np.where(c["exchange"] == "N", c["price"], 0.0)),
        lambda f: (f["price"] * 2).where(f["size"] > 500, f["price"].where(f["exchange"] == "N", 0.0)),
    ),
]


def trades(rows: int) -> pa.Table:
    rng = np.random.default_rng(1)
    names = pa.array(["D", "N", "Q", "P"])
    return pa.table(
        {
            "price": rng.uniform(1, 100, rows),
            "size": rng.integers(1, 1_000, rows),
            "exchange": names.take(pa.array(rng.integers(0, 4, rows))),
        }
    )


def seconds(work: Callable[[], Any], rounds: int) -> float:
    work()
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return statistics.median(found)


def run(quick: bool = False) -> None:
    rows = ROWS // 10 if quick else ROWS
    data = trades(rows)
    columns = {name: data.column(name).to_numpy() for name in data.column_names}
    frame = data.to_pandas()
    print(f"million rows a second, {rows:,} rows; in brackets: how many times as fast as expressions")
    for case in CASES:
        compiled = compile_expression(case.text, data.schema)
        assert np.array_equal(compiled.evaluate(data).to_numpy(zero_copy_only=False), case.by_numpy(columns))
        ours = seconds(lambda compiled=compiled: compiled.evaluate(data), ROUNDS)  # type: ignore[misc]
        numpy = seconds(lambda case=case: case.by_numpy(columns), ROUNDS)  # type: ignore[misc]
        pandas = seconds(lambda case=case: case.by_pandas(frame), ROUNDS)  # type: ignore[misc]
        print(f"  {case.text}")
        print(
            f"    expressions {rows / ours / 1e6:.0f}, numpy {rows / numpy / 1e6:.0f} ({ours / numpy:.2f}), "
            f"pandas {rows / pandas / 1e6:.0f} ({ours / pandas:.2f})"
        )
