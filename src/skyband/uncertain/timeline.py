"""The schedule of uncertain queries on a time line: the runs of a cycle, and which queries each of them answers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, pairwise

from skyband.durations import format_duration
from skyband.queries.timeline import Lane, Timeline
from skyband.uncertain.explain import planned
from skyband.uncertain.query import UncertainTopK, classes_of

__all__ = ["timeline"]


def timeline(queries: Sequence[UncertainTopK], now: int | None, method: str, lanes: int, windows: int) -> Timeline:
    """The runs of a cycle, class by class, at most so many `lanes`: each from its moment to the next run."""
    found: list[Lane] = []
    more, cost = 0, 0.0
    on_time = queries[0].axis == "time"
    scale = 1e6 if on_time else 1
    for number, mine in enumerate(classes_of(queries), 1):
        requests = tuple((query.window.slide, query.k) for query in mine)
        plan = planned(requests, "greedy" if method == "auto" else method)
        cost += plan.cost_per_unit * scale
        count = sum(plan.cycle // track.period * len(track.runs) for track in plan.tracks)
        runs = list(islice(plan.upcoming(0), min(count, lanes - len(found)) + 1))
        more += max(0, count - len(runs) + 1)
        found += [
            Lane(
                label=f"class {number}: at {format_duration(run.time) if on_time else f'{run.time} objects'}",
                kind="group",
                k=run.k_max,
                begin=run.time / scale,
                end=following.time / scale,
                queries=tuple(mine[place].name for place in run.queries),
            )
            for run, following in pairwise(runs)
        ]
    return Timeline(tuple(found), more, 0.0, cost)
