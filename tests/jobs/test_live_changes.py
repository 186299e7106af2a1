"""Workloads that are changed while they run: answers before, between and after are those of the definitions."""

from __future__ import annotations

import json
import threading

import pytest

import skyband as sb
from skyband.jobs import run
from skyband.jobs.control_server import ControlServer
from skyband.jobs.mailbox import Mailbox, mailbox_of
from tests.sharding import cases
from tests.spark.frames import read_answers, write_files
from tests.waiting import wait_for

FILE = """
streams:
  rows: {path: in, format: parquet, time: ts, id: id, watermark: 0 seconds, files_per_batch: 1,
         schema: {ts: timestamp, id: long, g: string, s: double}}
queries:
  - {name: all, k: 3, size: 20 seconds, slide: 5 seconds, by: s}
sinks: [{type: parquet, path: out}]
"""
ALL = cases.Posed("all", cases.Asked(k=3, size=20_000_000, slide=5_000_000), {"by": "s"})
MORE = cases.Posed("more", cases.Asked(k=5, size=10_000_000, slide=5_000_000), {"by": "s"})
STEPS = 4


@pytest.fixture
def parts():
    """Rows in order of time, in four parts."""
    rows = cases.draw_rows(cases.rng("live changes"), 240, scale=1_000_000)
    rows = sorted((row for row in rows if row[0] is not None), key=lambda row: row[0])
    size = len(rows) // STEPS
    return [rows[at * size : (at + 1) * size] for at in range(STEPS)]


def answers_in(folder):
    return cases.answered(read_answers(folder / "out"), [ALL, MORE])


def wait_for_rows(running, count, seconds=300):
    wait_for(lambda: running.metrics()["rows"]["rows"] >= count, seconds)
    assert running.metrics()["rows"]["rows"] == count


class Live:
    """A run in this process, with somebody who listens to it."""

    def __init__(self, spark, folder, parts):
        self.folder, self.parts = folder, parts
        (folder / "work.yaml").write_text(FILE)
        self.file = sb.read_workload(folder / "work.yaml")
        self.box = mailbox_of(self.file)
        self.spark = spark
        self.written = 0

    def __enter__(self):
        self.running = run(self.file, "stream", spark=self.spark)
        self.attendant = ControlServer(self.running).__enter__()
        return self

    def __exit__(self, *_):
        self.attendant.__exit__()
        self.running.stop()

    def metrics(self):
        """The numbers of a run that is asked whether it has ended, as who runs it does."""
        assert not self.running.await_end(0.01)
        return self.running.metrics()

    def feed(self):
        write_files(self.folder / "in", [self.parts[self.written]], begin=self.written)
        self.written += 1

    def ask(self, **message):
        reply = self.box.ask(message, 300)
        assert reply is not None
        return reply


def test_queries_come_and_go(spark, tmp_path, parts):
    live = Live(spark, tmp_path, parts)
    live.feed()
    with live:
        wait_for_rows(live.running, len(parts[0]))
        said = live.ask(kind="add", sql="more: TOPK s, 5 OVER 10 SECONDS EVERY 5 SECONDS")
        assert "added 'more' to stream 'rows'; valid from the window that ends at 1970-01-01T" in said["done"]
        for refused, why in {
            "more: TOPK s, 1 OVER 10 SECONDS": "a query named 'more' already runs",
            "x: TOPK s, 1 OVER 10 ROWS": "axis",
            "y: TOPK nothing, 1 OVER 10 SECONDS": "nothing",
            "z: TOPK s, 200000 OVER 10 SECONDS": "a running job accepts k up to 100,000",
            "TOPK s, 1": "expected OVER",
            "j: TOPK s, 1 WHERE reflect('java.lang.System', 'lineSeparator') <> '' OVER 10 SECONDS": "uses reflect",
        }.items():
            assert why in live.ask(kind="add", sql=refused)["refused"], refused
        live.feed()
        wait_for_rows(live.running, sum(map(len, parts[:2])))
        assert live.ask(kind="list")["queries"] == {
            "rows": [str(query) for query in live.running.file.workloads["rows"]]
        }
    with live:  # what was added is asked again
        live.feed()
        wait_for_rows(live.running, len(parts[2]))
        assert "dropped 'more'" in live.ask(kind="drop", name="more")["done"]
        assert "is the last query" in live.ask(kind="drop", name="all")["refused"]
        assert "did you mean 'all'" in live.ask(kind="drop", name="al")["refused"]
        live.feed()
        wait_for_rows(live.running, sum(map(len, parts[2:])))
        assert "every window with a row is emitted" in live.ask(kind="flush")["done"]
        live.running.handles["rows"].flush()
    rows = [row for part in parts for row in part]
    found = answers_in(tmp_path)
    assert found["all", "-"] == cases.wanted(ALL, rows)["all", "-"]
    # The other is whole from the first window that began after all rows it was not there for, until it was dropped.
    # A watermark holds from the next micro-batch on, so that the last part need not be final when it is dropped.
    newest, final = (max(row[0] for row in part) for part in parts[:2])
    first = next(end for end in range(0, 10**12, 5_000_000) if end - 10_000_000 > newest)
    assert f"valid from the window that ends at {cases.EPOCH + cases.dt.timedelta(microseconds=first)}" == (
        said["done"].partition("; ")[2].replace("T", " ")
    )
    wanted = [row for row in cases.wanted(MORE, rows)["more", "-"] if row[1] >= first]
    mine = found["more", "-"]
    assert mine == wanted[: len(mine)]
    assert mine[-1][1] >= final - 10_000_000


