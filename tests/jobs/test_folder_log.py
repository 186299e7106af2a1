"""The log of a followed folder survives a crash at any byte, and rejects damage."""

from __future__ import annotations

import pytest

import skyband as sb
from skyband.jobs.checked_lines import sealed
from skyband.jobs.folder_log import FolderLog, LoggedFile, PlannedBatch

FIRST = PlannedBatch(0, (LoggedFile("/in/ä.csv", 5, 100), LoggedFile("/in/b.csv", 6, 0)))
SECOND = PlannedBatch(1, (), ({"kind": "end"},))


def filled(folder):
    log = FolderLog(folder / "log")
    log.append(FIRST)
    log.append(SECOND)
    return folder / "log"


def test_what_was_logged_is_read(tmp_path):
    log = FolderLog(filled(tmp_path))
    assert log.last == SECOND
    assert "/in/ä.csv" in log
    assert "/in/c.csv" not in log
    assert FolderLog(tmp_path / "none").last is None


def test_a_crash_at_any_byte_of_a_line(tmp_path):
    path = filled(tmp_path)
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for size in range(first, len(whole)):
        path.write_bytes(whole[:size])
        log = FolderLog(path)
        assert log.last == FIRST
        log.append(SECOND)
        assert path.read_bytes() == whole


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (b'"files"', b'"fools"', "is not a line of the log"),
        (b'"batch":1', b'"batch":2', "its checksum differs"),
        (b'"version":2', b'"version":1', "its checksum differs"),
        (b',"check":"', b',"chock":"', "its checksum is missing"),
        (b"{", b"x", "is not a line of the log"),
    ],
)
def test_damage_is_rejected(tmp_path, old, new, says):
    path = filled(tmp_path)
    path.write_bytes(path.read_bytes().replace(old, new))
    with pytest.raises(sb.SnapshotError, match=says):
        FolderLog(path)


def test_lines_of_another_version_or_place(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b'{"version":1,"batch":0,"files":[["/in/a.csv",5,7]],"messages":[]}\n')
    log = FolderLog(path)
    assert "/in/a.csv" in log
    log.append(SECOND)
    assert FolderLog(path).last == SECOND
    path.write_bytes(path.read_bytes().partition(b"\n")[2])
    with pytest.raises(sb.SnapshotError, match="batch 1 is in the place of batch 0"):
        FolderLog(path)
    path.write_bytes(sealed({"version": 9, "batch": 0, "files": [], "messages": []}) + b"\n")
    with pytest.raises(sb.SnapshotError, match="has version 9"):
        FolderLog(path)


def test_a_folder_that_cannot_be_written(tmp_path):
    with pytest.raises(sb.InvalidInputError, match="The stream stopped; no answers are lost"):
        FolderLog(tmp_path / "missing" / "log").append(FIRST)
