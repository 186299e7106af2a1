"""The largest trades of every minute, over all symbols and for each symbol, from a folder of Parquet files."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import skyband as sb
from skyband import streams
from skyband.spark import answers, session

made = streams.trades(40_000, seed=7)
trades = pa.table(
    {
        "ts": pa.array(made.position).cast(pa.timestamp("us", "UTC")),
        "trade_id": made.trade_id,
        "symbol": made.symbol.tolist(),
        "price": made.price,
        "shares": made.size,
    }
)
work = sb.Workload(
    [
        sb.TopK(name="largest", k=3, size="1 minute", slide="30 seconds", by="price * shares"),
        sb.TopK(name="of symbol", k=1, size="1 minute", by="price * shares", partition_by=["symbol"]),
    ]
)

with TemporaryDirectory() as folder:
    pq.write_table(trades, Path(folder, "trades.parquet"))
    spark = session("largest trades")
    found = answers(spark.read.parquet(folder), work, time="ts", id="trade_id").toArrow()
    spark.stop()

ordered = found.sort_by([("query", "ascending"), ("window_end", "ascending"), ("rank", "ascending")])
for row in ordered.filter(pc.equal(ordered["query"], "largest")).to_pylist():
    print(f"{row['window_end']:%H:%M:%S}  #{row['rank']}  trade {row['trade_id']:>5}  {row['score']:>12,.0f}")
print(f"and {found.num_rows} rows in total, of {len(found['symbol'].unique()) - 1} symbols")
