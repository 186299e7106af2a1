"""What only longer streams reach in the pane executor: the look ahead, long panes, blocks and sweeps.

The conformance suite draws short streams, whose panes are never long enough to be selected from. Catches a bar that
was set too high and not gone back on, a pane that never gets room, a sweep that keeps what it should drop.
"""

from __future__ import annotations

import numpy as np
import pytest

import skyband as sb
from skyband.topk.kernels.candidates import held_count

SHAPES = {
    "uniform": lambda draw, n: draw.random(n),
    "rising": lambda draw, n: np.sort(draw.random(n)),
    "falling": lambda draw, n: -np.sort(draw.random(n)),
    "ties": lambda draw, n: draw.integers(0, 5, n).astype(float),
    "waves": lambda draw, n: np.sin(np.arange(n) / 500) + 0.1 * draw.normal(size=n),
    "rare": lambda draw, n: np.where(draw.random(n) < 0.01, 100 * draw.random(n), 0.0),
    "jumps": lambda draw, n: draw.random(n) + 10.0 ** (np.arange(n) // 700 % 3),
    "infinite": lambda draw, n: np.where(draw.random(n) < 0.3, np.inf, draw.normal(size=n)),
}


def pushed(queries, algorithm, positions, scores, step):
    """The answers over pushes of `step` rows."""
    monitor = sb.Monitor(queries, algorithm)
    for low in range(0, scores.size, step):
        part = slice(low, low + step)
        monitor.push(None if positions is None else positions[part], scores[part])
    monitor.finish()
    return monitor.answers()


def drawn(draw, name, timed, *, slide=None):
    """A query with windows of some thousand objects."""
    size = int(draw.integers(100, 8_000)) if slide is None else slide * int(draw.integers(1, 10))
    slide = slide or int(draw.integers(max(1, size // 20), size + 1))
    unit = " microseconds" if timed else None
    spelled = [f"{ticks}{unit}" if timed else ticks for ticks in (size, slide)]
    k, origin = int(draw.choice([1, 3, 10, 50, 200])), int(draw.integers(-100, 100))
    return sb.TopK(name=name, k=k, size=spelled[0], slide=spelled[1], origin=origin)


@pytest.mark.parametrize("shape", SHAPES)
def test_one_query_on_long_panes(shape):
    draw = np.random.default_rng(list(SHAPES).index(shape))
    for timed in (False, True) * 4:
        n = int(draw.integers(2_000, 15_000))
        scores = SHAPES[shape](draw, n)
        positions = np.sort(draw.integers(0, n, n)) if timed else None
        query = drawn(draw, "q", timed)
        wanted = sb.replay(query, positions, scores, algorithm="naive")
        for step in (n, 1_000, 37):
            assert pushed(query, "panes", positions, scores, step).equals(wanted), (query, n, step)


@pytest.mark.parametrize("shape", SHAPES)
def test_one_query_on_short_panes(shape):
    """The bar is that of the pane before: of the same length, or of another one if the window is cut unevenly."""
    draw = np.random.default_rng(list(SHAPES).index(shape))
    for uneven in (False, True) * 3:
        n, slide, k = 4_000, int(draw.integers(64, 400)), int(draw.choice([4, 10, 20]))
        query = sb.TopK(k=k, size=slide * int(draw.integers(2, 6)) - uneven * slide // 3, slide=slide)
        scores = SHAPES[shape](draw, n)
        wanted = sb.replay(query, None, scores, algorithm="naive")
        for step in (n, 37):
            assert pushed(query, "panes", None, scores, step).equals(wanted), (query, step)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("common", [True, False], ids=["one slide", "any slides"])
def test_many_queries_in_blocks(shape, common):
    draw = np.random.default_rng(list(SHAPES).index(shape) + 100)
    for timed in (False, True) * 2:
        n = int(draw.integers(5_000, 20_000))
        scores = SHAPES[shape](draw, n)
        positions = np.sort(draw.integers(0, n, n)) if timed else None
        slide = int(draw.integers(50, 2_000)) if common else None
        queries = [drawn(draw, f"q{i}", timed, slide=slide) for i in range(int(draw.integers(2, 12)))]
        wanted = sb.replay(queries, positions, scores, algorithm="mintopk")
        for step in (n, 1_500):
            assert pushed(queries, "panes", positions, scores, step).equals(wanted), (queries, n, step)


def test_a_look_ahead_that_misses_the_best_is_gone_back_on():
    """Poor objects wait in the pane already, and the sample sees only the rows it steps on: those are the best.

    Fewer than k rows reach the bar it suggests, but with those that wait there are k; the rows below must be taken all
    the same.
    """
    k, size = 1_000, 40_000
    query = sb.TopK(k=k, size=size)
    warm = np.random.default_rng(0).random(2 * size)
    for early in (1, k - 1, k, k + 1):
        poor = np.full(early, -5.0)
        rich = np.random.default_rng(early).random(size - early)
        rich[np.arange(0, rich.size, 150)] += 10.0
        scores = np.concatenate([warm, poor, rich])
        parts = [warm.size, early, rich.size]
        monitor = sb.Monitor(query, "panes")
        for low, length in zip(np.cumsum([0, *parts[:-1]]), parts, strict=True):
            monitor.push(None, scores[low : low + length])
        assert monitor.answers().equals(sb.replay(query, None, scores, algorithm="naive")), early


@pytest.mark.parametrize(
    "queries",
    [
        [sb.TopK(k=10, size=10_000, slide=100)],
        [sb.TopK(k=10, size=10_000, slide=1_000)],
        [sb.TopK(name=f"q{i}", k=10, size=5_000 + 37 * i, slide=100 + 7 * i) for i in range(100)],
    ],
    ids=["short panes", "long panes", "many lattices"],
)
def test_between_two_questions_little_more_is_held_than_needed(queries):
    """Nobody asks for the candidates during a push, so that only the sweeps keep them few."""
    monitor = sb.Monitor(queries, "panes")
    scores = np.random.default_rng(1).random(120_000)
    monitor.push(None, scores)
    (engine,) = monitor._executors.engines
    held = held_count(engine._store, engine._pane)
    # What is needed, a block that is not worth a sweep yet, and an open pane that is not worth a cut.
    assert held <= 2 * engine.candidates + 256 + 1024 + 4 * 10
