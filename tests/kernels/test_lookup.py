"""The hash table of pairs: the hash is that of 64-bit arithmetic, compiled and in Python."""

import numpy as np
import pytest

from skyband.kernels import lookup
from skyband.kernels._jit import kernel
from tests.programs import without_compiler

SPECIAL = [0, 1, -1, 2**31, -(2**31), 2**32 - 1, 2**62, -(2**62), 2**63 - 1, -(2**63)]


def numbers(random, count):
    return np.concatenate([SPECIAL, random.integers(-(2**63), 2**63 - 1, count)])


def home(key, mark, places):
    """The definition, with Python's integers."""
    wrapped = lambda number: (number + 2**63) % 2**64 - 2**63  # noqa: E731
    mixed = wrapped(key * 0x9E3779B97F4A7C15 + mark * 0xBF58476D1CE4E5B9)
    mixed = wrapped((mixed ^ (mixed >> 29)) * 0x94D049BB133111EB)
    return (mixed ^ (mixed >> 32)) & (places - 1)


@kernel
def homes(keys, marks, places, found):
    for i in range(keys.size):
        found[i] = lookup._home(keys[i], marks[i], places)


@pytest.mark.parametrize("places", [16, 2**20, 2**62])
def test_products_wrap_around(places):
    random = np.random.default_rng(places)
    keys, marks = numbers(random, 300), random.permutation(numbers(random, 300))
    found = np.empty(keys.size, np.int64)
    homes(keys, marks, places, found)
    assert found.tolist() == [home(*pair, places) for pair in zip(keys.tolist(), marks.tolist(), strict=True)]


def test_plain_python_finds_what_compiled_code_has_stored():
    random = np.random.default_rng(7)
    keys, marks = numbers(random, 40), np.arange(50)
    small, table = lookup.empty_lookup(0), lookup.empty_lookup(50)
    for i in range(8):
        enter(small, keys[i], marks[i], i)
    lookup.move(small, table)
    for i in range(8, keys.size):
        enter(table, keys[i], marks[i], i)
    without_compiler(
        "import numpy as np\n"
        "from skyband.kernels import lookup\n"
        f"table = lookup.Lookup(*map(np.array, {[column.tolist() for column in table]}))\n"
        f"keys = np.array({keys.tolist()})\n"
        "for i in range(0, keys.size, 2):\n"
        "    lookup.drop(table, lookup.place_of(table, keys[i], i))\n"
        "for i in range(keys.size):\n"
        "    assert table.found[lookup.place_of(table, keys[i], i)] == (i if i % 2 else lookup.EMPTY)\n"
    )


@kernel
def enter(table, key, mark, number):
    lookup.put(table, lookup.place_of(table, key, mark), key, mark, number)
