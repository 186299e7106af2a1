"""The program that tests submit to a cluster: spark-submit cluster_run.py FOLDER SHARDS FILES.

FOLDER/in holds the files, one a micro-batch; answers go to FOLDER/out. Most rows are of one group. The program ends
when so many files are there and answered.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from tests.sharding import cases
from tests.spark import bounded_run
from tests.spark.frames import read_stream
from tests.waiting import wait_for

ROWS = 60  # a file


def batches(files):
    """Rows in order, so that none is late. Nine of ten are of one group."""
    random_ = cases.rng("cluster")
    rows = cases.draw_rows(random_, ROWS * files, scale=bounded_run.SECOND)
    skewed = [(*row[:3], "a" if random_.random() < 0.9 else row[3]) for row in rows]
    return [skewed[ROWS * number : ROWS * (number + 1)] for number in range(files)]


def wanted(files):
    found = {}
    for one in bounded_run.POSED:
        found |= cases.wanted(one, [row for batch in batches(files) for row in batch])
    return found


def main(folder, shards, files):
    from skyband.spark import session, start

    logging.basicConfig(level=logging.INFO)
    spark = session("cluster")
    handle = start(
        read_stream(spark, folder / "in"),
        [one.query() for one in bounded_run.POSED],
        time="ts",
        id="id",
        watermark="0 seconds",
        shards=shards,
        write=lambda out: out.writeStream.format("parquet").option("path", str(folder / "out")),
        checkpoint=str(folder / "state"),
    )
    wait_for(lambda: not handle.is_active or len(list((folder / "in").glob("*.parquet"))) == files, 600)
    handle.finish()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
