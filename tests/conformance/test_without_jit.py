"""Every engine gives the same answers as plain Python: catches kernels that only mean what they say once compiled."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests import oracle
from tests.drive import ALGORITHMS, WITH_TIES, count_query, push_count, push_time, run, time_query
from tests.programs import without_compiler


def check_seeded_cases(algorithm):
    """A small, seeded set of cases of both axes; run by the subprocess below, where nothing is compiled."""
    draw = random.Random(20110322)
    for _ in range(25):
        size = draw.randint(1, 20)
        query = oracle.Asked(
            k=draw.choice([1, 2, 4, 30]),
            size=size,
            slide=draw.randint(1, size),
            origin=draw.randint(-20, 20),
            full_only=draw.random() < 0.3,
            ascending=draw.random() < 0.4,
        )
        policies = [False, True] if algorithm in WITH_TIES else [False]
        position, rows = draw.randint(-50, 50), []
        for i in range(draw.choice([0, 1, 7, 80])):
            position += draw.choice([0, 0, 1, 2, 5, 60])
            rows.append((position, draw.choice([*map(float, range(6)), float("inf"), float("nan")]), i * 37 % 101))
        counted = [row[1:] for row in rows]
        for query in [replace(query, tied=tied) for tied in policies]:
            batches = [rows[:3], rows[3:40], rows[40:]]
            assert run(time_query(query), algorithm, batches, push_time) == oracle.answers(query, rows)
            batches = [counted[:3], counted[3:40], counted[40:]]
            assert run(count_query(query), algorithm, batches, push_count) == oracle.count_answers(query, counted)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_same_answers_without_the_compiler(algorithm):
    without_compiler(
        "from tests.conformance.test_without_jit import check_seeded_cases\n"
        f"check_seeded_cases({algorithm!r})\n"
        "from skyband.kernels.order import beats\n"
        "assert not hasattr(beats, 'py_func'), 'the kernels were compiled after all'\n"
    )


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_same_cases_compiled(algorithm):
    check_seeded_cases(algorithm)
