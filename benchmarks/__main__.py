"""Everything: one query, many at once, Spark, the front door, incomplete streams, aggregates; or the parts named.

`--quick` finishes in minutes and writes nothing.
"""

from __future__ import annotations

import argparse

from benchmarks import (
    bench_aggregate,
    bench_front,
    bench_incomplete,
    bench_ratios,
    bench_sap,
    bench_shared,
    bench_single,
    bench_spark,
)

PARTS = ("ratios", "single", "shared", "spark", "front", "sap", "incomplete", "aggregate")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"{', '.join(PARTS)}; all if none is named")
    parser.add_argument("--quick", action="store_true", help="smaller windows, fewer rounds, nothing written")
    parser.add_argument("--cap", type=float, help="the most seconds for a cell of a grid")
    asked = parser.parse_args()
    if unknown := set(asked.parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    capped = {} if asked.cap is None else {"cap": asked.cap}
    parts = asked.parts or PARTS
    if "ratios" in parts:
        bench_ratios.run(quick=asked.quick)
    if "single" in parts:
        bench_single.run(quick=asked.quick, **capped)
    if "shared" in parts:
        bench_shared.run(quick=asked.quick, **capped)
    if "spark" in parts:
        bench_spark.run(quick=asked.quick)
    if "front" in parts:
        bench_front.run(quick=asked.quick)
    if "sap" in parts:
        bench_sap.run(quick=asked.quick, **capped)
    if "incomplete" in parts:
        bench_incomplete.run(quick=asked.quick)
    if "aggregate" in parts:
        bench_aggregate.run(quick=asked.quick)


if __name__ == "__main__":
    main()
