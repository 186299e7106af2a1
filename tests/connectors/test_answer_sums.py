"""Checksums of files of answers: damage is found and named, and the list survives kills and replacements."""

from __future__ import annotations

import json
import shutil
import subprocess
from random import Random

import pyarrow as pa
import pytest

import skyband as sb
from skyband.cli.verify import verify_file
from skyband.connectors.answer_sums import SUMS, AnswerSums
from skyband.connectors.folder_writer import FolderWriter
from skyband.jobs import run_local
from tests.sharding import cases
from tests.spark.frames import write_files

ROWS = pa.table({"query": ["q"] * 40, "rank": range(40)})


@pytest.fixture
def sums(tmp_path):
    return AnswerSums(tmp_path / "state" / SUMS)


def written(folder, sums, kind="parquet", batches=3):
    writer = FolderWriter(str(folder), "s", kind, sums=sums)
    for batch in range(batches):
        writer.take(batch, ROWS.slice(batch))
    return writer


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_each_flipped_bit_is_found(tmp_path, sums, kind):
    files = written(tmp_path / "out", sums, kind).files()
    checked = sums.check(files)
    assert (checked.agree, checked.are_intact, checked.unknown) == (3, True, [])
    random, content = Random(kind), files[1].read_bytes()
    for how in [*range(40), "cut", "zeros", "other", "longer"]:
        damaged = bytearray(content)
        if isinstance(how, int):
            damaged[random.randrange(len(content))] ^= 1 << random.randrange(8)
        elif how == "cut":
            del damaged[random.randrange(len(content)) :]
        elif how == "zeros":
            damaged = bytearray(len(content))
        else:
            damaged = files[2].read_bytes() if how == "other" else damaged + b"0"
        files[1].write_bytes(damaged)
        checked = sums.check(files)
        assert (checked.agree, checked.changed, checked.missing) == (2, [str(files[1])], [])
    files[1].unlink()
    checked = sums.check(files[:1])
    assert (checked.agree, checked.changed, checked.missing) == (2, [], [str(files[1])])


def test_files_that_are_replaced(tmp_path, sums):
    writer = written(tmp_path / "out", sums)
    writer = written(tmp_path / "out", AnswerSums(sums.path), batches=2)  # as after a restart
    assert sums.check(writer.files()).agree == 3
    assert len(sums.path.read_bytes().splitlines()) == 3
    writer.take(1, ROWS.slice(0, 0))
    assert sums.check(writer.files()).agree == 2
    write = writer.task_writer()
    writer.take_files(1, [write(ROWS), write(ROWS.slice(3))], ROWS.slice(5))
    checked = sums.check(writer.parts())
    assert (checked.agree, checked.are_intact, checked.unknown) == (5, True, [])
    part = writer.parts()[2]
    part.write_bytes(part.read_bytes()[:-1])
    assert sums.check(writer.parts()).changed == [str(part)]
    writer.take(1, ROWS)
    assert sums.check(writer.parts()).agree == 3


def test_a_line_that_a_kill_cut_off(tmp_path, sums):
    writer = written(tmp_path / "out", sums)
    lines = sums.path.read_bytes()
    for cut in (1, 30, 80):
        sums.path.write_bytes(lines[:-cut])
        checked = sums.check(writer.files())
        assert (checked.agree, checked.unreadable, checked.unknown) == (2, [3], [str(writer.files()[2])])
        again = FolderWriter(str(tmp_path / "out"), "s", "parquet", sums=AnswerSums(sums.path))
        again.take(2, ROWS.slice(2))
        assert sums.check(writer.files()).are_intact
        assert sums.path.read_bytes() == lines


def test_a_damaged_list(tmp_path, sums):
    writer = written(tmp_path / "out", sums)
    lines, random = sums.path.read_bytes(), Random(3)
    for _ in range(60):
        damaged = bytearray(lines)
        at = random.randrange(len(lines) - 1)
        damaged[at] ^= 1 << random.randrange(8)
        sums.path.write_bytes(damaged)
        assert not sums.check(writer.files()).are_intact, (at, bytes(damaged))


@pytest.mark.parametrize("name", ["a b", "a\\nb\nc\\", "\r", "ü", "\\"])
def test_any_folder_is_read_by_sha256sum(tmp_path, sums, name):
    writer = written(tmp_path / name, sums)
    assert sums.check(writer.files()).agree == 3
    if shutil.which("sha256sum"):
        command = ["sha256sum", "--check", "--quiet", "--strict", str(sums.path)]
        assert subprocess.run(command, capture_output=True, check=False).returncode == 0
        writer.files()[0].write_bytes(b"")
        assert subprocess.run(command, capture_output=True, check=False).returncode == 1


def test_the_command(tmp_path, capsys):
    rows = cases.draw_rows(cases.rng("sums"), 120, scale=1_000_000)
    write_files(tmp_path / "in", [rows[:60]])
    (tmp_path / "work.yaml").write_text(
        "streams: {rows: {path: in, format: parquet, time: ts, id: id, watermark: 0 seconds}}\n"
        "queries: [{name: all, k: 3, size: 20 seconds, by: s}]\n"
        "sinks: [{type: parquet, path: out}, {type: csv, path: csv}]\n"
    )
    file = sb.read_workload(tmp_path / "work.yaml")
    assert run_local(file, "catch-up").await_end(600)
    write_files(tmp_path / "more", [rows[60:]])
    next((tmp_path / "more").iterdir()).rename(tmp_path / "in" / "later.parquet")
    assert run_local(file, "catch-up").await_end(600)
    options = {"answers": None, "unfinished": False, "verbose": False}
    assert verify_file(file.path, as_json=True, checksums=True, **options) == 0
    assert json.loads(capsys.readouterr().out)["rows"]["agree"] == 4
    damaged, gone = sorted((tmp_path / "out").iterdir())
    (tmp_path / "csv" / "rows-00000077.csv").write_text("query\n")
    damaged.write_bytes(damaged.read_bytes()[:-3])
    gone.unlink()
    assert verify_file(file.path, as_json=False, checksums=True, **options) == 1
    shown = capsys.readouterr().out
    assert f"{damaged} was changed or damaged after it was written" in shown
    assert f"{gone} was removed" in shown
    assert "2 files of answers agree" in shown
    assert "1 files have no checksum, such as" in shown
    assert "Restore these files from a copy" in shown
    (tmp_path / "csv" / "rows-00000077.csv").unlink()
    assert run_local(file, "catch-up").await_end(600)  # answers are not read by a run
    with pytest.raises(sb.InvalidInputError, match="--checksums compares no answers"):
        verify_file(file.path, as_json=False, checksums=True, **{**options, "unfinished": True})
    assert run_local(file, "catch-up", fresh=True).await_end(600)
    assert verify_file(file.path, as_json=True, checksums=True, **options) == 0
