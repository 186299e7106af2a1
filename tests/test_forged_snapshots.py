"""Forged snapshots of all families, with a correct checksum: rejected, or resumed without a crash of the process.

What a push does after such a snapshot was resumed is only defined with bounds checks (`make test-bounds`).
Without them, compiled kernels trust the indices.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from random import Random

import pytest

import skyband as sb
from skyband.snapshot import decode, encode
from tests.golden_states import FOLDER, monitors, read

NAMES = sorted(monitors())
HAS_BOUNDS = os.environ.get("NUMBA_BOUNDSCHECK") == "1"
FEW = ["topk_time_panes", "aggregate_time", "incomplete_count_exact", "uncertain_time"]


@pytest.mark.parametrize("name", NAMES)
def test_damaged_snapshots_are_rejected(name):
    blob, random = read(FOLDER / f"monitor_{name}.snapshot.gz"), Random(name)
    resume = monitors()[name].resume
    for _ in range(60):
        changed = bytearray(blob)
        if random.random() < 0.2:
            del changed[random.randrange(len(changed)) :]
        else:
            changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
        with pytest.raises(sb.SnapshotError):
            resume(bytes(changed))


def outcomes(name, count, *more):
    found = subprocess.run(
        [sys.executable, "-m", "tests.forged", name, "0", str(count), *more], capture_output=True, check=False
    )
    assert found.returncode == 0, found.stderr.decode()
    return json.loads(found.stdout)


@pytest.mark.parametrize(
    "names", [FEW, *(pytest.param([name], marks=pytest.mark.long) for name in NAMES)], ids=",".join
)
def test_resuming_forged_contents_ends_no_process(names):
    found = outcomes(",".join(names), 25 if names == FEW else 200)
    assert found.keys() <= {"rejected", "accepted"}, found
    assert found["rejected"] > 5


def sizes_of_dictionaries(value):
    """The dictionaries of slots in a snapshot."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    is_book = isinstance(value, dict) and {"slots", "groups", "size"} <= value.keys() and value["size"] > 0
    found = [value] if is_book else []
    return [*found, *(book for inner in items for book in sizes_of_dictionaries(inner))]


@pytest.mark.parametrize("name", ["aggregate_time", "incomplete_count_exact", "uncertain_count"])
def test_a_forged_number_of_slots_is_rejected(name):
    blob = read(FOLDER / f"monitor_{name}.snapshot.gz")
    count = len(sizes_of_dictionaries(decode(blob)))
    assert count
    for place in range(count):
        values = decode(blob)
        sizes_of_dictionaries(values)[place]["size"] = 2**31
        with pytest.raises(sb.SnapshotError, match=r"2147483648 (slots|keys)"):
            monitors()[name].resume(encode(values))


@pytest.mark.long
@pytest.mark.skipif(not HAS_BOUNDS, reason="needs bounds checks of kernels: make test-bounds")
@pytest.mark.parametrize("name", NAMES)
def test_with_bounds_checks_no_index_leaves_an_array(name):
    found = outcomes(name, 100, "push")
    assert not any(text.startswith("crashed") for text in found), found
    assert found["rejected"] > 10
