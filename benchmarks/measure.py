"""Timing: CPU time of this thread, with compiled kernels and engines in their steady state.

Other processes may use the machine, so wall time is unreliable; `time.thread_time` measures the CPU time of this
thread. A result is the best of several rounds; the spread is the distance of their median from it. On streams whose
scores change with time, it is the mean over whole periods instead.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from benchmarks import workloads
from skyband import Monitor, TopK
from skyband.data.answer_log import AnswerLog
from skyband.kernels.stream import Rows
from skyband.topk.algorithms import ENGINES, Engine

NOTHING = np.empty(0, np.int64)
STREAM = 8_000_000  # generated objects; longer runs repeat them, and every window is shorter
LONGEST_ROUND = 1_000_000
LOOKS = 120  # times that candidates are counted in a period


class Timing(NamedTuple):
    """Seconds of CPU time of several rounds of the same work."""

    rounds: list[float]

    @property
    def best(self) -> float:
        return min(self.rounds)

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def spread(self) -> float:
        """Relative distance of the median from the best: 0.1 is ten per cent."""
        return self.median / self.best - 1


class Cell(NamedTuple):
    """One algorithm at one point of the grid."""

    algorithm: str
    stream: str
    size: int
    slide: int
    k: int
    ns: float = 0.0  # CPU time per object: best round, or mean over whole periods
    spread: float = 0.0
    objects: int = 0  # measured, the window being full
    slides: float = 0.0  # that those objects are
    candidates_mean: float = 0.0
    candidates_max: int = 0
    state_bytes: int = 0
    refills: float | None = None  # a slide
    skipped: str = ""  # the reason, if there is no result


def best_of(work: Callable[[], Any], rounds: int, clock: Callable[[], float] = time.thread_time) -> Timing:
    """Run the work `rounds` times; its results are freed outside of the timing."""
    found = []
    for _ in range(rounds):
        begin = clock()
        kept = work()
        found.append(clock() - begin)
        del kept
    return Timing(found)


def state_bytes(state: Any) -> int:
    """Bytes of all arrays in an engine's state between two calls, including reserved capacity."""
    if isinstance(state, np.ndarray):
        return state.nbytes
    if isinstance(state, dict):
        return sum(map(state_bytes, state.values()))
    return 0


@cache
def compiled(algorithm: str) -> None:
    """Compile everything the engine needs, on both axes."""
    for query, positions in (
        (TopK(k=2, size=64, slide=16), NOTHING),
        (TopK(k=2, size="64 microseconds", slide="16 microseconds"), None),
    ):
        engine = engine_of(algorithm, query)
        places = np.arange(999) if positions is None else positions
        engine.advance(Rows(np.random.default_rng(1).random(999), places, NOTHING, 0, 0), 999, 0, AnswerLog())
        _ = engine.candidates


def engine_of(algorithm: str, query: TopK) -> Engine:
    """The engine alone, without checks, groups and tables."""
    return ENGINES[Monitor(query, algorithm).algorithm]([query])


class Feed:
    """Feeds an engine on a count axis and measures the time."""

    def __init__(self, engine: Engine, scores: Any, first: int = 0) -> None:
        self.engine = engine
        self.scores = scores
        self.first = first  # the declared start of the stream: windows that start earlier are not written
        self.fed = 0
        self.log = AnswerLog()

    def take(self, count: int) -> float:
        """Feed the next `count` objects; return the seconds of CPU time that took."""
        spent = 0.0
        while count:
            at = self.fed % self.scores.size
            some = min(count, self.scores.size - at)
            rows = Rows(self.scores[at : at + some], NOTHING, NOTHING, self.fed, self.fed)
            begin = time.thread_time()
            self.engine.advance(rows, self.fed + some, self.first, self.log)
            spent += time.thread_time() - begin
            self.log.take()
            self.fed += some
            count -= some
        return spent

    def take_within(self, until: int, seconds: float, step: int) -> bool:
        """Feed until this many objects were fed in total; return False if the time limit was exceeded."""
        spent = 0.0
        while self.fed < until:
            spent += self.take(min(step, until - self.fed))
            if spent > seconds:
                return False
        return True


