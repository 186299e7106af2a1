"""Folders of answers that tasks write: a micro-batch is there as a whole or not at all, wherever a process ends."""

from __future__ import annotations

import contextlib
import os
import random

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from skyband.connectors import folder_batches
from skyband.connectors.folder_writer import FolderWriter

KINDS = ("parquet", "csv", "jsonl")


def rows(batch, version, part, count=3):
    return pa.table({"batch": [batch] * count, "version": [version] * count, "part": [part] * count})


def seen(folder, kind):
    """What any reader of the folder finds: versions by batch, with the number of rows of each."""
    found: dict[tuple[int, int], int] = {}
    for row in ds.dataset(str(folder), format={"jsonl": "json"}.get(kind, kind)).to_table().to_pylist():
        key = row["batch"], row["version"]
        found[key] = found.get(key, 0) + 1
    return found


class Ended(BaseException):
    """Ends a process at this point."""


def watched(monkeypatch, check, end_at):
    """Check what readers see after each change of a name, and end the process after some of them."""
    steps = iter(range(1_000))

    def after(owner, name):
        real = getattr(owner, name)

        def call(*args, **more):
            result = real(*args, **more)
            check()
            if next(steps) == end_at:
                raise Ended
            return result

        monkeypatch.setattr(owner, name, call)

    for name in ("rename", "replace", "mkdir"):
        after(os, name)
    after(folder_batches, "_exchanged")
    after(folder_batches.shutil, "rmtree")


def write(writer, batch, version, size, *, small=False):
    if small:
        writer.take(batch, rows(batch, version, 0, size))
        return
    task = writer.task_writer()
    files = [task(rows(batch, version, part)) for part in range(size // 3)]
    task(rows(batch, 99, 0))  # of a task that was repeated: it is not among the files
    writer.take_files(batch, files, rows(batch, version, 9) if size > 6 else None)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 8))])
def test_a_batch_is_seen_as_a_whole_wherever_a_process_ends(tmp_path, monkeypatch, kind, seed):
    draw, folder = random.Random(seed), tmp_path / "out"
    folder.mkdir()
    expected: dict[int, tuple[int, int]] = {}  # by batch: version and rows

    for batch in range(6):
        for version in range(draw.randint(1, 3)):  # a batch is repeated, also with other answers and another size
            size, small = draw.choice([3, 6, 9]), draw.random() < 0.3
            whole = size + (3 if size > 6 and not small else 0)
            before = dict(expected)

            def check(batch=batch, version=version, whole=whole, before=before):
                found = seen(folder, kind)
                old = {(number, of): count for number, (of, count) in before.items()}
                new = {**{key: count for key, count in old.items() if key[0] != batch}, (batch, version): whole}
                assert found in (old, new)

            with monkeypatch.context() as patch:
                watched(patch, check, draw.choice([None, 0, 1, 2, 3, 4, 5]))
                writer = FolderWriter(str(folder), "s", kind, by_tasks=True)
                with contextlib.suppress(Ended):
                    write(writer, batch, version, size, small=small)
            write(FolderWriter(str(folder), "s", kind, by_tasks=True), batch, version, size, small=small)
            expected[batch] = version, whole
            check(before=expected)
    last = FolderWriter(str(folder), "s", kind)
    assert [path.name for path in last.files()] == [f"s-{batch:08}.{kind}" for batch in range(6)]
    assert sum(not path.name.startswith(".") for path in folder.iterdir()) == 6
    last.take(5, rows(5, 0, 0, 0))  # no answers any more
    write(FolderWriter(str(folder), "s", kind, by_tasks=True), 4, 7, 3)
    assert {key[0] for key in seen(folder, kind)} == {0, 1, 2, 3, 4}
    assert not list(folder.glob(".*"))
    FolderWriter(str(folder), "s", kind, by_tasks=True).take_files(4, [], None)
    assert {key[0] for key in seen(folder, kind)} == {0, 1, 2, 3}
    last.clear()
    assert not list(folder.iterdir())


def test_without_an_exchange_of_names_the_result_is_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_batches, "_exchanged", lambda *_: False)
    for version in range(3):
        write(FolderWriter(str(tmp_path), "s", "csv", by_tasks=True), 0, version, 9, small=version == 1)
        assert seen(tmp_path, "csv") == {(0, version): 9 if version == 1 else 12}
    assert not list(tmp_path.glob(".*"))
