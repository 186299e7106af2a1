"""Workload files with queries of all types: the same answers as in process, in every sink."""

from __future__ import annotations

import datetime as dt
import io
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from rich.text import Text

import skyband as sb
from skyband.cli.line_writers import PlainLines
from skyband.cli.terminal import screen
from skyband.connectors.memory import Board
from skyband.jobs import run
from skyband.sharding.delivery import Wanted
from skyband.workload_file import EngineSection
from tests.spark.frames import read_lines

SECOND = 1_000_000
FILE = """
streams:
  readings: {path: readings.parquet, time: at, id: id, watermark: 0 seconds}
  requests: {path: requests.parquet, time: at, watermark: 0 seconds}
  flows: {path: flows.parquet, time: at, watermark: 0 seconds}
queries:
  - {name: likely, stream: readings, type: uncertain, k: 3, size: 60 seconds, every: 20 seconds, by: speed,
     probability: p, rule: car}
  - {name: list, stream: readings, sql: "TOPK speed, 2 PROBABILITY p RULE car OVER 60 SECONDS SEMANTICS U-TOPK"}
  - {name: busy, stream: requests, type: aggregate, k: 2, size: 60 seconds, slide: 30 seconds, key: client, value: size}
  - {name: heavy, stream: flows, type: incomplete, k: 2, size: 60 seconds, every: 30 seconds, object: flow,
     stream_by: router, value: load, streams: [a, b], occurrences: 100}
sinks: [{type: memory}, {type: jsonl, path: out}]
engine: {algorithm: dp}
"""


@pytest.fixture(scope="module")
def data():
    """Columns of three streams, all of them in order of time."""
    rng = np.random.default_rng(8)
    n = 150
    return {
        "at": np.sort(rng.integers(0, 300 * SECOND, n)),
        "id": np.arange(n),
        "speed": rng.integers(30, 60, n).astype(float),
        "p": rng.choice([0.2, 0.5, 0.9], n),
        "car": np.array([f"c{row}" if row % 4 else None for row in range(n)], object),  # each rule has one tuple
        "client": rng.choice(["x", "y", "z"], n),
        "size": rng.integers(1, 99, n).astype(float),
        "flow": rng.choice(["f", "g", "h", "i"], n),
        "router": rng.choice(["a", "b"], n),
        "load": rng.random(n),
    }


@pytest.fixture(scope="module")
def answered(spark, data, tmp_path_factory):
    """The file's run, and a board that has watched it."""
    folder = tmp_path_factory.mktemp("families")
    write_families(folder, data)
    (folder / "work.yaml").write_text(FILE)
    file = sb.read_workload(folder / "work.yaml")
    board = Board()
    running = run(file, "once", watchers={name: [Wanted(board, "answers")] for name in file.workloads}, spark=spark)
    assert running.await_end(300)
    return file, running, board


def write_families(folder, data):
    """The streams' files."""
    at = pa.array(data["at"]).cast(pa.timestamp("us", "UTC"))
    for name, columns in {
        "readings": ("id", "speed", "p", "car"),
        "requests": ("client", "size"),
        "flows": ("flow", "router", "load"),
    }.items():
        pq.write_table(
            pa.table({"at": at, **{one: pa.array(data[one]) for one in columns}}), folder / f"{name}.parquet"
        )


def expected(file, data):
    """By stream: the answers in process, which other tests compare with the definitions."""
    at = data["at"]
    uncertain = [sb.UncertainTopK(**query.to_dict()) for query in file.workloads["readings"]]
    return {
        "readings": sb.uncertain.replay(
            uncertain, at, data["speed"], data["p"], list(data["car"]), data["id"], plan="dp"
        ),
        "requests": sb.aggregate.replay(file.workloads["requests"], at, data["client"], data["size"]),
        "flows": sb.incomplete.replay(file.workloads["flows"], at, data["flow"], data["router"], data["load"]),
    }


def plain(table):
    """Rows as plain values, times in microseconds."""
    return [tuple(_micros(value) for value in row.values()) for row in table.to_pylist()]


def _micros(value):
    return round(value.timestamp() * 1e6) if isinstance(value, dt.datetime) else value


@pytest.mark.parametrize("stream", ["readings", "requests", "flows"])
def test_the_answers_are_those_in_process(answered, data, stream):
    file, running, _ = answered
    wanted = expected(file, data)[stream]
    found = running.memory(stream).select(wanted.column_names)
    assert plain(found) == plain(wanted)
    assert wanted.num_rows > 5


@pytest.mark.long
def test_lags_of_incomplete_streams_are_told(spark, answered, data, tmp_path):
    file = replace(
        answered[0],
        workloads={"flows": answered[0].workloads["flows"]},
        sinks=(sb.sinks.Memory(),),
        engine=EngineSection(checkpoint=str(tmp_path / "state")),
    )
    running = run(file, "catch-up", spark=spark)
    assert running.await_end(300)
    newest = {name: data["at"][data["router"] == name].max() for name in "ab"}
    first = max(newest.values())
    assert running.metrics()["flows"]["lags"] == {name: (first - at) / SECOND for name, at in newest.items()}


def test_files_have_the_same_rows(answered):
    file, running, _ = answered
    lines = read_lines(file.path.parent / "out")
    assert len(lines) == sum(running.memory(stream).num_rows for stream in file.workloads)
    assert {line["query"] for line in lines} == {"likely", "list", "busy", "heavy"}


def test_a_terminal_shows_the_newest_answer_of_each(answered):
    file, _, board = answered
    queries = [query for workload in file.workloads.values() for query in workload]
    out = Console(file=io.StringIO(), width=120, highlight=False)
    out.print(screen(queries, {query.name: board.newest(query.name) for query in queries}, 60, Text("")))
    shown = out.file.getvalue()
    assert (
        "likely: the 3 tuples most likely to be in the top 3 of 1 minute, at least every 20 seconds   at 1970" in shown
    )
    assert "list: the most likely top-2 list of 1 minute" in shown
    assert "busy: the 2 values of client with the highest sum of size of 1 minute, every 30 seconds" in shown
    assert "heavy: the 2 best values of flow of 1 minute, every 30 seconds" in shown
    assert shown.count("probability") == 2
    for query in queries:
        newest = board.newest(query.name)
        assert len(newest[query.moment].unique()) == 1
        assert newest["rank"].to_pylist() == list(range(1, newest.num_rows + 1))


def test_lines_of_text_begin_with_the_moment(answered):
    _, running, _ = answered
    out = io.StringIO()
    PlainLines(out).take(0, running.memory("readings"))
    first = out.getvalue().splitlines()[0]
    assert first.startswith("1970-01-01 00:00:")
    assert "  likely  " in first
    assert "probability=" in first
