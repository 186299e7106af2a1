"""The dictionary of numbers per key gives one slot to each pair, through growth, removal and restarts."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from skyband.aggregate.item_dictionary import ItemDictionary, NumberDictionary

KINDS = {
    "int": (pa.int64(), [0, -1, 2**62, -(2**63), 7]),
    "uint": (pa.uint64(), [0, 2**64 - 1, 7]),
    "float": (pa.float64(), [0.0, -1.5, 1e300, 5e-324]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_slots_are_those_of_pairs(seed, kind):
    random, (arrow, special) = Random(seed), KINDS[kind]
    needed: dict[tuple[int, object], int] = {}
    book = NumberDictionary(lambda slots: ~np.isin(np.arange(slots), list(needed.values())))
    for _ in range(12):
        rows = random.choice([1, 30, 3000])
        values = [random.choice([*special, arrow.to_pandas_dtype()(random.randrange(2000))]) for _ in range(rows)]
        values = pa.array(values, arrow)
        keys = np.array([random.randrange(50) for _ in range(rows)])
        book.sweep()
        slots = book.slots_of(values, keys)
        for key, value, slot in zip(keys.tolist(), values.to_pylist(), slots.tolist(), strict=True):
            assert needed.setdefault((key, value), slot) == slot
        assert len(set(needed.values())) == len(needed)
        needed = {pair: slot for pair, slot in needed.items() if random.random() < 0.6}
        if random.random() < 0.5:
            state = book.state()
            assert len(book) == len(needed)
            values, again = book.values(state["slots"]), NumberDictionary(book._unused)
            again.load(state, values)
            book = again
        for (key, value), slot in needed.items():
            assert book.owners[slot] == key
            assert book.values(np.array([slot])).to_pylist() == [value]


def test_slots_are_used_again():
    book = NumberDictionary(lambda slots: np.ones(slots, bool))
    for low in range(0, 100_000, 1000):
        book.sweep()
        book.slots_of(pa.array(range(low, low + 1000)), np.zeros(1000, np.int64))
    assert book.slots < 5000


def test_text_and_numbers():
    for values in (pa.array(["a", "b", "a"]), pa.array([1, 2, 1])):
        book = ItemDictionary(lambda slots: np.zeros(slots, bool))
        slots = book.slots_of(values, np.array([0, 0, 1])).tolist()
        assert len(set(slots)) == 3
        assert book.owners[slots].tolist() == [0, 0, 1]
        assert book.values(np.array(slots)).equals(values)
