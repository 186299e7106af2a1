"""JSON documents as lines: compared with the parser of the standard library on random documents."""

from __future__ import annotations

import json
import random

import pytest

from skyband.connectors.arrow.json_document import document_lines

TEXTS = ["a", 'x"y', "\\", "{", "[,", "a,b", "é", "\n", '\\"']


def value(rng, depth):
    kind = rng.random()
    if depth > 2 or kind < 0.5:
        return rng.choice([1, 2.5, None, True, *TEXTS])
    if kind < 0.75:
        return [value(rng, depth + 1) for _ in range(rng.randrange(3))]
    return {rng.choice(TEXTS): value(rng, depth + 1) for _ in range(rng.randrange(3))}


@pytest.mark.parametrize("seed", range(10))
def test_random_documents(seed):
    rng = random.Random(seed)
    for _ in range(100):
        rows = [{name: value(rng, 1) for name in rng.sample(TEXTS, rng.randrange(4))} for _ in range(rng.randrange(4))]
        document = rows[0] if rows and rng.random() < 0.2 else rows
        text = json.dumps(document, indent=rng.choice([None, 1, 2]), ensure_ascii=rng.random() < 0.5)
        lines = document_lines(f"{rng.choice(['', ' ', chr(10)])}{text}{rng.choice(['', chr(10)])}".encode())
        found = [json.loads(line) for line in lines.decode().split("\n") if line.strip()]
        assert found == (document if isinstance(document, list) else [document])


@pytest.mark.parametrize(
    "text",
    [
        *('[{"a":1}{"a":2},]', '[{"a":1},,{"a":2}]', '[{"a":1},]', '[,{"a":1}]', "[1]", '[{"a":1} 5]', '"x"', "5"),
        *('[{"a":1}] {"b":1}', '{"a":1}{"a":2}', '[[{"a":1}]]', '[{"a":1}', '[{"a":"1}]', "}{", '{"a": "b\n"}'),
    ],
)
def test_other_documents(text):
    assert document_lines(text.encode()) is None
