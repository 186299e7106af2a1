"""The largest trades of the last minute as a stream that reads file by file; the rows of one file arrive late."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

import skyband as sb
from skyband import streams
from skyband.spark import session, start

made = streams.trades(30_000, seed=7)
trades = pa.table(
    {
        "ts": pa.array(made.position).cast(pa.timestamp("us", "UTC")),
        "trade_id": made.trade_id,
        "symbol": made.symbol.tolist(),
        "price": made.price,
        "shares": made.size,
    }
)
largest = sb.TopK(name="largest", k=3, size="1 minute", slide="20 seconds", by="price * shares")

with TemporaryDirectory() as folder:
    source, sink, state = (str(Path(folder, name)) for name in ("in", "out", "state"))
    Path(source).mkdir()
    for number, begin in enumerate(range(0, 30_000, 15_000)):
        pq.write_table(trades.slice(begin, 15_000), Path(source, f"{number}.parquet"))
    pq.write_table(trades.slice(0, 500), Path(source, "9.parquet"))  # a second copy of these rows, behind the watermark

    spark = session("largest trades")
    schema = spark.read.parquet(source).schema
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(source)
    handle = start(
        rows,
        largest,
        time="ts",
        id="trade_id",
        watermark="5 seconds",
        write=lambda out: out.writeStream.format("parquet").option("path", sink),
        checkpoint=state,
        bounded=True,  # read all existing files, emit every window, and end
    )
    handle.await_end()
    found = spark.read.parquet(sink).orderBy("window_end", "rank").toArrow()
    spark.stop()

for row in found.to_pylist():
    print(f"{row['window_end']:%H:%M:%S}  #{row['rank']}  trade {row['trade_id']:>5}  {row['score']:>12,.0f}")
metrics = handle.metrics()
print({name: metrics[name] for name in ("batches", "rows", "pruned", "late", "windows", "answers")})
