"""Java's archive of the classes that Spark loads: ``python -m tests.class_archive`` writes it into the environment.

A Spark that maps it starts and runs its first stream with about 7 s less CPU time, and the tests start it often. The
archive belongs to one Java and one PySpark; Java ignores it if either has changed.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

# Spark lives for minutes here, not for days: compiling Java's code well would take longer than running it. The fast
# compiler alone gets 48 MB for its code by default; Spark needs more, and removing code took a
# fifth of Java's time. A larger young generation is collected less often.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m -XX:NewSize=384m"
ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"


def java_options() -> str:
    """The options of a JVM of the tests; an archive that does not fit is ignored without a message."""
    return f"{SHORT_LIVED} -XX:SharedArchiveFile={ARCHIVE} -Xlog:disable" if ARCHIVE.exists() else SHORT_LIVED


def _run_streams(folder: str) -> None:
    """Run what many tests run, so that its classes are loaded: both readers of files, a stream, a batch."""
    import skyband as sb
    from skyband.spark import answers, read_files, session, start

    spark = session("classes", master="local[2]", memory="1g")
    rows = spark.range(200).selectExpr("timestamp_seconds(id) AS ts", "id", "id % 3 AS g", "CAST(id AS string) AS s")
    for kind in ("parquet", "json", "csv"):
        rows.coalesce(1).write.format(kind).save(f"{folder}/{kind}")
    query = sb.TopK(name="q", k=3, size="1 minute", slide="10 seconds", by="id * 1.5", partition_by=["g"])
    schema = "ts timestamp, id long, g long, s string"
    sources = [
        read_files(f"{folder}/parquet", format="parquet", spark=spark),
        spark.readStream.schema(schema).json(f"{folder}/json"),
    ]
    for number, source in enumerate(sources):
        handle = start(
            source,
            query,
            time="ts",
            id="id",
            watermark="1 second",
            bounded=True,
            checkpoint=f"{folder}/state{number}",
            write=lambda out, number=number: out.writeStream.foreachBatch(
                lambda frame, _: frame.write.mode("append").parquet(f"{folder}/out{number}")
            ),
        )
        handle.await_end()
        spark.read.parquet(f"{folder}/out{number}").orderBy("window_end", "rank").toPandas()
    answers(spark.read.schema(schema).csv(f"{folder}/csv"), query, time="ts", id="id").collect()
    spark.stop()


if __name__ == "__main__":
    ARCHIVE.unlink(missing_ok=True)
    os.environ["SPARK_SUBMIT_OPTS"] = f"{SHORT_LIVED} -XX:ArchiveClassesAtExit={ARCHIVE} -Xlog:disable"
    with tempfile.TemporaryDirectory() as scratch:
        _run_streams(scratch)
