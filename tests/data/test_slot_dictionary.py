"""Dictionaries give one slot to each value of an owner, through growth, removal, reuse and restarts."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from skyband.data.key_dictionary import KeyDictionary
from skyband.data.slot_dictionary import NumberDictionary, TextDictionary
from skyband.errors import InvalidInputError
from tests.programs import without_compiler

KINDS = {
    "int": (pa.int64(), [0, -1, 2**62, -(2**63), 7]),
    "uint": (pa.uint64(), [0, 2**64 - 1, 7]),
    "float": (pa.float64(), [0.0, -1.5, 1e300, 5e-324]),
    "text": (pa.string(), ["", "\0", "\0\0", "ä", "seven b", "eight by", "nine byte", "x" * 300, "x" * 299 + "y"]),
    "bytes": (pa.large_binary(), [b"", b"\0", b"\xff" * 8, b"\xff" * 9]),
}


def drawn(random, arrow, special):
    if random.random() < 0.3:
        return random.choice(special)
    number = random.randrange(2000)
    if arrow in (pa.string(), pa.large_binary()):
        text = f"{'key' * (number % 5)}{number}"
        return text if arrow == pa.string() else text.encode()
    return arrow.to_pandas_dtype()(number)


def of_kind(arrow):
    return TextDictionary if arrow in (pa.string(), pa.large_binary()) else NumberDictionary


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_slots_are_those_of_pairs(seed, kind):
    check_slots(seed, kind, [1, 30, 3000])


def check_slots(seed, kind, sizes):
    random, (arrow, special) = Random(seed), KINDS[kind]
    needed: dict[tuple[int, object], int] = {}
    book = of_kind(arrow)(lambda slots: ~np.isin(np.arange(slots), list(needed.values())))
    for _ in range(12):
        rows = random.choice(sizes)
        values = pa.array([drawn(random, arrow, special) for _ in range(rows + 3)], arrow)[3:]
        owners = np.array([random.randrange(50) for _ in range(rows)])
        slots = book.slots_of(values, owners)
        for owner, value, slot in zip(owners.tolist(), values.to_pylist(), slots.tolist(), strict=True):
            assert needed.setdefault((owner, value), slot) == slot
        assert len(set(needed.values())) == len(needed)
        needed = {pair: slot for pair, slot in needed.items() if random.random() < 0.6}
        if random.random() < 0.5:
            state = book.state()
            assert len(book) == len(needed)
            values, again = book.values(state["slots"]), of_kind(arrow)(book._unused)
            again.load(state, values)
            book = again
        held = np.array([*needed.values(), -1])
        assert book.values(held).type == arrow
        assert book.values(held).to_pylist() == [value for _, value in needed] + [None]
        assert book.owners[held[:-1]].tolist() == [owner for owner, _ in needed]


@pytest.mark.parametrize("kind", [NumberDictionary, TextDictionary])
def test_slots_and_bytes_are_used_again(kind):
    book = kind(lambda slots: np.ones(slots, bool))
    for low in range(0, 100_000, 1000):
        values = pa.array(range(low, low + 1000))
        book.slots_of(values if kind is NumberDictionary else values.cast(pa.string()))
    assert book.slots < 5000
    assert book.keys.letters.size < 100_000


def test_many_keys_of_one_batch():
    for values in (pa.array(range(70_000)), pa.array([f"key {i}" for i in range(70_000)])):
        book = KeyDictionary(lambda slots: np.zeros(slots, bool))
        slots = book.slots_of(values)
        assert slots.tolist() == list(range(70_000))
        assert book.slots_of(values.slice(69_000)).tolist() == list(range(69_000, 70_000))
        assert book.values(slots).equals(values)


@pytest.mark.parametrize("kind", ["int", "uint", "float", "text", "bytes"])
def test_prefixes_are_in_the_order_of_keys(kind):
    arrow, special = KINDS[kind]
    values = sorted({*special, *(drawn(Random(seed), arrow, special) for seed in range(200))})
    book = KeyDictionary(lambda slots: np.zeros(slots, bool))
    slots = book.slots_of(pa.array(values, arrow))
    order = book.keys.prefix[slots].tolist()
    assert order == sorted(order)
    as_bytes = [value.encode() if isinstance(value, str) else value for value in values]
    for one, other, a, b in zip(as_bytes, as_bytes[1:], order, order[1:], strict=False):
        assert a < b or one[:8].ljust(8, b"\0") == other[:8].ljust(8, b"\0")


def test_text_and_numbers_per_group():
    for values in (pa.array(["a", "b", "a"]), pa.array([1, 2, 1])):
        book = KeyDictionary(lambda slots: np.zeros(slots, bool), True)
        slots = book.slots_of(values, np.array([0, 0, 1]))
        assert len(set(slots.tolist())) == 3
        assert book.keys.groups[slots].tolist() == [0, 0, 1]
        assert book.groups.tolist() == [0, 0, 1]
        assert book.values(slots).equals(values)


def test_another_type():
    needed = True
    book = KeyDictionary(lambda slots: np.full(slots, not needed))
    book.slots_of(pa.array([1, 2]))
    with pytest.raises(InvalidInputError, match="keys changed type from int64 to string, so one key would be"):
        book.slots_of(pa.array(["1"]))
    needed = False
    assert book.values(book.slots_of(pa.array(["1"]))).to_pylist() == ["1"]
    assert book.slots_of(pa.array(["1"], pa.large_string())).tolist() == [0]


def test_stored_slots_must_exist():
    book = NumberDictionary(lambda slots: np.zeros(slots, bool))
    for slots in ([-1], [3]):
        with pytest.raises(ValueError, match="of a dictionary with 3"):
            book.load({"slots": np.array(slots), "groups": np.zeros(1, np.int64), "size": 3}, pa.array([7]))


@pytest.mark.parametrize("size", [-1, 2**31, 2**32 - 1, 2**32, 2**62])
@pytest.mark.parametrize("values", [pa.array([7]), pa.array(["7"])], ids=["numbers", "texts"])
def test_a_forged_size_reserves_no_memory(size, values):
    book = KeyDictionary(lambda slots: np.zeros(slots, bool))
    with pytest.raises(ValueError, match=f"with {size}"):
        book.load({"slots": np.array([0]), "groups": np.zeros(1, np.int64), "size": size}, values)


def test_not_compiled():
    without_compiler(
        "from tests.data.test_slot_dictionary import KINDS, check_slots\n"
        "for kind in KINDS:\n    check_slots(1, kind, [1, 30])"
    )
