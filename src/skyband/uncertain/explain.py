"""`explain` and the timeline of queries over uncertain tuples: groups, the plan, and the savings by sharing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, pairwise

from skyband.durations import format_duration
from skyband.queries.counted import counted
from skyband.queries.fields import checked_choice
from skyband.queries.overview import overview
from skyband.queries.timeline import Lane, Timeline
from skyband.uncertain.query import SEMANTICS, UncertainTopK, classes_of, requests_of, stream_of
from skyband.uncertain.schedules import METHODS, PLANS, Schedule, unit_of
from skyband.uncertain.scheduling import schedule

__all__ = ["page", "timeline"]

_SHOWN = 12  # runs of the plan that are listed


def page(queries: Sequence[UncertainTopK], *, on_spark: bool = False, plan: str = "auto") -> str:
    """Describe what these queries answer, keep and cost with the `plan` of this name, then each class in detail."""
    method, classes = checked_choice("plan", plan, PLANS), classes_of(queries)
    plans = [schedule(requests_of(mine), method) for mine in classes]
    lines = [
        overview(queries, "on tuples with probabilities"),
        f"{_work(classes, plans, method)}\n{_memory(classes)}",
        "",
        f"{counted(len(classes), 'sharing class')}; the queries of a class are answered from one window by one plan",
    ]
    for number, (mine, found) in enumerate(zip(classes, plans, strict=True), 1):
        by, probability, rule, where = mine[0].sharing_key()[:4]
        lowest = ", lowest first" if mine[0].ascending else ""
        described = [f"by {by or 'the given score'}{lowest}", f"with probability {probability or 'as given'}"]
        described += [f"one of each {rule}"] * (rule is not None) + [f"where {where}"] * (where is not None)
        lines += [
            *([""] if number > 1 else []),
            f"class {number}: {', '.join(described)}",
            *(f"  {line}" for line in _class_page(mine, found)),
        ]
    if on_spark:
        lines += ["", "On Spark, one task ranks all tuples of a class, because any tuple can rank before any other."]
        if queries[0].axis == "time" and not all(query.needs_all_tuples for query in queries):
            lines.append("Earlier tasks drop tuples on which no answer depends, because enough better ones follow.")
    return "\n".join(lines)


def _unshared(requests: tuple[tuple[int, int], ...]) -> float:
    """Return the cost per tick of the axis if every query ran separately."""
    return sum(k / every for every, k in requests)


def _memory(classes: Sequence[Sequence[UncertainTopK]]) -> str:
    sizes = sorted({mine[0].window.size for mine in classes})
    windows = " and ".join(_length(classes[0][0].axis, size) for size in sizes[:3]) + (" …" if len(sizes) > 3 else "")
    each = "" if len(classes) == 1 else " of each sharing class"
    return f"Memory: the tuples of the last {windows}{each}, except those that cannot be in any answer."


def _work(classes: Sequence[Sequence[UncertainTopK]], plans: Sequence[Schedule], method: str) -> str:
    if method == "none":
        return "Every query runs separately."
    saved = sum(map(_unshared, map(requests_of, classes))) / sum(plan.cost_per_unit for plan in plans)
    return f"Work: {_compared(saved, 'as much as', 'than')} without sharing."


def _compared(saved: float, same: str, than: str = "") -> str:
    """Say how much less, or more, something costs."""
    if 0.95 < saved < 1.05:
        return same
    return f"{max(saved, 1 / saved):.1f} times {'less' if saved > 1 else 'more'} {than}".rstrip()


def _class_page(queries: Sequence[UncertainTopK], plan: Schedule) -> list[str]:
    requests = requests_of(queries)
    unit, axis = unit_of(requests), queries[0].axis
    unshared, shared = _unshared(requests) * unit, plan.cost_per_unit * unit
    names = [query.name for query in queries]
    meanings = {query.semantics: SEMANTICS[query.semantics] for query in queries}
    return [
        f"queries       {len(queries)}: {_listed(names)}",
        f"window        {_length(axis, queries[0].window.size)}, without tuples that cannot be in any answer",
        *(f"answers       {name}: {meaning}" for name, meaning in meanings.items()),
        *_streams(queries),
        *(
            f"group {number:<7} at least every {_length(axis, group.every)}, k = {group.k}: "
            f"{_listed([names[place] for place in group.queries])}"
            for number, group in enumerate(plan.groups, 1)
        ),
        f"plan          {plan.method}: {METHODS[plan.method]}",
        *_time_line(plan, axis, names),
        *_estimated(plan, axis, unit),
        (
            f"cost          {shared:.4g} per {_length(axis, unit)} (sum of k over all runs)"
            + (
                ""
                if plan.method == "none"
                else f", {unshared:.4g} without sharing: {_compared(unshared / shared, 'as much')}"
            )
        ),
    ]


def _estimated(plan: Schedule, axis: str, unit: int) -> list[str]:
    """Say how long runs take, as estimated from a measured window."""
    own, unshared = (found.seconds_per_unit * unit for found in (plan, schedule(plan.requests, "none")))
    compared = "" if plan.method == "none" else f", {_compared(unshared / own, 'as long as', 'than')} without sharing"
    return [f"time          about {1e3 * own:.2g} ms per {_length(axis, unit)} for windows of 10,000 tuples{compared}"]


def _streams(queries: Sequence[UncertainTopK]) -> list[str]:
    """Describe which queries rank streams, and by which expression the streams are identified."""
    names = [query.name for query in queries if query.stream is not None]
    if not names:
        return []
    return [
        f"streams       identified by {stream_of(queries)}, ranked by the sum over their tuples: {_listed(names)}",
    ]


def _time_line(plan: Schedule, axis: str, names: Sequence[str]) -> list[str]:
    """List the runs of a cycle, one per line, with a bar proportional to their k."""
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
    return [*lines, f"  repeats after {_length(axis, plan.cycle)}"]


def _length(axis: str, ticks: int) -> str:
    return format_duration(ticks) if axis == "time" else counted(ticks, "tuple")


def _listed(names: Sequence[str], most: int = 6) -> str:
    more = f", … {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def timeline(queries: Sequence[UncertainTopK], now: int | None, method: str, lanes: int, windows: int) -> Timeline:
    """Return the runs of a cycle, class by class, at most `lanes` of them; each lasts until the next run."""
    found: list[Lane] = []
    more, cost = 0, 0.0
    on_time = queries[0].axis == "time"
    scale = 1e6 if on_time else 1
    for number, mine in enumerate(classes_of(queries), 1):
        plan = schedule(requests_of(mine), method)
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
