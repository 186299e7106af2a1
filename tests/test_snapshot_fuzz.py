"""Snapshots that somebody has tampered with, checksum and all: refused or read as data, and nothing of them is run."""

from __future__ import annotations

import json
import sys
from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skyband as sb
from skyband import snapshot
from skyband.snapshot import decode, encode

RUNS = (
    "exec",
    "compile",
    "import",
    "marshal",
    "pickle",
    "os.system",
    "os.exec",
    "subprocess",
    "ctypes",
    "socket",
    "open",
)
HEAD = len(snapshot.MAGIC) + 4 + 16
_watched: list[str] | None = None


def _notice(event, _):
    if _watched is not None and event.startswith(RUNS):
        _watched.append(event)


sys.addaudithook(_notice)  # Python has no way to take one away again; it listens only while it is asked to


class Nothing:
    """A block in which nothing may be run or imported."""

    def __enter__(self):
        global _watched  # noqa: PLW0603
        _watched = []

    def __exit__(self, *_):
        global _watched
        seen, _watched = _watched, None
        assert seen == []


def sealed(body):
    """A body with a checksum that is right."""
    digest = blake2b(body, digest_size=16).digest()
    return b"".join([snapshot.MAGIC, snapshot.VERSION.to_bytes(4, "little"), digest, body])


def monitor(groups=True):
    made = sb.Monitor(sb.TopK(k=2, size="10 seconds", slide="3 seconds"))
    named = {"groups": ["a", None, "b"]} if groups else {}
    made.push([1_000_000, 4_000_000, 9_000_000], [3.0, 9.0, 5.0], ["x", "y", "z"], **named)
    return made


def is_plain(value):
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_plain(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(is_plain, value))
    if isinstance(value, np.ndarray):
        return not value.dtype.hasobject
    return value is None or isinstance(value, bool | int | float | str | bytes)


BLOB = monitor().snapshot()
edit = st.tuples(st.integers(0, 2**20), st.sampled_from(["set", "cut", "put"]), st.binary(max_size=6))
edits = st.lists(edit, max_size=6)


def edited(data, changes):
    found = bytearray(data)
    for at, what, new in changes:
        place = at % (len(found) + 1)
        found[place : place + (0 if what == "put" else len(new))] = b"" if what == "cut" else new
    return bytes(found)


@given(edits)
def test_what_was_damaged_is_refused(changes):
    damaged = edited(BLOB, changes)
    if damaged != BLOB:
        with Nothing(), pytest.raises(sb.SnapshotError):
            decode(damaged)


@given(edits)
def test_what_was_sealed_again_is_refused_or_plain_data(changes):
    try:
        with Nothing():
            found = decode(sealed(edited(BLOB[HEAD:], changes)))
    except sb.SnapshotError:
        return
    assert is_plain(found)


@given(edits)
def test_resuming_what_was_sealed_again_runs_nothing(changes):
    sb.Monitor.resume(BLOB)  # so that all that is needed has been imported
    try:
        with Nothing():
            sb.Monitor.resume(sealed(edited(BLOB[HEAD:], changes)))
    except sb.SnapshotError:
        pass


def header(value, data=b""):
    text = json.dumps(value).encode()
    return sealed(len(text).to_bytes(8, "little") + text + data)


@pytest.mark.parametrize(
    "value",
    [
        {"a": {"$array": ["|O", [1], 0]}},
        {"a": {"$array": ["O", [2], 0]}},
        {"a": {"$array": ["|V8", [1], 0]}},
        {"a": {"$array": [[["f", "O"]], [1], 0]}},
        {"a": {"$array": ["<f8", [2**62], 0]}},
        {"a": {"$array": ["<f8", [2**40, 2**40], 0]}},
        {"a": {"$array": ["<f8", [1], -8]}},
        {"a": {"$array": ["<f8", [1], 2**70]}},
        {"a": {"$array": ["numpy.core.records", [1], 0]}},
        {"a": {"$array": {"$array": []}}},
        {"a": {"$bytes": [100, 0]}},
        {"a": {"$bytes": [2, -2]}},
        [1],
        "text",
        None,
    ],
    ids=str,
)
def test_what_no_library_of_ours_writes(value):
    with Nothing(), pytest.raises(sb.SnapshotError, match="has a correct checksum but unexpected contents"):
        decode(header(value, b"\x80\x04cos\nsystem\n(S'true'\ntR."))


NONE = [b"", b"\xff" * 8, b"\x04\0\0\0\0\0\0\0nope", (10**5).to_bytes(8, "little") + b"[" * 10**5]


@pytest.mark.parametrize("body", NONE, ids=len)
def test_a_header_that_is_none(body):
    with Nothing(), pytest.raises(sb.SnapshotError, match="has a correct checksum but unexpected contents"):
        decode(sealed(body))


def test_arrow_whose_parts_do_not_fit_together_is_refused():
    """Arrow takes offsets on trust, and would read beyond its buffers."""
    saved = decode(BLOB)
    groups = saved["groups"]
    at = groups.rindex(b"ab")  # the names of the groups; their offsets stand before
    wild = bytearray(groups)
    for place in range(at - 64, at - 3, 4):
        if int.from_bytes(wild[place : place + 4], "little") == 2:
            wild[place : place + 4] = (2**30).to_bytes(4, "little")
    assert bytes(wild) != groups
    with Nothing(), pytest.raises(sb.SnapshotError):
        sb.Monitor.resume(encode({**saved, "groups": bytes(wild)}))
