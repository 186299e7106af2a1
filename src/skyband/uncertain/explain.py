"""The page and the time line of queries over uncertain tuples: groups, the plan along time, what sharing saves."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, pairwise

from skyband.durations import format_duration
from skyband.queries.counted import counted
from skyband.queries.fields import checked_choice
from skyband.queries.timeline import Lane, Timeline
from skyband.uncertain.query import SEMANTICS, UncertainTopK, classes_of, stream_of
from skyband.uncertain.schedules import METHODS, Schedule, greedy, unit_of

__all__ = ["page", "planned", "timeline"]

_SHOWN = 12  # runs on the time line


def page(queries: Sequence[UncertainTopK], *, on_spark: bool = False, plan: str = "greedy") -> str:
    """The page on these queries, run by the `plan` of this name."""
    method, classes = checked_choice("plan", plan, METHODS), classes_of(queries)
    lines = [
        (
            f"{counted(len(queries), 'query', 'queries')} over uncertain tuples on the {queries[0].axis} axis, "
            f"{counted(len(classes), 'sharing class')}"
        )
    ]
    for number, mine in enumerate(classes, 1):
        by, probability, rule, where = mine[0].sharing_key()
        described = [f"by {by or 'the given score'}", f"with probability {probability or 'as given'}"]
        described += [f"one of each {rule}"] * (rule is not None) + [f"where {where}"] * (where is not None)
        lines += ["", f"class {number}: {', '.join(described)}", *(f"  {line}" for line in _class_page(mine, method))]
    if on_spark:
        lines += ["", "on Spark the tuples of a class are ranked in one place: any of them may stand before any other"]
        if queries[0].axis == "time":
            lines.append("but those that k certain ones surely beat before a window ends are left behind on the way")
    return "\n".join(lines)


def _class_page(queries: Sequence[UncertainTopK], method: str) -> list[str]:
    requests = tuple((query.window.slide, query.k) for query in queries)
    plan, unit = planned(requests, method), unit_of(requests)
    axis = queries[0].axis
    unshared = sum(k / every for every, k in requests) * unit
    shared = plan.cost_per_unit * unit
    names = [query.name for query in queries]
    meanings = {query.semantics: SEMANTICS[query.semantics] for query in queries}
    return [
        f"queries       {len(queries)}: {_listed(names)}",
        f"window        {_length(axis, queries[0].window.size)}, whole but for tuples that can be in no answer",
        *(f"answers       {name}: {meaning}" for name, meaning in meanings.items()),
        *_streams(queries),
        *(
            f"group {number:<7} at least every {_length(axis, group.every)}, k = {group.k}: "
            f"{_listed([names[place] for place in group.queries])}"
            for number, group in enumerate(plan.groups, 1)
        ),
        f"plan          {plan.method}: {METHODS[plan.method]}",
        *_time_line(plan, axis, names),
        (
            f"cost          {shared:.4g} per {_length(axis, unit)} (the k of all runs)"
            + (f", {unshared:.4g} without sharing: {unshared / shared:.1f} times less" if method != "none" else "")
        ),
    ]


def planned(requests: tuple[tuple[int, int], ...], method: str) -> Schedule:
    """The schedule for (every, k) requests that the plan of this name finds."""
    if method == "greedy":
        return greedy(requests)
    from skyband.uncertain.scheduling import schedule

    return schedule(requests, method)


def _streams(queries: Sequence[UncertainTopK]) -> list[str]:
    """Who ranks streams, told apart by what."""
    names = [query.name for query in queries if query.stream is not None]
    if not names:
        return []
    return [
        f"streams       told apart by {stream_of(queries)}, ranked by the sum over their tuples: {_listed(names)}",
    ]


def _time_line(plan: Schedule, axis: str, names: Sequence[str]) -> list[str]:
    """The runs of a cycle, one a line, with a bar as long as their k."""
    count = sum(plan.cycle // track.period * len(track.runs) for track in plan.tracks)
    runs = list(islice(plan.upcoming(0), min(count, _SHOWN)))
    largest = max(group.k for group in plan.groups)
    times = [_length(axis, run.time) for run in runs]
    wide = max(map(len, times))
    lines = [
        f"  {time:>{wide}}  {'#' * max(1, round(12 * run.k_max / largest)):<12}  k = {run.k_max}: "
        f"{'all' if len(run.queries) == len(names) else _listed([names[place] for place in run.queries])}"
        for time, run in zip(times, runs, strict=True)
    ]
    more = count - len(runs)
    if more:
        lines.append(f"  … {counted(more, 'more run')}")
    return [*lines, f"  and again after {_length(axis, plan.cycle)}"]


def _length(axis: str, ticks: int) -> str:
    return format_duration(ticks) if axis == "time" else counted(ticks, "tuple")


def _listed(names: Sequence[str], most: int = 6) -> str:
    more = f", … {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


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
