"""CPU time of provisional and corrected answers, relative to answers that are emitted once.

    python -m benchmarks.bench_early_answers

The variants process the same micro-batches in turn in one process, so that all are equally slowed down by other work
on the machine. The times are CPU times of local micro-batches: projection, reducer, shards and answers.
"""

from __future__ import annotations

import sys
from time import process_time

import numpy as np
import pyarrow as pa

import skyband as sb
from skyband.local.micro_batches import MicroBatches
from skyband.local.pipeline import plan_for
from skyband.sharding.emission import Emission
from skyband.sharding.projection import ProjectionRequest

__all__ = ["main"]

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


def main() -> None:
    """Print the CPU seconds of each variant, and the ratio to the first."""
    tables = _batches()
    for text, query in QUERIES.items():
        seconds = dict.fromkeys(VARIANTS, 0.0)
        rows = dict.fromkeys(VARIANTS, 0)
        for number in range(1 + ROUNDS):
            for name, emission in VARIANTS.items():
                spent, rows[name] = _spent(query, emission, tables)
                seconds[name] += spent if number else 0.0  # the first round compiles
        for name in VARIANTS:
            share = seconds[name] / seconds["once"]
            sys.stdout.write(
                f"{text}; {name}: {seconds[name] / ROUNDS:.2f} s CPU, {share:.2f} of once, {rows[name]:,} rows\n"
            )


def _batches() -> list[pa.Table]:
    """Two hours of trades, each up to five seconds late, in micro-batches of 72 seconds."""
    random = np.random.default_rng(7)
    at = np.sort(random.integers(0, 7_200_000_000, ROWS))
    order = np.argsort(at + random.integers(0, 5_000_000, ROWS), kind="stable")
    table = pa.table(
        {
            "ts": pa.array(at[order] + 1_700_000_000_000_000).cast(pa.timestamp("us", "UTC")),
            "id": np.arange(ROWS),
            "symbol": random.integers(0, 500, ROWS),
            "price": random.normal(size=ROWS),
        }
    )
    size = ROWS // BATCHES
    return [table.slice(low, size).combine_chunks() for low in range(0, ROWS, size)]


def _spent(query: sb.TopK, emission: Emission, tables: list[pa.Table]) -> tuple[float, int]:
    """Return the CPU time of all micro-batches, and the number of answer rows."""
    request = ProjectionRequest(sb.Workload([query]), "ts", "id", may_be_late=True, delay=DELAY, emission=emission)
    engine = MicroBatches(plan_for(tables[0].schema, request, rank=pa.int32()), "ts", DELAY)
    began, rows = process_time(), 0
    for table in tables:
        rows += engine.step([table]).answers.num_rows
    return process_time() - began, rows


if __name__ == "__main__":
    main()
