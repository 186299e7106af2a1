"""Random texts are compiled or rejected with an error of ours, never with another."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from skyband.errors import SkybandError
from skyband.expressions import compile_expression
from skyband.expressions.failures import EvaluationError
from skyband.expressions.registry import FUNCTIONS
from tests.expressions.generator import LEAVES, LITERALS, table

WORDS = """
    ( ) , + - * / % || = <=> < >= :: . AND OR NOT ! IS NULL IN BETWEEN LIKE CASE WHEN THEN ELSE END CAST AS INT DATE
    DECIMAL(5,2) TIMESTAMP INTERVAL 5 MINUTES 'x' FROM ESCAPE DISTINCT `b` 1e400 1.5BD ? # ' \\
"""


@pytest.mark.parametrize("seed", range(60))
def test_random_words(seed):
    rng = np.random.default_rng(seed)
    schema = table(rng, rows=1).schema
    vocabulary = [*WORDS.split(), *(name for names in LEAVES.values() for name in names), *FUNCTIONS]
    for _ in range(300):
        text = " ".join(rng.choice(vocabulary, int(rng.integers(1, 12))).tolist())
        try:
            compile_expression(text, schema)
        except SkybandError:
            continue


@pytest.mark.parametrize("seed", range(60))
def test_random_calls(seed):
    """Every function with arguments of any type: rejected, or evaluated to the type it promises."""
    rng = np.random.default_rng(seed)
    data = table(rng, rows=20)
    operands = [name for names in LEAVES.values() for name in names] + [
        text for some in LITERALS.values() for text in some
    ]
    accepted = 0
    for name, entry in FUNCTIONS.items():
        if not entry.is_called(name):
            continue
        for _ in range(12):
            count = int(rng.integers(entry.least, min(entry.most, 3) + 1))
            text = f"{name}({', '.join(rng.choice(operands, count).tolist())})"
            try:
                compiled = compile_expression(text, data.schema)
                found = compiled.evaluate(data)
            except EvaluationError:
                accepted += 1
            except SkybandError:
                continue
            else:
                assert (found.type, len(found)) == (compiled.type, 20), text
                accepted += 1
    assert accepted > 200


def test_text_beyond_two_gigabytes():
    data = pa.table({"a": ["x"] * 30})
    with pytest.raises(EvaluationError, match=r"SKYBAND_TOO_LONG.*more than 2 GB together"):
        compile_expression("lpad(a, 100000000)", data.schema).evaluate(data)
