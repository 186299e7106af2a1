"""Snapshots: what goes in comes out, and anything that is not a whole snapshot of this version is refused."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skyband as sb
from skyband.snapshot import VERSION, decode, encode
from tests.drive import ALGORITHMS

names = st.text(max_size=5).map("_".__add__)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text() | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)


def monitor(algorithm="auto"):
    query = sb.TopK(k=2, size="10 seconds", slide="3 seconds")
    made = sb.Monitor(query, algorithm)
    made.push([1_000_000, 4_000_000, 9_000_000], [3.0, 9.0, 5.0], ["x", "y", "z"], groups=["a", None, "b"])
    return made


@given(st.dictionaries(names, values, max_size=5))
def test_round_trip(packed):
    assert decode(encode(packed)) == packed


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.int32, np.uint8, bool, ">f8"])
@pytest.mark.parametrize("shape", [(0,), (3,), (2, 0), (2, 3)])
def test_arrays_round_trip(dtype, shape):
    array = np.arange(np.prod(shape), dtype=np.int64).reshape(shape).astype(dtype)
    again = decode(encode({"a": [{"b": array}]}))["a"][0]["b"]
    assert again.dtype == array.dtype
    assert again.shape == array.shape
    assert np.array_equal(again, array)
    assert again.flags.writeable, "kernels write into resumed arrays"


def test_special_floats_and_strided_arrays():
    array = np.array([np.inf, 1.0, -np.inf, 2.0, np.nan, 3.0, -0.0])[::2]
    again = decode(encode({"a": array}))["a"]
    assert again.tobytes() == array.tobytes()


def test_numpy_numbers_become_plain():
    assert decode(encode({"n": np.int64(7), "x": np.float64(0.5), "b": np.True_})) == {"n": 7, "x": 0.5, "b": True}


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_bytes_are_read(kind):
    blob = monitor().snapshot()
    assert sb.Monitor.resume(kind(blob)).snapshot() == blob


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_damaged_byte_is_noticed(algorithm):
    blob = monitor(algorithm).snapshot()
    # Every byte near the front, and a sample of those behind.
    for at in [*range(64), *range(64, len(blob), 97), len(blob) - 1]:
        damaged = bytearray(blob)
        damaged[at] ^= 1 + at % 255
        with pytest.raises(sb.SnapshotError):
            sb.Monitor.resume(bytes(damaged))


def test_truncated():
    blob = monitor().snapshot()
    for stop in [0, 1, 7, 8, 11, 12, 27, 28, 29, 36, 50, len(blob) // 2, len(blob) - 1]:
        with pytest.raises(sb.SnapshotError):
            sb.Monitor.resume(blob[:stop])


def test_more_bytes_than_were_written():
    with pytest.raises(sb.SnapshotError, match="damaged"):
        sb.Monitor.resume(monitor().snapshot() + b"\x00")


@pytest.mark.parametrize("version", [0, VERSION + 1, 2**31])
def test_another_version_says_which(version):
    blob = monitor().snapshot()
    other = blob[:8] + version.to_bytes(4, "little") + blob[12:]
    with pytest.raises(sb.SnapshotError, match=f"version {version}, but this library supports version {VERSION}"):
        sb.Monitor.resume(other)


@pytest.mark.parametrize("blob", [b"", b"SKYBAND", b"PAR1" * 100, b"\x80\x04]\x94.", hashlib.sha512(b"x").digest()])
def test_foreign_bytes(blob):
    with pytest.raises(
        sb.SnapshotError, match=f"these {len(blob)} bytes are not a Skyband snapshot; nothing was resumed"
    ):
        sb.Monitor.resume(blob)


@pytest.mark.parametrize("blob", [None, "text", 7, [1, 2], {}])
def test_not_bytes(blob):
    with pytest.raises(sb.SnapshotError, match=f"a snapshot must be bytes, got {type(blob).__name__}"):
        sb.Monitor.resume(blob)


def test_the_error_is_a_value_error():
    assert issubclass(sb.SnapshotError, sb.SkybandError)
    assert issubclass(sb.SnapshotError, ValueError)


def test_same_state_same_bytes():
    assert monitor().snapshot() == monitor().snapshot()
    assert monitor().snapshot() == (kept := monitor()).snapshot() == kept.snapshot()


FOREIGN = [
    {},
    {"queries": None},
    {"queries": [{"k": 0, "size": 5}]},
    {"queries": [{"size": 5}], "algorithm": "panes"},
    {"queries": [{"k": 1, "size": 5}]},
    {"queries": [{"k": 1, "size": 5}], "algorithm": "of tomorrow"},
    {"queries": [{"k": 1, "size": 5}], "algorithm": ["panes"]},
    {"queries": [{"k": 1, "size": 5}], "algorithm": "panes", "groups": b"", "intake": {}},
    {"$array": ["<i8", [5], 0]},
    {"$array": 7},
    {"$bytes": "x"},
]


@pytest.mark.parametrize("values", FOREIGN, ids=str)
def test_a_whole_blob_of_something_else(values):
    with pytest.raises(sb.SnapshotError, match=r"correct checksum but unexpected contents.*nothing was resumed"):
        sb.Monitor.resume(encode(values))


@pytest.mark.parametrize("change", [("intake", None), ("pending", {}), ("lanes", []), ("ids", {}), ("groups", b"x")])
def test_a_snapshot_with_a_part_exchanged(change):
    saved = decode(monitor().snapshot())
    with pytest.raises(sb.SnapshotError, match="has a correct checksum but unexpected contents"):
        sb.Monitor.resume(encode({**saved, change[0]: change[1]}))


def test_bad_queries_to_resume_under_are_the_users():
    with pytest.raises(sb.InvalidQueryError, match="is not a query"):
        sb.Monitor.resume(monitor().snapshot(), ["big"])