@cache
def measure_cell(algorithm: str, stream: str, size: int, slide: int, k: int, cap: float, rounds: int) -> Cell:
    """Fill the window, then measure rounds of whole slides; count the candidates between them."""
    if workloads.period_of(stream):
        return measure_periods(algorithm, stream, size, slide, k, cap)
    cell = Cell(algorithm, stream, size, slide, k)
    compiled(algorithm)
    # Windows that are not full are not reported, so the naive engine does not select in them.
    query = TopK(k=k, size=size, slide=slide, full_only=True)
    try:
        feed = Feed(engine_of(algorithm, query), workloads.scores_of(stream, STREAM))
    except ValueError as refused:
        return cell._replace(skipped=_short(refused))
    # Rounds end one object before a window does, when an engine holds the most.
    if not feed.take_within(2 * size - 1 if size <= 100_000 else size - 1, cap, max(slide, size // 100)):
        return cell._replace(skipped=f"the window was not full after {cap:.0f} s")
    count = slide
    spent = feed.take(count)
    while spent < 0.03 and 2 * count <= max(LONGEST_ROUND, slide):
        count *= 2
        spent = feed.take(count)
    if spent > cap:
        return cell._replace(skipped=f"a slide takes {spent:.0f} s")
    before = feed.engine.counters().get("refills")
    timed, held, largest = [], [], 0
    for round_ in range(rounds):
        if round_ and (round_ + 1) * spent > cap:
            break
        timed.append(feed.take(count))
        held.append(feed.engine.candidates)
        largest = max(largest, state_bytes(feed.engine.state()))
    timing = Timing(timed)
    slides = count * len(timed) / slide
    after = feed.engine.counters().get("refills")
    return cell._replace(
        ns=1e9 * timing.best / count,
        spread=timing.spread,
        objects=count * len(timed),
        slides=slides,
        candidates_mean=statistics.fmean(held),
        candidates_max=max(held),
        state_bytes=largest,
        refills=None if before is None or after is None else (after - before) / slides,
    )


@cache
def measure_periods(
    algorithm: str, stream: str, size: int, slide: int, k: int, cap: float, objects: int | None = None
) -> Cell:
    """Fill the window, then measure the mean over the same objects for every algorithm.

    `objects` defaults to one period of the stream. At the time limit, the cell ends early: its `objects` are fewer.
    """
    cell = Cell(algorithm, stream, size, slide, k)
    compiled(algorithm)
    try:
        engine = engine_of(algorithm, TopK(k=k, size=size, slide=slide, full_only=True))
    except ValueError as error:
        return cell._replace(skipped=_short(error))
    return _over_periods(cell, engine, cap, objects or workloads.period_of(stream) or LONGEST_ROUND)


def _over_periods(cell: Cell, engine: Engine, cap: float, objects: int) -> Cell:
    feed = Feed(engine, workloads.scores_of(cell.stream, STREAM))
    if not feed.take_within(cell.size - 1, cap, max(cell.slide, cell.size // 100)):
        return cell._replace(skipped=f"the window was not full after {cap:.0f} s")
    step = max(cell.slide, objects // LOOKS // cell.slide * cell.slide)
    before = feed.engine.counters().get("refills")
    spent, done, largest = 0.0, 0, 0
    held = []
    while done < objects and spent < cap:
        some = min(step, objects - done)
        spent += feed.take(some)
        done += some
        held.append(feed.engine.candidates)
        if len(held) % (LOOKS // 8) == 1:
            largest = max(largest, state_bytes(feed.engine.state()))
    slides = done / cell.slide
    after = feed.engine.counters().get("refills")
    return cell._replace(
        ns=1e9 * spent / done,
        objects=done,
        slides=slides,
        candidates_mean=statistics.fmean(held),
        candidates_max=max(held),
        state_bytes=largest,
        refills=None if before is None or after is None else (after - before) / slides,
    )


def response_times(algorithm: str, stream: Any, query: TopK, windows: int, cap: float) -> list[float] | str:
    """CPU seconds from a slide's objects to its answer, for each full window of a time query; or an error."""
    compiled(algorithm)
    try:
        engine = engine_of(algorithm, query)
    except ValueError as refused:
        return _short(refused)
    log, spent = AnswerLog(), 0.0
    found: list[float] = []
    for end, rows in _slides(stream, query):
        if len(found) == windows or spent > cap:
            break
        begin = time.thread_time()
        engine.advance(rows, end, 0, log)
        taken = time.thread_time() - begin
        spent += taken
        if log.take() and end >= query.sliding.size:
            found.append(taken)
    return found if len(found) >= 10 else f"fewer than 10 full windows within {cap:.0f} s"


def _slides(stream: Any, query: TopK) -> Iterator[tuple[int, Rows]]:
    """The objects of one slide after another, with the slide's end."""
    slide = query.sliding.slide
    ends = np.arange(slide, int(stream.position[-1]), slide)
    stops = np.searchsorted(stream.position, ends)
    low = 0
    for end, stop in zip(ends, stops, strict=True):
        rows = Rows(stream.score[low:stop], stream.position[low:stop], NOTHING, 0, low)
        yield int(end), rows
        low = int(stop)


def _short(error: Exception) -> str:
    return "refused: " + str(error).split(";")[0]
