"""The checkpoint of a local stream: one commit at a time, damage is found, states of other engines are rejected."""

from __future__ import annotations

import pytest

import skyband as sb
from skyband.jobs.folder_log import PlannedBatch
from skyband.jobs.local_state import LocalCheckpoint, has_local_state, has_spark_state, refuse_local_state


@pytest.fixture
def checkpoint(tmp_path):
    found = LocalCheckpoint(str(tmp_path))
    found.open()
    return found


def test_a_commit_replaces_the_one_before(tmp_path, checkpoint):
    assert checkpoint.read() is None
    assert not has_local_state(str(tmp_path))
    checkpoint.commit({"batch": -1, "x": 1})
    checkpoint.log.append(PlannedBatch(0, ()))
    assert LocalCheckpoint(str(tmp_path)).read() == {"batch": -1, "x": 1}
    checkpoint.commit({"batch": 0, "x": 2})
    assert LocalCheckpoint(str(tmp_path)).read() == {"batch": 0, "x": 2}
    assert has_local_state(str(tmp_path))


def test_segments_of_the_last_commit_stay_until_the_next(tmp_path, checkpoint):
    segments = checkpoint.segments()
    segments.put(0, b"old")
    before = dict(segments.stored)
    segments.put(0, b"new")
    segments.put(-1, b"more")
    segments.remove(-1)
    assert segments.get(0) == b"new"
    again = checkpoint.segments({str(number): name for number, name in before.items()})
    assert again.get(0) == b"old"  # a killed run resumes from here
    checkpoint.remove_segments(segments.stale)
    with pytest.raises(sb.SnapshotError, match="cannot be read"):
        again.get(0)
    checkpoint.sweep(segments.stored.values())
    assert segments.get(0) == b"new"
    checkpoint.sweep(())
    with pytest.raises(sb.SnapshotError):
        segments.get(0)


def test_a_damaged_state(tmp_path, checkpoint):
    checkpoint.commit({"batch": -1, "x": 1})
    path = tmp_path / "local" / "state"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(sb.SnapshotError, match="checksum"):
        checkpoint.read()


def test_a_state_and_a_log_that_do_not_belong_together(tmp_path, checkpoint):
    checkpoint.commit({"batch": 3})
    with pytest.raises(sb.SnapshotError, match="ends with batch 3, its log of files with batch -1"):
        checkpoint.read()
    for number in range(2):
        checkpoint.log.append(PlannedBatch(number, ()))
    (tmp_path / "local" / "state").unlink()
    with pytest.raises(sb.SnapshotError, match="has a log of files but no state"):
        checkpoint.read()


def test_checkpoints_of_the_other_engine(tmp_path, checkpoint):
    refuse_local_state(str(tmp_path))
    checkpoint.commit({"batch": -1})
    with pytest.raises(sb.SnapshotError, match="Resume it with --local"):
        refuse_local_state(str(tmp_path))
    (tmp_path / "metadata").write_text("")
    assert has_spark_state(str(tmp_path))
    with pytest.raises(sb.SnapshotError, match="was written by a run on Spark"):
        LocalCheckpoint(str(tmp_path))


def test_a_full_disk(tmp_path, checkpoint, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    checkpoint.commit({"batch": -1, "x": 1})
    monkeypatch.setattr("skyband.jobs.local_state.os.fsync", full)
    with pytest.raises(sb.InvalidInputError, match="No space left on device"):
        checkpoint.commit({"batch": -1, "x": 2})
    monkeypatch.undo()
    assert checkpoint.read() == {"batch": -1, "x": 1}
