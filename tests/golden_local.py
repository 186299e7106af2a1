"""Checkpoints of local streams as earlier versions of the library stored them, amid a stream of each family.

The files in ``tests/golden/local`` are never written again: a change of a state's format adds files of the new version
and a migration. ``python -m tests.golden_local FOLDER`` writes those of the code at hand.
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import skyband as sb
from skyband.jobs import run_local
from tests.jobs.test_followed_against_spark import FAMILIES, STREAM, tables, write

FOLDER = Path(__file__).parent / "golden" / "local"
SEED, BEFORE = 77, 3  # files that are read before the state is stored


def file_of(folder, family):
    """The workload file of a family."""
    (folder / "work.yaml").write_text(f"{STREAM}queries:{FAMILIES[family]}sinks: [{{type: memory}}]\n")
    return sb.read_workload(folder / "work.yaml")


def answers(running):
    """The rows of all answers as text."""
    assert running.await_end(300)
    found = running.memory("s")
    return [] if found is None else sorted(map(repr, found.to_pylist()))


def store(checkpoint, target):
    """Copy a checkpoint, compressed."""
    for path in sorted(checkpoint.rglob("*")):
        if path.is_file():
            copy = target / f"{path.relative_to(checkpoint)}.gz"
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(gzip.compress(path.read_bytes(), mtime=0))


def restore(target, checkpoint):
    """Write a stored checkpoint back."""
    for path in sorted(target.rglob("*.gz")):
        copy = checkpoint / path.relative_to(target).with_suffix("")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(gzip.decompress(path.read_bytes()))


def main(folder: Path) -> None:
    """Write the checkpoints of all families."""
    for family in FAMILIES:
        with TemporaryDirectory() as home:
            write(Path(home) / "in", tables(SEED)[:BEFORE])
            file = file_of(Path(home), family)
            assert answers(run_local(file, "catch-up"))
            store(Path(file.checkpoint_of("s")) / "local", folder / family)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
