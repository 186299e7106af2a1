"""A plan on a time line: the views that windows share and whom they serve, or the runs of a schedule."""

from __future__ import annotations

from dataclasses import asdict
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from skyband.dashboard.board_state import Show
from skyband.queries.families import family_of
from skyband.queries.workload import Workload
from skyband.workload_file.models import plan_for

if TYPE_CHECKING:
    from skyband.topk.explain import Sharing

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
    if family_of(workload).supports("timeline"):
        plan |= _drawn(workload, show.history.newest(stream), method)
    plan["text"] = _explained(workload, method)
    return plan


@lru_cache(maxsize=64)
def sharing_of(workload: Workload[Any]) -> Sharing | None:
    """What the queries of a workload have in common; None where there are no views, or very many."""
    family = family_of(workload)
    if not family.supports("cost") or sum(query.window.most_alive for query in workload) > MOST_WINDOWS:
        return None
    found: Sharing = family.part("explain").sharing(workload.queries)
    return found


@lru_cache(maxsize=64)
def _explained(workload: Workload[Any], method: str) -> str:
    return workload.explain(on_spark=True, plan=plan_for(workload.family, method))


def _drawn(workload: Workload[Any], now: int | None, method: str) -> dict[str, Any]:
    """The time line as its family draws it, with as many queries a lane as fit."""
    shared = sharing_of(workload)
    told: dict[str, Any] = {"share_factor": None if shared is None else shared.factor}
    found = family_of(workload).part("explain").timeline(workload.queries, now, method, MOST_LANES, MOST_WINDOWS)
    if found is None:
        return told
    lanes = [{**asdict(lane), **_names(list(lane.queries))} for lane in found.lanes]
    return {**told, "lanes": lanes, "more": found.more, "cost": found.cost, "now": found.now}


def _names(queries: list[str]) -> dict[str, Any]:
    return {"queries": queries[:MOST_NAMES], "more_queries": max(0, len(queries) - MOST_NAMES)}
