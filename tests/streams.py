"""Streams and queries that hypothesis draws: small numbers, so that ties, equal times and full windows are common."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from tests.oracle import Asked

# Mostly a handful of whole numbers; now and then what is hard to rank, or cannot be ranked at all.
PLAIN = st.integers(0, 6).map(float)
HARD = st.sampled_from([math.inf, -math.inf, -0.0, 0.0, math.nan, 1e-300, 2.5])
SCORES = st.one_of(PLAIN, PLAIN, PLAIN, HARD)

# Steps between neighbours: none (equal times), small ones, and now and then a gap that empties every window.
STEPS = st.sampled_from([0, 0, 0, 1, 1, 2, 3, 5, 11, 150])

PRIME = 10_007


@st.composite
def asked(draw):
    """A query in plain numbers; the slide divides the size only by chance."""
    size = draw(st.integers(1, 24))
    return Asked(
        k=draw(st.sampled_from([1, 1, 2, 3, 5, 40])),
        size=size,
        slide=draw(st.integers(1, size)),
        origin=draw(st.integers(-30, 30)),
        full_only=draw(st.booleans()),
        ascending=draw(st.booleans()),
    )


@st.composite
def time_rows(draw, *, most=40, scores=SCORES):
    """Rows ``(position, score, id)`` in stream order, some before 1970; ids are distinct and in no order."""
    steps = draw(st.lists(st.tuples(STEPS, scores), max_size=most))
    position = draw(st.integers(-60, 60))
    factor = draw(st.integers(1, PRIME - 1))
    rows = []
    for i, (step, score) in enumerate(steps):
        position += step
        rows.append((position, score, (i + 1) * factor % PRIME - 5000))
    return rows


@st.composite
def count_rows(draw, *, most=60, scores=SCORES):
    """Rows ``(score, id)`` for count windows."""
    drawn = draw(st.lists(scores, max_size=most))
    factor = draw(st.integers(1, PRIME - 1))
    return [(score, (i + 1) * factor % PRIME - 5000) for i, score in enumerate(drawn)]


@st.composite
def cut(draw, rows):
    """The rows in consecutive batches of any size, empty ones included."""
    cuts = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=8)))
    return [rows[low:high] for low, high in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
