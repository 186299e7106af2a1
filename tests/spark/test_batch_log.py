"""What micro-batches have read, from files that Spark and Skyband write. No Spark runs."""

from __future__ import annotations

import json

import pytest

import skyband as sb
from skyband.spark import batch_log
from skyband.spark.batch_log import OffsetLog, control_messages, planned_offsets, read_lists
from skyband.spark.file_log import FileEntry, FileLog


def plan(checkpoint, number, source, control=0):
    """Write what Spark writes before a micro-batch."""
    folder = checkpoint / "offsets"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [{"batchWatermarkMs": 1000 * number, "batchTimestampMs": 1, "conf": {}}, source, {"logOffset": control}]
    text = "\n".join(["v1", *("-" if line is None else json.dumps(line) for line in lines)])
    (folder / str(number)).write_text(text)
    (folder / f".{number}.crc").write_text("x")


def test_offsets_are_read_in_order_and_a_cut_off_file_is_ignored(tmp_path):
    assert planned_offsets(tmp_path) == []
    for number in (9, 10, 11):
        plan(tmp_path, number, {"logOffset": number} if number > 9 else None)
    (tmp_path / "offsets" / "12").write_text("v1\n{")
    found = planned_offsets(tmp_path)
    assert [(one.number, one.watermark, one.source) for one in found] == [
        (9, 9000, None),
        (10, 10000, {"logOffset": 10}),
        (11, 11000, {"logOffset": 11}),
    ]
    assert [one.number for one in planned_offsets(tmp_path, 10)] == [11]
    (tmp_path / "offsets" / "11").write_text("v1\n{]\n-\n-")
    with pytest.raises(sb.SnapshotError, match="cannot be read"):
        planned_offsets(tmp_path)
    (tmp_path / "offsets" / "11").write_text("v2\n{}\n-\n-")
    with pytest.raises(sb.UnsupportedError, match="version 'v2'"):
        planned_offsets(tmp_path)


@pytest.mark.parametrize("cut", [0, 7])
def test_offsets_that_spark_removes_are_kept(tmp_path, monkeypatch, cut):
    monkeypatch.setattr(batch_log, "KEEP_EVERY", 3)
    for number in range(12):
        plan(tmp_path, number, {"t": {"0": 10 * number}})
        OffsetLog(tmp_path).keep(number)  # after restarts
        if number >= 6:
            (tmp_path / "offsets" / str(number - 6)).unlink()
    path = tmp_path / "skyband" / "offsets.jsonl"
    assert [one.number for one in OffsetLog(tmp_path).planned()] == list(range(12))
    assert [one.source["t"]["0"] for one in OffsetLog(tmp_path).planned(8)] == [90, 100, 110]
    if cut:  # a crash: the last line is still in Spark's folder
        path.write_text(path.read_text()[:-cut])
        OffsetLog(tmp_path).keep(12)
        assert [one.number for one in OffsetLog(tmp_path).planned()] == list(range(12))
    monkeypatch.setattr(batch_log, "MOST_BYTES", 10)
    OffsetLog(tmp_path).keep(12)
    kept = [one.number for one in OffsetLog(tmp_path).planned()]
    assert 6 <= len(kept) < 12
    assert kept[-1] == 11


def test_messages_that_moved_time(tmp_path):
    log = FileLog(tmp_path / "sources" / "1")
    for number, kind in enumerate(["open", "advance", "past", "end"]):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps({"message": json.dumps({"kind": kind, "at": number})}) + "\n")
        log.add([FileEntry(str(path), 1, 1)])
    lists = read_lists(tmp_path / "sources" / "1")
    assert [one["kind"] for one in control_messages(lists, -1, 3)] == ["advance", "end"]
    assert [one["at"] for one in control_messages(lists, 1, 3)] == [3]
    (tmp_path / "3.json").unlink()
    with pytest.raises(sb.SnapshotError, match="Add the query without since"):
        control_messages(lists, 1, 3)
