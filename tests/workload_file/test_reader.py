"""A sound file: what comes out of it, with defaults filled in and paths made absolute."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import skyband as sb
from tests.workload_file.files import FAMILIES, FULL, SHORT, VALID


@pytest.mark.parametrize("name", VALID)
def test_it_is_read(read, name):
    assert read(VALID[name]).workloads


def test_everything_a_file_can_say(read, tmp_path):
    file = read(FULL)
    assert file.path == tmp_path / "skyband.yaml"
    assert list(file.streams) == ["trades", "ticks", "lines", "bids"]
    trades = file.streams["trades"]
    assert trades.path == str(tmp_path / "trades.csv")
    assert trades.options == {"header": True, "sep": ";", "maxColumns": 100}
    assert trades.schema == {
        "ts": "timestamp",
        "price": "double",
        "size": "int",
        "symbol": "string",
        "trade_id": "bigint",
    }
    assert (trades.time, trades.id, trades.watermark) == ("ts", "trade_id", "30 seconds")
    assert file.streams["ticks"].time == "timestamp"
    assert file.streams["lines"].port == 9999
    bids = file.streams["bids"]
    assert (bids.servers, bids.topic) == (["127.0.0.1:9092", "[::1]:9093"], ["bids", "bids.eu"])
    assert bids.dead_letters == str(tmp_path / "malformed")
    assert file.sinks[3].servers == ["127.0.0.1:9092", "other:9092"]
    assert file.needs_kafka
    assert file.workloads["trades"]["big"] == sb.TopK(
        name="big",
        k=10,
        size="10 minutes",
        slide="1 minute",
        by="price * size",
        where="symbol <> 'X'",
        partition_by=["symbol"],
        order="asc",
        origin="2024-01-01",
        full_only=True,
        ties="rank",
    )
    assert file.workloads["trades"]["two"].partition_by == ("symbol", "size")
    assert file.workloads["ticks"].axis == "count"
    spoken = file.workloads["lines"]["spoken"]
    assert (spoken.k, spoken.window.slide) == (5, 300_000_000)
    assert [sink.type for sink in file.sinks] == ["terminal", "parquet", "memory", "kafka"]
    assert file.sinks[1].path == str(tmp_path / "answers")
    assert (file.sinks[1].output, file.sinks[1].queries) == ("changes", ["big", "spoken"])
    assert file.engine.settings == {"spark.sql.shuffle.partitions": 4, "spark.ui.enabled": False}
    assert file.checkpoint_of("ticks") == str(tmp_path / "state" / "ticks")


def test_defaults(read, tmp_path):
    file = read(SHORT)
    trades = file.streams["trades"]
    assert (trades.source, trades.format, trades.watermark) == ("files", "csv", "10 seconds")
    assert trades.options == {"header": True}
    assert [sink.type for sink in file.sinks] == ["terminal"]
    assert (file.engine.algorithm, file.engine.late, file.engine.shards) == ("auto", "count", None)
    assert file.checkpoint_of("trades") == str(tmp_path / ".skyband" / "skyband" / "trades")


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("a.csv", "csv"),
        ("a.CSV.gz", "csv"),
        ("a.jsonl", "json"),
        ("a.ndjson", "json"),
        ("a/*.json", "json"),
        ("a.parquet/", "parquet"),
        ("a.snappy.parquet", "parquet"),
    ],
)
def test_the_format_is_told_by_the_ending(read, path, kind):
    assert read(SHORT.replace("trades.csv", path)).streams["trades"].format == kind


def test_a_header_is_what_the_file_says_it_is(read):
    text = SHORT.replace("time: ts", "time: ts\n    options: {Header: false}")
    assert read(text).streams["trades"].options == {"Header": False}
    text = SHORT.replace("trades.csv", "trades.json")
    assert read(text).streams["trades"].options == {}


@pytest.mark.parametrize("path", ["s3a://bucket/x.csv", "hdfs://host/x.csv", "file:/tmp/x.csv", "/tmp/x.csv"])
def test_paths_that_are_taken_as_they_are(read, path):
    text = SHORT.replace("trades.csv", path) + f"engine: {{checkpoint: '{path}'}}\n"
    file = read(text)
    assert file.streams["trades"].path == path
    assert file.checkpoint_of("trades") == f"{path}/trades"


def test_paths_are_those_of_the_file_not_of_the_process(tmp_path, monkeypatch):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "w.yaml").write_text(SHORT.replace("trades.csv", "../data/trades.csv"))
    monkeypatch.chdir(tmp_path)
    file = sb.read_workload(os.path.join("deep", "w.yaml"), {})
    assert file.path == tmp_path / "deep" / "w.yaml"
    assert file.streams["trades"].path == str(tmp_path / "data" / "trades.csv")
    assert file.checkpoint_of("trades") == str(tmp_path / "deep" / ".skyband" / "w" / "trades")


def test_a_checkpoint_of_a_stream_that_is_not_there(read):
    with pytest.raises(sb.UnknownNameError, match="did you mean 'trades'"):
        read(SHORT).checkpoint_of("trade")


def test_the_models_are_frozen(read):
    with pytest.raises(ValueError, match="frozen"):
        read(SHORT).streams["trades"].path = "x"


def test_sql_names_its_stream(read):
    sql = "'x: TOPK value, 1 FROM B OVER 5 ROWS'"
    file = read(f"streams:\n  a: {{source: rate}}\n  b: {{source: rate}}\nqueries:\n  - sql: {sql}\n")
    assert list(file.workloads) == ["b"]
    assert file.workloads["b"]["x"].k == 1


def test_several_statements_have_names_of_their_own(read):
    assert [query.name for query in read(VALID["two statements"]).workloads["trades"]] == ["big1", "big2"]


def test_types_are_those_of_yaml_1_2(read):
    text = SHORT.replace(
        "time: ts", "time: ts\n    options: {a: no, b: 010, c: 1e3, d: 2024-01-01, e: .5, f: '1', g: 0o10}"
    )
    options = read(text).streams["trades"].options
    assert options == {"header": True, "a": "no", "b": 10, "c": 1000.0, "d": "2024-01-01", "e": 0.5, "f": "1", "g": 8}


def test_a_byte_order_mark_is_no_character(read):
    assert read(b"\xef\xbb\xbf" + SHORT.encode()).workloads


def test_import_skyband_loads_neither_yaml_nor_pydantic():
    program = "import skyband, sys; dir(skyband); print(*sorted({'yaml', 'pydantic'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_reading_loads_nothing_heavy(tmp_path):
    (tmp_path / "w.yaml").write_text(SHORT)
    program = "import skyband as sb, sys; sb.read_workload(sys.argv[1]); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "w.yaml")], capture_output=True, text=True, check=True
    )
    assert not {"pyspark", "numba", "rich", "typer", "pyarrow", "sqlglot"} & set(done.stdout.split())


def test_every_family_can_be_asked(read):
    file = read(FAMILIES)
    requests, flows, readings = (file.workloads[name] for name in ("requests", "flows", "readings"))
    assert [requests.family, flows.family, readings.family] == ["aggregate", "incomplete", "uncertain"]
    assert requests["busy"] == sb.AggregateTopK(
        name="busy", k=20, size="1 hour", slide="1 minute", key="client", value="bytes", partition_by=["site"]
    )
    assert (requests["hits"].aggregate, requests["hits"].full_only) == ("count", True)
    assert flows["heavy"] == sb.IncompleteTopK(
        name="heavy", k=5, size="5 minutes", every="10 seconds", object="flow", stream="router", value="bytes",
        streams=["r1", "r2"], weights={"r1": 2}, bounds=(0, 1000), occurrences=3, intervals=True,
    )  # fmt: skip
    told = {"by": "speed", "probability": "confidence", "rule": "reading", "where": "speed > 0", "size": "20 minutes"}
    assert list(readings) == [
        sb.UncertainTopK(name="fast", k=3, every="2 minutes", semantics="pt-k", threshold=0.5, **told),
        sb.UncertainTopK(name="sensors", k=1, stream="sensor", **told),
        sb.UncertainTopK(name="weighed", k=2, semantics="prf", weights=[1, 0.5], **told),
        sb.UncertainTopK(name="falling", k=2, semantics="prf", alpha=0.9, **told),
        sb.UncertainTopK(name="spoken", k=3, every="5 minutes", **told),
    ]


def test_an_algorithm_is_for_the_streams_that_know_it(read):
    file = read(FAMILIES)
    assert [file.algorithm_of(name) for name in file.workloads] == ["auto", "auto", "dp"]


def test_shards_are_for_the_streams_that_can_be_cut(read):
    file = read(FAMILIES.replace("algorithm: dp", "shards: 4"))
    assert [file.shards_of(name) for name in file.workloads] == [4, 4, None]
