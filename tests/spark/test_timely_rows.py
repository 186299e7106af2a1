"""From where on no row is late: what a checkpoint tells, and that anything unexpected tells nothing."""

from __future__ import annotations

import json

import pytest

from skyband.spark.control import CONTROL_FOLDER
from skyband.spark.timely_rows import TimelyRows
from skyband.windows import NEVER

END = {"logOffset": 3}


def planned(checkpoint, number=4, *, watermark=1_700_000_000_123, version="v1", end=END):
    """Write Spark's entry for a micro-batch with two sources."""
    (checkpoint / "offsets").mkdir(exist_ok=True)
    lines = [version, json.dumps({"batchWatermarkMs": watermark, "conf": {}}), json.dumps(end), '{"logOffset":0}']
    (checkpoint / "offsets" / str(number)).write_text("\n".join(lines))


def told(checkpoint, *messages):
    folder = checkpoint / CONTROL_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for number, message in enumerate(messages):
        (folder / f"part-{number}.json").write_text(json.dumps({"message": json.dumps(message)}) + "\n")
        (folder / f".part-{number}.json.crc").write_bytes(b"\xff")
    (folder / "_SUCCESS").touch()


def position(checkpoint, end=END, source="0"):
    return TimelyRows(checkpoint / "sources" / source).position(end)


def test_the_watermark_of_the_newest_micro_batch_counts(tmp_path):
    planned(tmp_path, 3, watermark=5)
    planned(tmp_path, 10)
    planned(tmp_path, 9, watermark=7)
    (tmp_path / "offsets" / ".10.crc").write_bytes(b"\xff")
    told(tmp_path, {"kind": "open"})
    assert position(tmp_path) == 1_700_000_000_123_000
    assert position(tmp_path, {"logOffset": 0}, source="1") == 1_700_000_000_123_000


def test_a_message_moves_it_and_the_end_of_a_stream_makes_it_unknown(tmp_path):
    planned(tmp_path, watermark=1)
    rows = TimelyRows(tmp_path / "sources" / "0")
    assert rows.position(END) == 1000
    told(tmp_path, {"kind": "open"}, {"kind": "advance", "at": 9_000_000}, {"kind": "advance", "at": 5_000_000})
    assert rows.position(END) == 9_000_000
    told(
        tmp_path, {"kind": "open"}, {"kind": "advance", "at": 9_000_000}, {"kind": "advance", "at": 1}, {"kind": "end"}
    )
    assert rows.position(END) == NEVER


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: planned(folder, version="v2"),
        lambda folder: planned(folder, end={"logOffset": 2}),
        lambda folder: planned(folder, watermark=None),
        lambda folder: (folder / "offsets" / "4").write_text("v1"),
        lambda folder: (folder / "offsets" / "4").write_text("v1\n{}\n{}\n{}"),
        lambda folder: (folder / "offsets" / "4").write_bytes(b"\xff"),
        lambda folder: (folder / "offsets" / "4").unlink(),
        lambda folder: (folder / "offsets").rename(folder / "elsewhere"),
    ],
)
def test_what_is_not_understood_makes_it_unknown(tmp_path, damage):
    planned(tmp_path)
    damage(tmp_path)
    assert position(tmp_path) == NEVER
