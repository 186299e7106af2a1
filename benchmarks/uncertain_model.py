"""The execution model of the paper on shared plans: queries, the runs of a plan made for real, and a clock.

A run answers all its queries from one window. What it takes is measured; when it is done follows from a clock on which
runs are made one after another, on one core, each when it is due or when the one before it is done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

import skyband as sb
from benchmarks.measure import best_of
from benchmarks.uncertain_streams import UNITS, Uncertain
from skyband.uncertain.semantics import SemanticsRequest, ranked

METHODS = ("none", "in", "inco", "greedy", "dp")
LONGEST = 40  # units: `every` is drawn from 1 to this, or about it
MOST = 100  # queries
OVERLOAD = 2.0  # the unit of time is so short that without sharing, at the default place, runs take so many of it

Requests = list[tuple[int, int]]


class Draw(NamedTuple):
    """How the queries of a place are drawn: u evenly, g from a normal law."""

    x: int = 20
    most: int = 100  # k: from 2 to this, or about it
    every_law: str = "u"
    k_law: str = "u"
    longest: int = LONGEST


class Made(NamedTuple):
    """A run that was made: when it was due, for which k, what it took, and for which queries."""

    due: int
    k: int
    seconds: float
    queries: tuple[int, ...]


class Outcome(NamedTuple):
    """Results of a plan at one point, averaged over the draws."""

    cost: float  # of a unit of time: the sum of the k of its runs
    seconds: float  # CPU time of a unit
    queries: float  # answered in a second of CPU time
    latency: float  # units
    published: float  # the latency, in units, if a run took time in proportion to n² k


def requests(draw: Draw, seed: int) -> Requests:
    """Queries (every, k). Those of a larger x begin with those of a smaller one, and k only grows with its range."""
    rng = np.random.default_rng(seed)
    evenly = rng.random((2, MOST))
    normal = rng.normal(size=(2, MOST))
    longest = draw.longest
    every = 1 + np.floor(longest * evenly[0]) if draw.every_law == "u" else np.rint(longest + longest / 8 * normal[0])
    k = (
        2 + np.floor((draw.most - 1) * evenly[1])
        if draw.k_law == "u"
        else np.rint(draw.most + draw.most / 10 * normal[1])
    )
    return [(int(max(1, a)), int(max(2, b))) for a, b in zip(every[: draw.x], k[: draw.x], strict=True)]


def answer(stream: Uncertain, at: int, ks: Sequence[int]) -> Any:
    """One run: the answers for every k, from the window at a time."""
    part = stream.at(at)
    scores, chances, rules = stream.scores[part], stream.chances[part], stream.rules[part]
    if stream.streams is None:
        return ranked(scores, chances, rules, [SemanticsRequest(k, "pk-topk") for k in ks])
    tops = sb.uncertain.topk_probabilities(scores, chances, sorted(set(ks)), rules)
    sums = [np.bincount(stream.streams[part], column) for column in tops.T]
    best = {k: np.argsort(-mine)[:k] for k, mine in zip(sorted(set(ks)), sums, strict=True)}
    return [best[k] for k in ks]


def made(stream: Uncertain, asked: Requests, method: str) -> list[Made]:
    """Make all runs of a plan while the stream lasts."""
    found = []
    for run in sb.uncertain.schedule(asked, method).upcoming(0):
        if run.time > UNITS:
            break
        ks = [asked[place][1] for place in run.queries]
        took = best_of(partial(answer, stream, run.time, ks), 2).best
        found.append(Made(run.time, run.k_max, took, run.queries))
    return found


def latency(runs: Sequence[Made], asked: Requests, seconds: Callable[[Made], float], unit: float) -> float:
    """By how much the time between two answers of a query is longer than asked for, in all: the mean query's, in units.

    The clock begins at 0, when all queries have been answered.
    """
    free = 0.0
    last = [0.0] * len(asked)
    late = [0.0] * len(asked)
    for run in runs:
        free = max(free, run.due * unit) + seconds(run)
        for query in run.queries:
            late[query] += max(0.0, free - last[query] - asked[query][0] * unit)
            last[query] = free
    return float(np.mean(late)) / unit


class Place(NamedTuple):
    """A place in a figure: a stream by what makes it, and how queries are drawn."""

    make: Callable[..., Uncertain]
    sizes: tuple[int, ...]
    draw: Draw


@cache
def _all_made(place: Place, method: str, seed: int) -> list[Made]:
    stream = place.make(*place.sizes)
    answer(stream, 1, [2, 3])  # compile and allocate before timing
    return made(stream, requests(place.draw, seed), method)


def outcomes(place: Place, default: Place, seeds: int) -> dict[str, Outcome]:
    """Results of each method at a point, with the time unit of the default point."""
    n, usual = (float(at.make(*at.sizes).window) for at in (place, default))
    unit = _mean(_seconds, default, seeds) / UNITS / OVERLOAD
    published_unit = usual**2 * _mean(_cost, default, seeds) / UNITS / OVERLOAD
    found = {}
    for method in METHODS:
        each = []
        for seed in range(seeds):
            runs, asked = _all_made(place, method, seed), requests(place.draw, seed)
            answers = sum(len(run.queries) for run in runs)
            each.append(
                Outcome(
                    sb.uncertain.schedule(asked, method).cost_per_unit,
                    _seconds(runs) / UNITS,
                    answers / _seconds(runs),
                    latency(runs, asked, lambda run: run.seconds, unit),
                    latency(runs, asked, lambda run: n * n * run.k, published_unit),
                )
            )
        found[method] = Outcome(*np.mean(each, axis=0).tolist())
    return found


def _mean(what: Callable[[list[Made]], float], default: Place, seeds: int) -> float:
    """Results without sharing at the default point."""
    return float(np.mean([what(_all_made(default, "none", seed)) for seed in range(seeds)]))


def _seconds(runs: list[Made]) -> float:
    return sum(run.seconds for run in runs)


def _cost(runs: list[Made]) -> float:
    return float(sum(run.k for run in runs))
