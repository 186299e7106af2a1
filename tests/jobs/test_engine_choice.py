"""Small files on this machine run without Spark; everything else runs on Spark, with the reason."""

from __future__ import annotations

import pytest

import skyband as sb
from skyband.jobs import engine_choice, run_local
from skyband.jobs.engine_choice import choose_engine, needs_spark, why_no_spark, without_advice

QUERY = "queries: [{name: q, k: 1, size: 1 minute, by: v}]\n"
FILES = "streams: {s: {path: in, format: csv, time: at}}\n"


@pytest.fixture
def with_spark(monkeypatch):
    monkeypatch.setattr(engine_choice, "why_no_spark", lambda: None)


def file_of(folder, text=FILES + QUERY):
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / "1.csv").write_text("at,v\n2024-01-01,1\n")
    (folder / "work.yaml").write_text(text)
    return sb.read_workload(folder / "work.yaml")


def test_a_small_input_runs_in_this_process(tmp_path, with_spark):
    choice = choose_engine(file_of(tmp_path))
    assert choice.engine == "local"
    assert str(choice) == ("runs in this process, without Spark: the input is small, 0.0 MB of files on this machine")


def test_a_large_input_runs_on_spark(tmp_path, with_spark, monkeypatch):
    file = file_of(tmp_path)
    (tmp_path / "in" / "2.csv").write_text("at,v\n" * 10)
    monkeypatch.setitem(engine_choice.LARGEST_LOCAL_INPUT, "csv", 60)
    assert choose_engine(file) == ("spark", "stream 's' has 0.0 MB of input, more than the 0.0 MB for --local")


def test_a_cluster_is_used_if_the_file_names_it(tmp_path, with_spark):
    file = file_of(tmp_path, FILES + QUERY + "engine: {master: 'spark://host:7077'}\n")
    assert choose_engine(file) == ("spark", "the file names the Spark master 'spark://host:7077'")
    assert choose_engine(file_of(tmp_path, FILES + QUERY + "engine: {master: 'local[2]'}\n")).engine == "local"


def test_without_spark_any_size_runs_in_this_process(tmp_path, monkeypatch):
    monkeypatch.setitem(engine_choice.LARGEST_LOCAL_INPUT, "csv", 0)
    monkeypatch.setattr(engine_choice, "why_no_spark", lambda: "Java, which Spark needs, was not found")
    assert choose_engine(file_of(tmp_path)) == ("local", "Java, which Spark needs, was not found")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "streams: {s: {source: rate, rows_per_second: 5}}\n" + QUERY.replace("by: v", "by: value"),
            "source 'rate'; without Spark only files and tables",
        ),
        (
            "streams: {s: {source: table, table: prod.db.trades, time: at}}\n" + QUERY,
            "stream 's' reads table 'prod.db.trades' of Spark's catalog, which only Spark has",
        ),
        (FILES.replace("path: in", "path: 's3a://b/in'") + QUERY, "which has a scheme"),
        (FILES.replace("time: at", "time: at, options: {comment: '#'}") + QUERY, "options: {comment: #}"),
        (FILES + QUERY + "engine: {settings: {spark.sql.ansi.enabled: false}}\n", "can change the answers"),
    ],
)
def test_what_needs_spark(tmp_path, with_spark, text, why):
    choice = choose_engine(file_of(tmp_path, text))
    assert choice.engine == "spark"
    assert why in choice.why
    assert "--local" not in choice.why


def test_why_there_is_no_spark(monkeypatch):
    monkeypatch.setattr(engine_choice.java, "find", lambda: None)
    assert why_no_spark() == "Java, which Spark needs, was not found"
    monkeypatch.setattr(engine_choice, "find_spec", lambda _: None)
    assert why_no_spark() == "the package pyspark is not installed"


@pytest.mark.parametrize(
    ("query", "needs"),
    [("by: soundex(v)", True), ("by: v +", True), ("by: w", False)],
)
def test_errors_that_spark_may_not_have(tmp_path, query, needs):
    file = file_of(tmp_path, FILES + QUERY.replace("by: v", query))
    with pytest.raises(sb.SkybandError) as error:
        run_local(file)
    assert needs_spark(error.value) is needs
    assert needs_spark(sb.PipelineError("x")) is False
    assert "Supported functions" not in without_advice(error.value)
