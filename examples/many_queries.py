"""A thousand queries over one stream in one pass; one is added and one removed while it runs."""

from __future__ import annotations

import numpy as np

import skyband as sb
from skyband import streams

draw = np.random.default_rng(11)
work = sb.Workload(
    sb.TopK(
        name=f"q{i}",
        k=int(draw.integers(1, 100)),
        size=int(draw.integers(1_000, 20_000)),
        slide=int(draw.integers(200, 1_000)),
    )
    for i in range(1_000)
)
print(work.explain())

scores = streams.uniform(60_000, seed=3).score
monitor = sb.Monitor(work)
monitor.push(None, scores[:30_000])

added = sb.TopK(name="added", k=10, size=5_000, slide=1_000)
print(f"\nadding it would cost {work.cost(added)}")
print(f"its first window ends at object {monitor.add(added)}")
monitor.remove("q0")

monitor.push(None, scores[30_000:])
answers = monitor.answers()
print(f"{answers.num_rows} rows of answers from {monitor.candidates} candidates")
