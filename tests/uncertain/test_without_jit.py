"""The kernels of uncertain streams mean the same as plain Python: catches what only holds once compiled."""

from __future__ import annotations

import random

import skyband as sb
from tests.programs import without_compiler
from tests.uncertain import oracle
from tests.uncertain.drive import answers_of, check_answer, random_query, random_stream, run, timed, window
from tests.uncertain.test_probabilities import random_input


def check_seeded_cases():
    """A small, seeded set of cases; run by the subprocess below, where nothing is compiled."""
    for seed in range(12):
        draw = random.Random(seed)
        scores, chances, labels = random_input(draw)
        found = sb.uncertain.topk_probabilities(scores, chances, [1, 3], labels)
        slow = sb.uncertain.topk_probabilities(scores, chances, [1, 3], labels, method="definition")
        for column, k in enumerate((1, 3)):
            truth = oracle.tops(oracle.tuples(scores, chances, labels), k)
            assert all(abs(a - b) < 1e-12 for a, b in zip(found[:, column], truth, strict=True))
            assert all(abs(a - b) < 1e-12 for a, b in zip(slow[:, column], truth, strict=True))
        queries = [timed(random_query(draw, f"q{i}", 4)) for i in range(3)]
        rows = random_stream(draw, 12, 4)
        for method in ("greedy", "dp"):
            for (name, time), answer in answers_of(run(queries, [rows], plan=method)).items():
                query = next(query for query in queries if query.name == name)
                check_answer(query, window(rows, time - 4, time), answer)
    sure = sb.uncertain.Monitor(sb.UncertainTopK(k=2, size=3000, every=700), epsilon=1e-6)
    draw = random.Random(1)
    sure.push(None, [draw.random() for _ in range(1500)], [draw.choice([0.5, 1.0]) for _ in range(1500)])
    assert sure.metrics()["dropped"] > 1000


def test_same_answers_without_the_compiler():
    without_compiler("from tests.uncertain.test_without_jit import check_seeded_cases; check_seeded_cases()")


def test_same_cases_compiled():
    check_seeded_cases()
