"""A client of Spark Connect: python -m tests.spark.connect_run FOLDER ADDRESS.

Answers go to FOLDER/batch and FOLDER/out.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.parquet as pq

from tests.spark.bounded_run import POSED
from tests.spark.frames import SCHEMA, read_stream


def main(folder, address):
    import skyband as sb
    from skyband.spark import answers, session, start

    spark = session(settings={"spark.remote": address})
    queries = [one.query() for one in POSED]
    rows = spark.read.schema(SCHEMA).parquet(str(folder / "in"))
    (folder / "batch").mkdir()
    pq.write_table(answers(rows, queries, time="ts", id="id").toArrow(), folder / "batch" / "answers.parquet")
    handle = start(
        read_stream(spark, folder / "in"),
        queries,
        time="ts",
        id="id",
        watermark="0 seconds",
        sinks=[sb.sinks.Parquet(path=str(folder / "out"))],
        checkpoint=str(folder / "state"),
        bounded=True,
    )
    handle.await_end(progress=False)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