def test_what_is_no_message_is_refused_and_the_run_goes_on(spark, tmp_path, parts):
    live = Live(spark, tmp_path, parts)
    live.feed()
    with live:
        for name, content in {
            "0-a": b"\x80\x04cos\nsystem\n",
            "0-b": json.dumps({"kind": "x" * 100_000}).encode(),
            "0-c": b"[1]",
        }.items():
            hidden = live.box.folder / f".{name}"  # it may be looked for at any moment
            hidden.write_bytes(content)
            hidden.rename(live.box.folder / f"{name}.request.json")
        assert live.ask(kind="delete everything")["refused"].startswith("a message of kind 'delete everything'")
        assert "more than 65,536 bytes" in live.box.fetch("0-b")["refused"]
        assert "not a mapping" in live.box.fetch("0-c")["refused"]
        assert "is not supported" in live.box.fetch("0-a")["refused"]
        wait_for_rows(live.running, len(parts[0]))


@pytest.mark.long
def test_concurrent_changes_are_ordered(spark, tmp_path, parts):
    live = Live(spark, tmp_path, parts)
    live.feed()
    with live:
        wait_for_rows(live.running, len(parts[0]))
        replies = {}

        def add(number):
            replies[number] = live.ask(kind="add", sql=f"q{number % 2}: TOPK s, {number + 1} OVER 10 SECONDS")

        threads = [threading.Thread(target=add, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        done = [number for number, reply in replies.items() if "done" in reply]
        assert sorted(number % 2 for number in done) == [0, 1]  # of two that want a name, one has it
        assert len(live.running.file.workloads["rows"]) == 3
    again = run(live.file, "stream", spark=spark)
    try:
        assert again.file.workloads == live.running.file.workloads
    finally:
        again.stop()


@pytest.mark.long
def test_a_query_that_some_row_breaks_is_dropped_and_the_stream_goes_on(spark, tmp_path, parts, caplog):
    """What cannot be computed is known only when the row comes: whoever added it must not have stopped the others."""
    live = Live(spark, tmp_path, parts)
    live.feed()
    with live:
        wait_for_rows(live.running, len(parts[0]))
        assert "added 'more'" in live.ask(kind="add", sql="more: TOPK s, 5 OVER 10 SECONDS EVERY 5 SECONDS")["done"]
        assert "added 'bad'" in live.ask(kind="add", sql="bad: TOPK cast(g AS int)+s, 5 OVER 10 SECONDS")["done"]
        with caplog.at_level("WARNING", "skyband.control"):
            for _ in parts[1:]:
                live.feed()
                wait_for_rows(live, sum(map(len, parts[: live.written])))
        assert [query.name for query in live.running.file.workloads["rows"]] == ["all", "more"]
        live.running.handles["rows"].flush()
    assert "dropped 'bad' from stream 'rows', which continues without it" in caplog.text
    again = run(live.file, "stream", spark=spark)  # nor does it come back
    try:
        assert again.file.workloads == live.running.file.workloads
    finally:
        again.stop()
    found = answers_in(tmp_path)
    assert found["all", "-"] == cases.wanted(ALL, [row for part in parts for row in part])["all", "-"]


def test_nobody_listens_where_nothing_runs(tmp_path):
    assert not Mailbox(tmp_path / "mail").is_heard()
