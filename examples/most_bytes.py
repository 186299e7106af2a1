"""The clients with the most bytes in ten minutes, with the most requests, and the busiest client of each site."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

import skyband as sb

MINUTE = 60_000_000

draw = np.random.default_rng(11)
n = 50_000
position = np.sort(draw.integers(0, 60 * MINUTE, n))
client = np.array([f"client {number:03}" for number in range(500)])[(500 * draw.power(0.6, n)).astype(np.int64)]
site = draw.choice(["docs", "shop"], n)
size = np.round(draw.pareto(1.8, n) * 5_000, 2)

work = sb.Workload(
    [
        sb.AggregateTopK(name="most bytes", k=3, size="10 minutes", slide="5 minutes"),
        sb.AggregateTopK(name="most often", k=1, size="10 minutes", slide="10 minutes", aggregate="count"),
        sb.AggregateTopK(name="of site", k=1, size="30 minutes", partition_by=["site"]),
    ]
)
print(work.explain())

monitor = sb.aggregate.Monitor(work)
for begin in range(0, n, 10_000):
    batch = slice(begin, begin + 10_000)
    monitor.push(position[batch], client[batch], size[batch], groups=site[batch])
monitor.finish()
table = monitor.answers()

for name in ("most bytes", "most often", "of site"):
    print(f"\n{name}")
    for row in table.filter(pc.equal(table["query"], name)).slice(0, 6).to_pylist():
        where = f"{row['group']:<5}" if row["group"] else ""
        print(f"{row['window_end'] // MINUTE:>3} min  #{row['rank']}  {where}{row['key']}  {row['score']:>12,.2f}")

metrics = monitor.metrics()
print(f"\n{metrics['rows']} rows became {metrics['partials']} partials, and {metrics['windows']} windows were answered")
