"""The largest flows of the last minute, over three routers that each see only some of them, at different times."""

from __future__ import annotations

import numpy as np

import skyband as sb

ROUTERS = ["north", "south", "west"]
SECOND = 1_000_000

draw = np.random.default_rng(7)
first_seen = np.sort(draw.integers(0, 300 * SECOND, 4_000))
size = np.minimum(draw.pareto(1.5, 4_000) * 2_000, 100_000)
seen = draw.random((4_000, 3)) < 0.6  # not every flow passes every router
delay = draw.integers(0, 20 * SECOND, (4_000, 3))  # reports arrive with a delay

flow, router = np.nonzero(seen)
position = (first_seen[:, None] + delay)[seen]
order = np.argsort(position, kind="stable")
flow, router, position = flow[order], router[order], position[order]
names = np.array(ROUTERS)[router]

largest = sb.IncompleteTopK(
    name="largest", k=3, size="1 minute", every="30 seconds", streams=ROUTERS, bounds=(0, 100_000), intervals=True
)
monitor = sb.incomplete.Monitor(largest)

for begin in range(0, flow.size, 1_000):
    batch = slice(begin, begin + 1_000)
    monitor.push(position[batch], flow[batch], names[batch], size[flow[batch]])
    for row in monitor.answers().to_pylist():
        more = "all routers" if row["best"] == row["score"] else f"up to {row['best']:,.0f}"
        print(f"{row['time'] // SECOND:>4} s  #{row['rank']}  flow {row['object']:>4}  {row['score']:>9,.0f}  {more}")

metrics = monitor.metrics()
newest = {name: stream["newest"] for name, stream in metrics["streams"].items()}
print(f"{metrics['tuples']} reports, {metrics['windows']} answers, {metrics['candidates']} instances held")
for name, moment in newest.items():
    print(f"{name} is {(max(newest.values()) - moment) / SECOND:.1f} s behind")
