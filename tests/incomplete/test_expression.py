"""Scores by an expression over the streams: what they are, and that they are monotone."""

from __future__ import annotations

import math

import numpy as np
import pytest

import skyband as sb
from skyband.incomplete.expression import compiled
from skyband.incomplete.kernels.attributes import evaluate
from tests.incomplete import oracle
from tests.incomplete.drive import as_tuples, listed

BOUNDS = {"a": (0.0, 2.0), "b": (1.0, 9.0), "c": (-3.0, -1.0)}
STREAMS = ("a", "b", "c")
GOOD = {  # text: the same in Python
    "0.7 * a + sqrt(b)": lambda a, b, c: 0.7 * a + math.sqrt(b),
    "a * b - 1 / b": lambda a, b, c: a * b - 1 / b,
    "least(a, b, c + 4) + greatest(a, 0.5)": lambda a, b, c: min(a, b, c + 4) + max(a, 0.5),
    "-(10 - a) / b - abs(c)": lambda a, b, c: -(10 - a) / b + c,
    "ln(b) + exp(a / 2) + log10(b) + log1p(a)": lambda a, b, c: (
        math.log(b) + math.exp(a / 2) + math.log10(b) + math.log1p(a)
    ),
    "power(b, 1.5) - power(b, -0.5) + 2 * c": lambda a, b, c: b**1.5 - b**-0.5 + 2 * c,
    "a - -b * (2 + c + 3)": lambda a, b, c: a + b * (2 + c + 3),
    "b / -c": lambda a, b, c: b / -c,
}
BAD = {
    "a - b": "score falls if the value of 'b' rises",
    "a / b": "score falls if the value of 'b' rises",
    "a * c": "score falls if the value of 'a' rises",
    "a * (b + c)": "a factor can be negative and positive: with these bounds it is between -2 and 8",
    "sqrt(c)": "sqrt needs an argument of at least 0, but with these bounds it can be -3",
    "ln(a)": "ln needs an argument greater than 0, but with these bounds it can be 0",
    "1 / (a - 1)": "a divisor can be 0: with these bounds it is between -1 and 1",
    "abs(c)": "score falls if the value of 'c' rises",
    "power(a, b)": "exponent of power must be a constant",
    "power(c, 2)": "base of power must not be negative",
    "a + d": "stream in aggregate=.*'d'|unknown stream",
    "sin(a)": r"sin\(\) with 1 arguments is not supported",
    "a + 'x'": "'x' is not a finite number",
    "CAST(a AS INT)": "casts are not supported",
    "1 + 2": "contains no stream",
    "exp(1000 * a)": "exceed the float range",
    "a +": "expected a value",
}


@pytest.mark.parametrize("text", GOOD)
def test_an_expression_has_its_value_and_never_falls(text):
    rng = np.random.default_rng(5)
    scoring = compiled(text, STREAMS, BOUNDS)
    low, high = np.array([BOUNDS[stream] for stream in STREAMS]).T
    for _ in range(300):
        values = low + (high - low) * rng.random(3)
        assert evaluate(values, scoring, False) == pytest.approx(GOOD[text](*values.tolist()), rel=1e-14)
        more = np.where(
            rng.random(3) < 0.5, values, values + (high - values) * rng.random(3) * 10.0 ** -rng.integers(17)
        )
        assert evaluate(more, scoring, True) >= evaluate(values, scoring, False)


@pytest.mark.parametrize("text", BAD)
def test_what_is_not_known_to_be_monotone_is_refused(text):
    with pytest.raises(sb.SkybandError, match=BAD[text]):
        sb.IncompleteTopK(k=1, size=10, streams=STREAMS, bounds=BOUNDS, aggregate=text)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("method", ["exact", "sorted-lists"])
def test_answers_are_those_of_the_definition(monkeypatch, method, seed):
    rng = np.random.default_rng(seed)
    text = list(GOOD)[seed]
    asked = oracle.Asked(3, 30, 4, STREAMS, bounds=BOUNDS)
    streams = rng.choice(STREAMS, 400)
    low, high = np.array([BOUNDS[stream] for stream in streams]).T
    columns = None, rng.integers(0, 25, 400).tolist(), streams.tolist(), low + (high - low) * rng.random(400)
    query = sb.IncompleteTopK(
        k=3, size=30, every=4, streams=STREAMS, bounds=BOUNDS, aggregate=text, method=method, name="q"
    )

    def score(asked, mine):
        found = {one.stream: one.value for one in mine}
        return GOOD[text](*(found.get(stream, BOUNDS[stream][0]) for stream in STREAMS))

    monkeypatch.setattr(oracle, "score", score)
    wanted = oracle.answers(asked, as_tuples(*columns), count_axis=True)
    found = listed(sb.incomplete.replay(query, *columns))
    assert [(end, [obj for obj, _ in rows]) for end, rows in found] == [
        (end, [obj for obj, _ in rows]) for end, rows in wanted
    ]
    assert [score for _, rows in found for _, score in rows] == pytest.approx(
        [score for _, rows in wanted for _, score in rows], rel=1e-13
    )


def test_streams_of_the_input_and_numbers_as_names():
    query = sb.IncompleteTopK(k=1, size=2, aggregate="`0` * 2 + `1`")
    table = sb.incomplete.replay(query, None, ["x", "x"], [0, 1], [0.5, 0.25])
    assert table["score"].to_pylist() == [1.25]
    assert query.score_text == "`0` * 2 + `1`"


def test_a_function_is_refused_and_so_is_a_name_that_is_no_stream():
    with pytest.raises(sb.InvalidQueryError, match="is a function, which could not be stored"):
        sb.IncompleteTopK(k=1, size=2, aggregate=max)
    with pytest.raises(
        sb.InvalidQueryError, match=r"'median' must be one of 'sum'.* or an expression over the streams"
    ):
        sb.IncompleteTopK(k=1, size=2, aggregate="median", streams=["a"])


def test_a_restart_and_explain():
    query = sb.IncompleteTopK(k=1, size=4, streams=["a", "b"], aggregate="greatest(a, 2 * b)")
    assert (
        "score         greatest(a, 2 * b), which rises with the value of each stream" in sb.Workload([query]).explain()
    )
    monitor = sb.incomplete.Monitor(query)
    monitor.push(None, ["x", "y"], ["a", "b"], [0.75, 0.5])
    monitor = sb.incomplete.Monitor.resume(monitor.snapshot())
    monitor.push(None, ["x", "z"], ["b", "a"], [0.25, 0.75])
    assert monitor.answers().select(["object", "score"]).to_pylist() == [{"object": "y", "score": 1.0}]
