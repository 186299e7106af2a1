"""Icebergs seen from ships, by radar and by satellite: no report is certain, and some of them contradict each other."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

import skyband as sb

HOUR = 3_600_000_000
LENGTHS = {"growler": 4, "bergy bit": 10, "small": 40, "medium": 90, "large": 160, "very large": 240}  # metres
METHODS = {"lookout": 0.95, "radar": 0.7, "satellite": 0.5}  # how often each is right
SHIPS = ["Aurora", "Borealis", "Cormorant", "Dovekie"]

draw = np.random.default_rng(5)
n = 1_500
position = np.sort(draw.integers(0, 48 * HOUR, n))
method = draw.choice(list(METHODS), n, p=[0.2, 0.5, 0.3])
kind = draw.choice(list(LENGTHS), n, p=[0.3, 0.25, 0.25, 0.13, 0.06, 0.01])
length = np.round(np.array([LENGTHS[name] for name in kind]) * draw.uniform(0.8, 1.2, n), 1)
confidence = np.array([METHODS[name] for name in method])
ship = draw.choice(SHIPS, n)

# Some icebergs are reported twice in a row, with two sizes. At most one of the two reports is true, so both get the
# same rule, and their probabilities are scaled to add up to 0.95.
first = np.flatnonzero(draw.random(n - 1) < 0.3)
first = first[np.append(True, np.diff(first) > 1)]
berg = np.full(n, None)
berg[first] = berg[first + 1] = [f"berg {number}" for number in range(first.size)]
total = confidence[first] + confidence[first + 1]
confidence[first], confidence[first + 1] = 0.95 * confidence[first] / total, 0.95 * confidence[first + 1] / total

work = sb.Workload(
    [
        sb.UncertainTopK(name="likeliest", k=3, size="12 hours", every="6 hours"),
        sb.UncertainTopK(name="rather sure", k=10, size="12 hours", semantics="pt-k", threshold=0.6),
        sb.UncertainTopK(name="ships", k=2, size="12 hours", every="8 hours", stream="ship"),
    ]
)
print(work.explain())

monitor = sb.uncertain.Monitor(work)
for begin in range(0, n, 250):
    batch = slice(begin, begin + 250)
    monitor.push(position[batch], length[batch], confidence[batch], rules=berg[batch], streams=ship[batch])
table = monitor.answers()

print("\nlikeliest to be among the three longest of the last twelve hours")
for row in table.filter(pc.equal(table["query"], "likeliest")).slice(0, 9).to_pylist():
    at = row["id"]
    seen = f"{row['score']:>5} m  {kind[at]:<10}  {method[at]:<9}  {berg[at] or '':<8}"
    print(f"{row['time'] // HOUR:>3} h  #{row['rank']}  {seen}  {row['probability']:.2f}")

print("\namong the ten longest with a probability of 0.6 or more")
for row in table.filter(pc.equal(table["query"], "rather sure")).slice(0, 8).to_pylist():
    print(f"{row['time'] // HOUR:>3} h  {row['score']:>5} m  {kind[row['id']]:<10}  {row['probability']:.3f}")

print("\nhow many of the two longest a ship is expected to have reported")
for row in table.filter(pc.equal(table["query"], "ships")).slice(0, 6).to_pylist():
    print(f"{row['time'] // HOUR:>3} h  #{row['rank']}  {row['stream']:<10}  {row['probability']:.2f}")

metrics = monitor.metrics()
print(f"\n{metrics['tuples']} reports, {metrics['windows']} answers from {metrics['runs']} passes")
print(f"{metrics['candidates']} reports held")
