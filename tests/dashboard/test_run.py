"""The page of a run on Spark: it shows the answers of the definition, follows a change, and stays when the run ends."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
import urllib.request

import pytest
from rich.console import Console

import skyband as sb
from skyband.cli.dashboard import Page, PageOptions
from skyband.jobs import run
from skyband.jobs.control_server import ControlServer
from skyband.sharding.delivery import Wanted
from skyband.spark.health import Pulse
from tests.dashboard.asking import Asking, strict
from tests.programs import COMMAND
from tests.sharding import cases
from tests.spark.frames import write_files
from tests.waiting import wait_for

FILE = """
streams:
  rows: {path: in, format: parquet, time: ts, id: id, watermark: 0 seconds, files_per_batch: 1,
         schema: {ts: timestamp, id: long, g: string, s: double}}
queries:
  - {name: all, k: 3, size: 20 seconds, slide: 5 seconds, by: s}
  - {name: each, k: 2, size: 20 seconds, slide: 10 seconds, by: s, partition_by: g}
"""
ALL = cases.Posed("all", cases.Asked(k=3, size=20_000_000, slide=5_000_000), {"by": "s"})


@pytest.fixture
def parts():
    rows = cases.draw_rows(cases.rng("the page"), 160, scale=1_000_000)
    rows = sorted((row for row in rows if row[0] is not None), key=lambda row: row[0])
    return [rows[:60], rows[60:120], rows[120:]]


def shown(page, query):
    """All windows of a query, in the oracle's plain values."""
    rows = []
    for moment in page.get("moments", query=query)["moments"]:
        found = page.get("board", query=query, moment=moment)
        ends = [cases.micros(cases.dt.datetime.fromisoformat(found[name])) for name in ("start", "moment")]
        rows += [(*ends, row["rank"], row["id"], float(row["score"])) for row in found["rows"]]
    return rows


@pytest.mark.long
def test_a_stream_that_is_changed_from_its_page(spark, tmp_path, parts):
    (tmp_path / "work.yaml").write_text(FILE)
    file = sb.read_workload(tmp_path / "work.yaml")
    write_files(tmp_path / "in", [parts[0]])
    page = Page(file, PageOptions(at="0", allow_control=True), changeable=True)
    running = run(file, "stream", watchers={"rows": [page.watcher("rows")]}, spark=spark)
    page.begin(running)
    try:
        with ControlServer(running), page:
            asking = Asking(page._server)
            count = sum(row[1] is not None for row in parts[0])
            wait_for(lambda: running.metrics()["rows"]["rows"] >= count)
            wait_for(lambda: asking.status("board", query="each")[0] == 200)
            status, told = asking.post("add", {"sql": "more: TOPK s, 5 OVER 10 SECONDS EVERY 5 SECONDS"})
            assert status == 200, told
            for number, part in enumerate(parts[1:], 1):
                write_files(tmp_path / "in", [part], begin=number)
            newest = max(row[0] for part in parts for row in part)
            want = [
                row
                for row in cases.wanted(ALL, [row for part in parts for row in part])["all", "-"]
                if row[1] <= newest
            ]
            wait_for(lambda: asking.status("board", query="more")[0] == 200)
            wait_for(lambda: len(shown(asking, "all")) >= len(want))
            assert shown(asking, "all") == want
            state = asking.get("state")
            assert [one["name"] for one in state["queries"]] == ["all", "each", "more"]
            assert next(one for one in state["queries"] if one["name"] == "each")["columns"] == ["ts", "id", "s"]
            assert asking.get("groups", query="each")["total"] > 1
            wait_for(lambda: asking.get("engine")["streams"]["rows"]["restarts"] == 1)
            assert asking.get("engine")["streams"]["rows"]["queries"] == 3
            # The page looks once a second.
            wait_for(lambda: asking.get("engine")["streams"]["rows"]["rows"] == running.metrics()["rows"]["rows"])
            running.stop()
            asked = threading.Event()
            asked.set()
            page.serve_ended(Console(quiet=True), asked)
            assert asking.get("state")["ended"]
    finally:
        running.stop()


@pytest.mark.long
def test_whether_a_run_gets_on(spark, tmp_path, parts):
    """A micro-batch that does not end is told after a while; a stream that waits for rows is well however long."""
    (tmp_path / "work.yaml").write_text(FILE)
    write_files(tmp_path / "in", [parts[0]])
    begun, free, now = threading.Event(), threading.Event(), [0.0]

    class Slow:
        def take(self, batch, rows):
            begun.set()
            free.wait(3000)

    watchers = {"rows": [Wanted(Slow(), "answers")]}
    running = run(sb.read_workload(tmp_path / "work.yaml"), "stream", watchers=watchers, spark=spark)
    pulse = Pulse(running.beats, clock=lambda: now[0])

    def after(seconds):
        now[0] += seconds
        pulse.look()
        return pulse.ailment()

    try:
        assert begun.wait(300)
        assert after(1) is None
        assert after(601) == (
            "stream 'rows' makes no progress: one micro-batch has been running for 601 seconds, more than 600."
        )
        free.set()
        wait_for(lambda: after(0) is None and not running.beats()["rows"].is_busy)
        assert after(1e6) is None
    finally:
        free.set()
        running.stop()
    assert after(1e6) is None
    running.handles["rows"]._error = ValueError("as if")
    assert after(1) == "stream 'rows' has failed; see the log of the run for the reason."


@pytest.mark.long
def test_once_stays_until_ctrl_c(tmp_path, parts):
    (tmp_path / "work.yaml").write_text(FILE + 'engine: {master: "local[2]", memory: 1g}\n')
    rows = parts[0] + parts[1]
    write_files(tmp_path / "in", [rows])
    written = (tmp_path / "written.jsonl").open("w+")
    running = subprocess.Popen(
        [*COMMAND, "run", "work.yaml", "--once", "--json", "--page-at", "0"],
        cwd=tmp_path, stdout=written, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    lines = []
    for line in running.stderr:
        lines.append(line)
        if "the run has ended" in line:
            break
    url = re.search(r"the run has ended; dashboard at (http://127\.0\.0\.1:\d+/) until Ctrl-C", lines[-1])[1]
    with urllib.request.urlopen(f"{url}api/board?query=all", timeout=300) as found:
        board = strict(found.read())
    want = cases.wanted(ALL, rows)["all", "-"]
    last = max(row[1] for row in want)
    assert [(row["rank"], row["id"], float(row["score"])) for row in board["rows"]] == [
        row[2:5] for row in want if row[1] == last
    ]
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=300)
    assert running.returncode == 0, err
    assert "Traceback" not in err
    written.seek(0)
    assert len(written.readlines()) >= len(want)
    written.close()
    assert json.loads(err.splitlines()[-1])["mode"] == "once"
