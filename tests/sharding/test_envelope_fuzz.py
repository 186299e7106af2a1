"""Envelopes that were damaged between two tasks: rejected with an error of ours, or values of the right types."""

from __future__ import annotations

from hashlib import blake2b
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband import snapshot
from skyband.aggregate.reducer import AggregateNote
from skyband.data.arrow import to_bytes
from skyband.sharding.envelope import Histogram, Note, rows_of
from skyband.snapshot import decode, encode
from skyband.topk.reducer import TopKNote
from skyband.uncertain.reducer import UncertainNote
from tests.forged import forged

HEAD = len(snapshot.MAGIC) + 4 + 16
POSITIONS = np.array([5_000, 5_000, 17_000, 2_000_000, 9_000_000_000])
SHARED = {"newest": 9_000_000_000, "oldest": 5_000, "histogram": Histogram.of(POSITIONS)}
NOTES = [
    Note(**SHARED),
    Note(newest=3, oldest=2),
    TopKNote(**SHARED, firsts={"0": POSITIONS, "1": np.empty(0, np.int64)}),
    AggregateNote(**SHARED, pane_ends=POSITIONS + 1, pane_firsts=POSITIONS),
    UncertainNote(**SHARED, newest_cut=(7, 5_000)),
]
ROWS = pa.table(
    {
        "at": pa.array(POSITIONS).cast(pa.timestamp("us", "UTC")),
        "g": pa.array(["a", None, "é", "a" * 40, ""]).dictionary_encode(),
        "text": ["x", None, "yy", "", "zzz"],
        "list": [[1], [], None, [2, 3], [4]],
        "nested": [{"a": 1, "b": ["x"]}, None, {"a": None, "b": []}, {"a": 4, "b": None}, {"a": 5, "b": ["y", None]}],
        "flag": [True, False, None, True, True],
        "s": [1.0, np.nan, np.inf, -0.0, 2.5],
    }
)


def damaged(data, random):
    """Flip bits, overwrite, remove, insert and repeat bytes."""
    found = bytearray(data)
    for _ in range(random.randint(1, 4)):
        at, length = random.randrange(len(found) + 1), random.choice([1, 1, 4, 8, 30])
        way = random.randrange(5)
        if way == 0 and found:
            found[at % len(found)] ^= 1 << random.randrange(8)
        elif way == 1:
            found[at : at + length] = random.choice([bytes(length), b"\xff" * length, random.randbytes(length)])
        elif way == 2:
            del found[at : at + length]
        elif way == 3:
            found[at:at] = found[at : at + length] or b"\0"
        else:
            del found[at:]
    return bytes(found)


def sealed(body):
    digest = blake2b(body, digest_size=16).digest()
    return b"".join([snapshot.MAGIC, snapshot.VERSION.to_bytes(4, "little"), digest, body])


def opened(note, data):
    """What a shard reads from a note; None if it is rejected."""
    try:
        found = type(note).from_bytes(data)
        late = None if found.histogram is None else [found.histogram.before(1000 * ms) for ms in (-5, 0, 17, 10**7)]
        type(note).joined([note, found])
    except sb.SnapshotError as error:
        assert "of an envelope arrived damaged" in str(error)  # noqa: PT017
        return None
    assert type(found.newest) is type(found.oldest) is int
    assert late is None or all(type(count) is int for count in late)
    return found


@pytest.mark.parametrize("seed", range(40))
def test_damaged_notes(seed):
    random = Random(seed)
    for _ in range(40):
        note = random.choice(NOTES)
        data = note.to_bytes()
        changed = damaged(data, random)
        found = opened(note, changed)
        assert (found is not None) == (changed == data)


@pytest.mark.parametrize("seed", range(40))
def test_damaged_notes_with_a_correct_checksum(seed):
    random, rejected = Random(seed), 0
    for _ in range(80):
        note = random.choice(NOTES)
        if random.random() < 0.5:
            rejected += opened(note, sealed(damaged(note.to_bytes()[HEAD:], random))) is None
            continue
        values = decode(note.to_bytes())
        forged(values, random)
        try:
            data = encode(values)
        except (TypeError, ValueError):
            continue
        rejected += opened(note, data) is None
    assert 10 < rejected < 80


@pytest.mark.parametrize("seed", range(40))
def test_damaged_rows(seed):
    """Rows have no checksum: a value may differ, but every value that is read is inside of the bytes."""
    random, data, rejected = Random(seed), to_bytes(ROWS), 0
    for _ in range(60):
        try:
            found = rows_of(damaged(data, random))
        except sb.SnapshotError as error:
            assert "the rows of an envelope arrived damaged" in str(error)  # noqa: PT017
            rejected += 1
            continue
        found.validate(full=True)
        assert rows_of(to_bytes(found)).num_rows == found.num_rows
    assert rejected > 20


def test_what_is_not_damaged_is_read():
    for note in NOTES:
        found = opened(note, note.to_bytes())
        assert encode(vars(found) | {"histogram": None}) == encode(vars(note) | {"histogram": None})
        assert found.histogram == note.histogram
    assert repr(rows_of(to_bytes(ROWS)).to_pydict()) == repr(ROWS.to_pydict())
