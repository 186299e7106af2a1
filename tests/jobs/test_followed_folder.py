"""New files of a folder are found once, in the order of their times, when they are complete."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skyband.connectors.files import FilesSource
from skyband.jobs import followed_folder
from skyband.jobs.folder_log import FolderLog, PlannedBatch
from skyband.jobs.followed_folder import FollowedFolder


@pytest.fixture
def log(tmp_path):
    return FolderLog(tmp_path / "log")


def folder(tmp_path, log, kind="csv", path="in"):
    return FollowedFolder("s", FilesSource(path=str(tmp_path / path), format=kind, time="at"), log)


def put(path, age=60.0, content=b"at\n"):
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    at = time.time() - age
    os.utime(path, (at, at))


def names(files):
    return [Path(file.path).name for file in files]


def test_files_come_by_time_then_by_name_and_once(tmp_path, log):
    for name, age in {"b": 50, "c": 90, "a": 50, ".hidden": 99, "_SUCCESS": 99}.items():
        put(tmp_path / "in" / name, age)
    os.utime(tmp_path / "in" / "a", (5, 5))
    os.utime(tmp_path / "in" / "b", (5, 5))
    followed = folder(tmp_path, log)
    found = followed.look()
    assert names(found) == ["a", "b", "c"]
    log.append(PlannedBatch(0, tuple(found[:2])))
    assert names(followed.look()) == ["c"]
    assert names(folder(tmp_path, FolderLog(log.path)).look()) == ["c"]
    put(tmp_path / "in" / "a", 20)
    assert names(followed.look()) == ["c"]  # it was read


def test_a_folder_that_does_not_exist_yet(tmp_path, log):
    followed = folder(tmp_path, log)
    assert followed.look() == []
    put(tmp_path / "in" / "a")
    assert names(followed.look()) == ["a"]


def test_a_glob(tmp_path, log):
    put(tmp_path / "in" / "a.csv")
    put(tmp_path / "in" / "a.txt")
    assert names(folder(tmp_path, log, path="in/*.csv").look()) == ["a.csv"]


def test_a_file_is_taken_when_it_no_longer_changes(tmp_path, log, monkeypatch):
    followed = folder(tmp_path, log)
    put(tmp_path / "in" / "new", age=-1000)  # a clock that is wrong
    assert followed.look() == []
    assert followed.has_unsettled
    put(tmp_path / "in" / "new", age=-1000, content=b"at\n1\n")
    monkeypatch.setattr(followed_folder, "SETTLED", 0.05)
    assert followed.look() == []
    time.sleep(0.06)
    assert names(followed.look()) == ["new"]
    assert not followed.has_unsettled


def test_a_parquet_file_without_its_end_is_left_for_a_while(tmp_path, log, monkeypatch):
    whole = pa.BufferOutputStream()
    pq.write_table(pa.table({"at": [1]}), whole)
    content = whole.getvalue().to_pybytes()
    followed = folder(tmp_path, log, "parquet")
    put(tmp_path / "in" / "half", age=2, content=content[:-3])
    assert followed.look() == []
    put(tmp_path / "in" / "half", age=2, content=content)
    assert names(followed.look()) == ["half"]
    put(tmp_path / "in" / "half", age=11, content=b"x")
    assert names(followed.look()) == ["half"]  # reading it reports the problem


def test_a_file_that_disappears(tmp_path, log, monkeypatch):
    put(tmp_path / "in" / "a")
    monkeypatch.setattr(followed_folder, "state_of", lambda _: None)
    assert folder(tmp_path, log).look() == []
