"""Run all benchmarks, or the named parts.

With `--quick` they finish in minutes and write nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from benchmarks import (
    bench_aggregate,
    bench_auto,
    bench_batch,
    bench_engines,
    bench_expressions,
    bench_first_use,
    bench_frames,
    bench_front,
    bench_groups,
    bench_incomplete,
    bench_kafka,
    bench_lists,
    bench_page,
    bench_ratios,
    bench_readers,
    bench_sap,
    bench_sap_shared,
    bench_scale,
    bench_shared,
    bench_single,
    bench_sinks,
    bench_sketch,
    bench_source,
    bench_spark,
    bench_tables,
    bench_uncertain,
    bench_uncertain_costs,
)
from benchmarks.figures import command as figures
from benchmarks.figures.registry import SCALES

PARTS: dict[str, Callable[..., None]] = {
    "ratios": bench_ratios.run,
    "single": bench_single.run,
    "lists": bench_lists.run,
    "shared": bench_shared.run,
    "spark": bench_spark.run,
    "batch": bench_batch.run,
    "source": bench_source.run,
    "front": bench_front.run,
    "first_use": bench_first_use.run,
    "engines": bench_engines.run,
    "frames": bench_frames.run,
    "groups": bench_groups.run,
    "expressions": bench_expressions.run,
    "tables": bench_tables.run,
    "kafka": bench_kafka.run,
    "sinks": bench_sinks.run,
    "page": bench_page.run,
    "readers": bench_readers.run,
    "scale": bench_scale.run,
    "sap": bench_sap.run,
    "sap-shared": bench_sap_shared.run,
    "auto": bench_auto.run,
    "incomplete": bench_incomplete.run,
    "aggregate": bench_aggregate.run,
    "sketch": bench_sketch.run,
    "uncertain": bench_uncertain.run,
    "uncertain-costs": bench_uncertain_costs.run,
    "figures": figures.run,
}
APART = ("figures",)  # runs only if it is named
CAPPED = ("single", "shared", "sap")  # grids


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"{', '.join(PARTS)}; default: all but figures")
    parser.add_argument("--quick", action="store_true", help="smaller windows, fewer rounds, nothing written")
    parser.add_argument("--cap", type=float, help="maximum seconds for a cell of a grid")
    parser.add_argument("--scale", choices=SCALES, default="small", help="of figures: the papers' sizes are full")
    parser.add_argument(
        "--only",
        nargs="*",
        default=(),
        metavar="TEXT",
        help="of figures: text in the name; of aggregate: local, jobs, own",
    )
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"unknown part {', '.join(sorted(unknown))}; parts: {', '.join(PARTS)}")
    only = tuple(options.only)
    extra = {"figures": {"scale": options.scale, "only": only}, "aggregate": {"only": only}}
    capped = {} if options.cap is None else {"cap": options.cap}
    for part in options.parts or [part for part in PARTS if part not in APART]:
        run: Callable[..., None] = PARTS[part]
        run(quick=options.quick, **(capped if part in CAPPED else {}), **extra.get(part, {}))


if __name__ == "__main__":
    main()
