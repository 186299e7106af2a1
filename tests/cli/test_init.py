"""`skyband init` beside data of many kinds: it is recognised, or init says what it saw and writes nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import skyband as sb
from skyband.cli.init import init_file
from tests.workload_file.layouts import LAYOUTS, separated, write_layout


def begun(folder, data=None):
    init_file(data, folder / "skyband.yaml", force=False)
    file = sb.read_workload(folder / "skyband.yaml", {})
    (stream,) = file.streams.values()
    return stream


@pytest.mark.parametrize("name", LAYOUTS)
def test_data_is_recognised(tmp_path, name):
    path, options, _ = write_layout(tmp_path, name)
    stream = begun(tmp_path)
    assert stream.source == "files"
    assert stream.path == str(tmp_path / path)
    assert {key: value for key, value in stream.options.items() if key != "header"} == options
    assert stream.time == "ts"


def test_the_folder_of_the_workload_file_itself(tmp_path):
    write_layout(tmp_path, "parts")
    (tmp_path / "notes.txt").unlink()
    assert begun(tmp_path, tmp_path).path == str(tmp_path / "*.csv")


def test_a_glob(tmp_path, monkeypatch):
    write_layout(tmp_path, "parts")
    monkeypatch.chdir(tmp_path)
    init_file(Path("part-*.csv"), Path("skyband.yaml"), force=False)
    assert sb.read_workload("skyband.yaml", {}).streams["part"].path == str(tmp_path / "part-*.csv")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["a.csv", "b.csv"], "this folder contains 2 data files"),
        (["part-0.csv", "part-1.csv", "part-x.csv"], "this folder contains 3 data files"),
        (["x/a.csv", "y/b.csv"], "this folder contains 2 folders of data"),
        (["date=2024-01-01/a.csv"], "partition folders.*Use the parent folder"),
        (["x/a.csv", "x/b.jsonl"], "files of several formats"),
        (["x/a.csv", "x/b.tsv"], "files of several formats"),
        (["book.xlsx"], r"book\.xlsx.*is not supported"),
        (["x.csv.zip"], r"x\.csv\.zip.*is not supported"),
        (["trades.pb"], r"trades\.pb.*is not supported"),
        (["in/1.pb", "in/2.pb"], r"in/1\.pb.*is not supported"),
        (["t/metadata/0.metadata.json", "t/data/a.parquet"], r"t is an Iceberg table.*Nothing was written"),
        (["w/db/t/metadata/0.metadata.json", "w/db/t/data/a.parquet"], r"w/db/t is an Iceberg table"),
        (["metadata/0.metadata.json", "data/a.parquet"], r"is an Iceberg table"),
    ],
)
def test_what_is_not_clear_is_told(tmp_path, files, message):
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_bytes(separated([("2024-01-01 09:00:00", 1, "a", 2)]))
    with pytest.raises(sb.InvalidInputError, match=message):
        init_file(None, tmp_path / "skyband.yaml", force=False)
    assert not (tmp_path / "skyband.yaml").exists()


SCHEMAS = {
    "trade.avsc": """{"type": "record", "name": "T", "fields": [{"name": "price", "type": "double"},
        {"name": "seen", "type": {"type": "long", "logicalType": "timestamp-millis"}}]}""",
    "trade.proto": 'syntax = "proto3"; message T { double price = 1; google.protobuf.Timestamp seen = 2; }',
    "bare.proto": 'syntax = "proto3"; message T { double price = 1; }',
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_topic_with_a_schema(tmp_path, name):
    (tmp_path / name).write_text(SCHEMAS[name])
    stream = begun(tmp_path, tmp_path / name)
    assert (stream.source, stream.schema_file) == ("kafka", str(tmp_path / name))
    assert stream.format == {".avsc": "avro", ".proto": "protobuf"}[Path(name).suffix]
    assert stream.time == ("kafka_timestamp" if name == "bare.proto" else "seen")
    assert "by: price" in (tmp_path / "skyband.yaml").read_text()


def test_a_schema_that_cannot_be_used(tmp_path):
    (tmp_path / "trade.proto").write_text("mesage T {}")
    with pytest.raises(sb.InvalidInputError, match=r"trade.proto' cannot be used: it contains 'mesage'"):
        begun(tmp_path, tmp_path / "trade.proto")


def test_rows_are_made_up_where_nothing_is_like_data(tmp_path):
    (tmp_path / "requirements.txt").write_text("skyband\n")
    (tmp_path / "Makefile").write_text("run:\n\tskyband run\n")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "job.py").touch()
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "x.json").touch()
    assert begun(tmp_path).source == "rate"


class TestWatermark:
    def test_it_covers_how_far_rows_come_behind(self, tmp_path):
        write_layout(tmp_path, "csv.gz")
        assert begun(tmp_path).watermark == "2 minutes"
        text = (tmp_path / "skyband.yaml").read_text()
        assert "# Seen: rows are up to 42 seconds older than an earlier row (all 30 rows).\n" in text

    def test_files_are_taken_by_modification_time(self, tmp_path):
        write_layout(tmp_path, "a folder")
        stream = begun(tmp_path)
        assert stream.watermark == "2 minutes"
        (tmp_path / "skyband.yaml").unlink()
        os.utime(tmp_path / "trades" / "2.csv", (1, 1))
        assert begun(tmp_path).watermark == "2 days"  # the first day is read after the second
        text = (tmp_path / "skyband.yaml").read_text()
        assert "rows are up to 1 day 28 minutes older than an earlier row" in text
        assert "all 60 rows of 2 files, ordered by modification time" in text
        assert "Sort the data by time to get live answers sooner" in text

    def test_rows_in_order(self, tmp_path):
        rows = [(f"2024-01-01 09:{minute:02}:00", minute, "a", 1) for minute in range(30)]
        (tmp_path / "x.csv").write_bytes(separated(rows))
        assert begun(tmp_path).watermark == "10 seconds"
        assert "# Seen: rows are in time order (all 30 rows)." in (tmp_path / "skyband.yaml").read_text()
