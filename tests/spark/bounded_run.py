"""A program of its own that runs the case all places share: python -m tests.spark.bounded_run FOLDER [MASTER].

MASTER may be `remote`, for Spark Connect. FOLDER/in holds the files; answers go to FOLDER/out.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import skyband
from tests.oracle import Asked
from tests.sharding import cases
from tests.spark.frames import read_stream

SECOND = 1_000_000
POSED = [
    cases.Posed("whole", Asked(k=3, size=30 * SECOND, slide=10 * SECOND), {"by": "s"}),
    cases.Posed("odd", Asked(k=2, size=25 * SECOND, slide=7 * SECOND, ascending=True), {"by": "-s", "where": "odd"}),
    cases.Posed("grouped", Asked(k=2, size=40 * SECOND, slide=20 * SECOND), {"by": "s", "partition_by": ["g"]}),
]


def batches(files):
    """Rows in order, so that none is late, in so many files."""
    rows = cases.draw_rows(cases.rng("places"), 40 * files, scale=SECOND)
    return [rows[40 * number : 40 * (number + 1)] for number in range(files)]


def wanted(files):
    found = {}
    for one in POSED:
        found |= cases.wanted(one, [row for batch in batches(files) for row in batch])
    return found


def environment():
    """For the program: workers run this interpreter and find these tests and the library that is tested.

    Nothing of another Spark is inherited.
    """
    tests = Path(__file__).parents[1]
    places = (tests / "startup", tests.parent, Path(skyband.__file__).parents[1])
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYSPARK", "SPARK")) or name == "SPARK_SUBMIT_OPTS"
    }
    return {**kept, "PYTHONPATH": os.pathsep.join(map(str, places)), "PYSPARK_PYTHON": sys.executable}


def main(folder, master="local[2]"):
    from skyband.spark import session, start

    settings = {"spark.remote": "local[2]"} if master == "remote" else {"spark.sql.shuffle.partitions": 2}
    spark = session("places", master=None if master == "remote" else master, memory="1g", settings=settings)
    handle = start(
        read_stream(spark, folder / "in"),
        [one.query() for one in POSED],
        time="ts",
        id="id",
        watermark="0 seconds",
        shards=2,
        bounded=True,
        write=lambda out: out.writeStream.format("parquet").option("path", str(folder / "out")),
        checkpoint=str(folder / "state"),
    )
    handle.await_end(progress=False)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
