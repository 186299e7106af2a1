"""Write the trades that the pipeline reads. ``python make_trades.py FIRST LAST`` writes these of the four parts."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from skyband import streams

PARTS, ROWS = 4, 7_500


def trades() -> pa.Table:
    made = streams.trades(PARTS * ROWS, seed=7)
    return pa.table(
        {
            "ts": pa.array(made.position).cast(pa.timestamp("us", "UTC")),
            "trade_id": made.trade_id,
            "symbol": made.symbol.tolist(),
            "price": made.price,
            "shares": made.size,
        }
    )


if __name__ == "__main__":
    first, last = (int(text) for text in sys.argv[1:] or (0, PARTS - 1))
    folder = Path(__file__).parent / "trades"
    folder.mkdir(exist_ok=True)
    for part in range(first, last + 1):
        pq.write_table(trades().slice(part * ROWS, ROWS), folder / f"{part}.parquet")
