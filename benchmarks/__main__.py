"""Everything: one query, many at once, Spark, the front door, the other families of queries; or the parts named.

`--quick` finishes in minutes and writes nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from benchmarks import (
    bench_aggregate,
    bench_expressions,
    bench_front,
    bench_groups,
    bench_incomplete,
    bench_page,
    bench_ratios,
    bench_sap,
    bench_shared,
    bench_single,
    bench_spark,
    bench_tables,
    bench_uncertain,
)

PARTS = {
    "ratios": bench_ratios.run,
    "single": bench_single.run,
    "shared": bench_shared.run,
    "spark": bench_spark.run,
    "front": bench_front.run,
    "groups": bench_groups.run,
    "expressions": bench_expressions.run,
    "tables": bench_tables.run,
    "page": bench_page.run,
    "sap": bench_sap.run,
    "incomplete": bench_incomplete.run,
    "aggregate": bench_aggregate.run,
    "uncertain": bench_uncertain.run,
}
CAPPED = ("single", "shared", "sap")  # grids


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"{', '.join(PARTS)}; all if none is named")
    parser.add_argument("--quick", action="store_true", help="smaller windows, fewer rounds, nothing written")
    parser.add_argument("--cap", type=float, help="the most seconds for a cell of a grid")
    asked = parser.parse_args()
    if unknown := set(asked.parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    capped = {} if asked.cap is None else {"cap": asked.cap}
    for part in asked.parts or PARTS:
        run: Callable[..., None] = PARTS[part]
        run(quick=asked.quick, **(capped if part in CAPPED else {}))


if __name__ == "__main__":
    main()
