"""Everything: the grid of the paper, then the ratios. `--quick` finishes in minutes and writes nothing."""

from __future__ import annotations

import argparse

from benchmarks import bench_ratios, bench_single


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller windows, fewer rounds, nothing written")
    parser.add_argument("--cap", type=float, default=20.0, help="the most seconds for a cell of the grid")
    asked = parser.parse_args()
    bench_ratios.run(quick=asked.quick)
    bench_single.run(quick=asked.quick, cap=asked.cap)


if __name__ == "__main__":
    main()
