"""A plan on a time line: the views that windows share and whom they serve, or the runs of a schedule."""

from __future__ import annotations

from functools import lru_cache
from itertools import islice, pairwise
from typing import Any

from skyband.dashboard.board_state import Show
from skyband.durations import format_duration
from skyband.queries.workload import Workload
from skyband.topk.explain import Sharing, sharing
from skyband.topk.meta_query import sharing_classes
from skyband.uncertain.query import UncertainTopK, classes_of
from skyband.uncertain.schedules import Plan, greedy
from skyband.workload_file.algorithm_names import plan_for

__all__ = ["plan_of", "sharing_of"]

MOST_LANES = 400
MOST_NAMES = 50  # of the queries that a lane serves; the rest is a number
MOST_WINDOWS = 200_000  # beyond this, the views of a workload are not listed one by one


def plan_of(show: Show, stream: str) -> dict[str, Any] | None:
    """The plan of a stream as it is sent; None where nobody asks about such a stream."""
    asked = [one for one in show.asked().values() if one.stream == stream]
    if not asked:
        return None
    workload = show.workloads().get(stream)
    axis = asked[0].axis
    plan: dict[str, Any] = {
        "stream": stream,
        "family": asked[0].family,
        "text": None,
        "lanes": [],
        "unit": "seconds" if axis == "time" else "objects",
        "now": None,
        "more": 0,
        "share_factor": None,
        "cost": None,
    }
    if workload is None:
        return plan
    method = show.algorithm(stream)
    if workload.family == UncertainTopK.family:
        plan |= _scheduled(workload, "greedy" if method == "auto" else method)
    elif workload.family == "topk":
        plan |= _shared(workload, show.history.newest(stream), axis)
    plan["text"] = _explained(workload, method)
    return plan


@lru_cache(maxsize=64)
def sharing_of(workload: Workload[Any]) -> Sharing | None:
    """What the queries of a workload have in common; None where there are no views, or very many."""
    if workload.family != "topk" or sum(query.window.most_alive for query in workload) > MOST_WINDOWS:
        return None
    return sharing(workload.queries)


@lru_cache(maxsize=64)
def _explained(workload: Workload[Any], method: str) -> str:
    return workload.explain(on_spark=True, plan=plan_for(workload.family, method))


def _shared(workload: Workload[Any], now: int | None, axis: str) -> dict[str, Any]:
    """The views alive at the newest answer, oldest first; places are told from there."""
    found = sharing_of(workload)
    told: dict[str, Any] = {"share_factor": None if found is None else found.factor}
    if found is None:
        return told
    at = found.typical if now is None else now
    scale = 1e6 if axis == "time" else 1
    lanes: list[dict[str, Any]] = []
    for number, (shared, meta) in enumerate(sharing_classes(workload.queries).items(), 1):
        sizes = {query.name: query.sliding.size for query in meta.queries}
        lanes += [
            {
                "label": f"class {number}: {shared.by or 'the given score'}",
                "kind": "view",
                "k": view.k,
                "begin": (view.start - at) / scale,
                "end": (view.start - at + max(sizes[name] for name in view.queries)) / scale,
                **_names(list(view.queries)),
            }
            for view in meta.views(at)
        ]
    return {**told, "now": at / scale, "lanes": lanes[-MOST_LANES:], "more": max(0, len(lanes) - MOST_LANES)}


def _scheduled(workload: Workload[Any], method: str) -> dict[str, Any]:
    """The runs of a cycle, class by class: each from its moment to the next run."""
    lanes: list[dict[str, Any]] = []
    more, cost = 0, 0.0
    on_time = workload.axis == "time"
    scale = 1e6 if on_time else 1
    for number, queries in enumerate(classes_of(workload.queries), 1):
        plan = _planned(tuple((query.window.slide, query.k) for query in queries), method)
        cost += plan.cost_per_unit * scale
        count = sum(plan.cycle // track.period * len(track.runs) for track in plan.tracks)
        runs = list(islice(plan.upcoming(0), min(count, MOST_LANES - len(lanes)) + 1))
        more += max(0, count - len(runs) + 1)
        for run, following in pairwise(runs):
            lanes.append(
                {
                    "label": f"class {number}: at {format_duration(run.time) if on_time else f'{run.time} objects'}",
                    "kind": "group",
                    "k": run.k_max,
                    "begin": run.time / scale,
                    "end": following.time / scale,
                    **_names([queries[place].name for place in run.queries]),
                }
            )
    return {"lanes": lanes, "more": more, "cost": cost, "now": 0.0}


def _planned(requests: tuple[tuple[int, int], ...], method: str) -> Plan:
    if method == "greedy":
        return greedy(requests)
    from skyband.uncertain.scheduling import schedule  # noqa: PLC0415 - a compiled search, loaded when its plan is asked for

    return schedule(requests, method)


def _names(queries: list[str]) -> dict[str, Any]:
    return {"queries": queries[:MOST_NAMES], "more_queries": max(0, len(queries) - MOST_NAMES)}
