"""The largest trades of the last minute, every ten seconds, as they become final."""

from __future__ import annotations

import skyband as sb
from skyband import streams

trades = streams.trades(60_000, seed=7)
monitor = sb.Monitor(sb.TopK(name="largest", k=3, size="1 minute", slide="10 seconds"))

for begin in range(0, 60_000, 4_000):
    batch = slice(begin, begin + 4_000)
    monitor.push(trades.position[batch], trades.score[batch], trades.trade_id[batch])
    for row in monitor.answers().to_pylist():
        seconds = row["window_end"] // 1_000_000
        print(f"window ending {seconds} s  #{row['rank']}  trade {row['id']}  {row['score']:,.0f}")

metrics = monitor.metrics()
print(f"{metrics['objects']} trades seen, {metrics['candidates']} held")
