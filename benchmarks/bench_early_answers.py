"""CPU time of provisional and corrected answers, relative to answers that are emitted once.

    python -m benchmarks early [--quick]

The variants process the same micro-batches in turn in one process, so that all are equally slowed down by other work
on the machine. The times are CPU times of local micro-batches: projection, reducer, shards and answers.
"""

from __future__ import annotations

import sys
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa

import skyband as sb
from skyband.local.micro_batches import MicroBatches
from skyband.local.pipeline import plan_for
from skyband.sharding.emission import Emission
from skyband.sharding.projection import ProjectionRequest

__all__ = ["main", "run"]

ROWS, BATCHES, ROUNDS = 1_000_000, 100, 3
DELAY = 10_000_000  # microseconds
VARIANTS = {
    "once": Emission(),
    "provisional": Emission(provisional=True),
    "allowed_lateness 5 minutes": Emission(lateness=300_000_000),
}
QUERIES = {
    "10 of 10 minutes, every minute": sb.TopK(k=10, size="10 minutes", slide="1 minute", by="price"),
    "100 of 1 hour, every minute": sb.TopK(k=100, size="1 hour", slide="1 minute", by="price"),
    "3 of 10 minutes, every minute, 500 groups": sb.TopK(
        k=3, size="10 minutes", slide="1 minute", by="price", partition_by="symbol"
    ),
}
TOTALS = {
    "10 totals of 500 keys, 10 minutes, every minute": sb.AggregateTopK(
        k=10, size="10 minutes", slide="1 minute", key="symbol", value="price"
    ),
    "10 totals of 50,000 keys, 1 hour, every minute": sb.AggregateTopK(
        k=10, size="1 hour", slide="1 minute", key="client", value="price"
    ),
    "3 maxima of 50,000 keys, 10 minutes, every minute, 500 groups": sb.AggregateTopK(
        k=3, size="10 minutes", slide="1 minute", key="client", value="price", aggregate="max", partition_by="symbol"
    ),
    "10 counts of 50,000 keys so far today, every minute": sb.AggregateTopK(
        k=10, size="1 day", slide="1 minute", cumulative=True, key="client", aggregate="count"
    ),
}


def main() -> None:
    """Print the CPU seconds of each variant, and the ratio to the first."""
    run(quick="--quick" in sys.argv)


def run(*, quick: bool = False) -> None:
    """Measure all queries; `quick`: with a tenth of the rows, in one round."""
    tables = _batches(ROWS // 10 if quick else ROWS)
    rounds = 1 if quick else ROUNDS
    for text, query in [*QUERIES.items(), *TOTALS.items()]:
        variants = {name: one for name, one in VARIANTS.items() if not one.lateness or query.family == "topk"}
        seconds = dict.fromkeys(variants, 0.0)
        rows = dict.fromkeys(variants, 0)
        for number in range(1 + rounds):
            for name, emission in variants.items():
                spent, rows[name] = _spent(query, emission, tables)
                seconds[name] += spent if number else 0.0  # the first round compiles
        for name in variants:
            share = seconds[name] / seconds["once"]
            sys.stdout.write(
                f"{text}; {name}: {seconds[name] / rounds:.2f} s CPU, {share:.2f} of once, {rows[name]:,} rows\n"
            )


def _batches(rows: int) -> list[pa.Table]:
    """Two hours of trades, each up to five seconds late, in micro-batches of 72 seconds."""
    random = np.random.default_rng(7)
    at = np.sort(random.integers(0, 7_200_000_000, rows))
    order = np.argsort(at + random.integers(0, 5_000_000, rows), kind="stable")
    table = pa.table(
        {
            "ts": pa.array(at[order] + 1_700_000_000_000_000).cast(pa.timestamp("us", "UTC")),
            "id": np.arange(rows),
            "symbol": random.integers(0, 500, rows),
            "client": random.integers(0, 50_000, rows),
            "price": random.normal(size=rows),
        }
    )
    size = rows // BATCHES
    return [table.slice(low, size).combine_chunks() for low in range(0, rows, size)]


def _spent(query: Any, emission: Emission, tables: list[pa.Table]) -> tuple[float, int]:
    """Return the CPU time of all micro-batches, and the number of answer rows."""
    request = ProjectionRequest(sb.Workload([query]), "ts", "id", may_be_late=True, delay=DELAY, emission=emission)
    engine = MicroBatches(plan_for(tables[0].schema, request, rank=pa.int32()), "ts", DELAY)
    began, rows = process_time(), 0
    for table in tables:
        rows += engine.step([table]).answers.num_rows
    return process_time() - began, rows


if __name__ == "__main__":
    main()
