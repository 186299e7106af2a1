"""Alerts, runbooks and the dashboard in deploy/ with a real run: it provokes what they are for."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

import skyband as sb
from skyband.cli.prometheus import MetricsServer
from skyband.jobs import run_local
from tests.alert_rules import Scrapes, rules, samples
from tests.spark.frames import write_files

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "how-to" / "runbooks.md"
DASHBOARD = ROOT / "deploy" / "grafana" / "skyband.json"
SECOND = 1_000_000
FILE = """
streams:
  trades: {path: in, format: parquet, time: ts, id: id, watermark: 0 seconds, files_per_batch: 1}
queries:
  - {name: hourly, k: 2, size: 2 hours, slide: 1 hour, by: s}
  - {name: growing, k: 2, size: 2 hours, slide: 1 hour, by: s, partition_by: [g]}
sinks: [{type: jsonl, path: out}]
"""


def rows(first, last, *, groups=4, step=60):
    """A row a minute."""
    return [(n * step * SECOND, float(n % 7), n, f"{n % groups}" * 40) for n in range(first, last)]


def scrape(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read().decode()


class Followed:
    """A run that reads one file at a time, and is scraped after each at a time of the test's own clock."""

    def __init__(self, folder, file=FILE):
        self.folder, self.files, self.at = folder, 0, 0.0
        self.running = self.server = None
        (folder / "in").mkdir()
        (folder / "skyband.yaml").write_text(file)
        self.scrapes = Scrapes("trades")

    def step(self, seconds, content=None):
        """Process a file, and scrape so many seconds after the step before."""
        if content is not None:
            write_files(self.folder / "in", [content], begin=self.files)
            self.files += 1
        if self.running is None:
            self.running = run_local(sb.read_workload(self.folder / "skyband.yaml"), "stream")
        running = self.running
        while running.metrics()["trades"]["batches"] < self.files or running.beats()["trades"].is_busy:
            assert running.is_active
            time.sleep(0.01)
        if self.server is None:
            self.server = MetricsServer("0", running.metrics).__enter__()
        self.at += seconds
        self.scrapes.add(self.at, scrape(self.server.url))

    def close(self):
        if self.server is not None:
            self.server.__exit__()
            self.running.stop()

    def fires(self):
        return {name for name, rule in rules().items() if name != "SkybandDown" and self.scrapes.holds(rule["expr"])}


@pytest.fixture
def followed(tmp_path):
    made = []

    def make(**more):
        made.append(Followed(tmp_path, **more))
        return made[0]

    yield make
    for one in made:
        one.close()


@pytest.mark.long
def test_alerts_of_a_run(followed):
    """Each alert holds when its cause is there, and not before."""
    run = followed()
    run.step(60, rows(0, 200))
    for number in range(3):  # half an hour of event time in half an hour
        run.step(600, rows(200 + 10 * number, 210 + 10 * number))
    assert run.fires() == {"SkybandEmitLagGrows"}, "the lag grows by the slide between two answers"
    run.step(600, rows(230, 242))  # the window ends
    assert run.fires() == set()

    run.step(600, [*rows(242, 250), *rows(20, 40)])  # in order within the file, then hours behind
    run.step(600, [*rows(250, 252), *rows(20, 60)])
    assert "SkybandLateRows" in run.fires()

    for number in range(6):
        run.step(600, rows(252 + 2 * number, 254 + 2 * number))
    assert "SkybandLateRows" not in run.fires()
    for number in range(8):  # ever new groups
        at = (264 * 60 + number) * SECOND
        run.step(600, [(at, 1.0, 10_000 * number + n, f"{number} {n} " + "x" * 200) for n in range(1500)])
        assert number or "SkybandStateGrows" not in run.fires()
    assert "SkybandStateGrows" in run.fires()
    assert "SkybandNoMicroBatch" not in run.fires()
    for _ in range(2):
        run.step(600)
    assert "SkybandNoMicroBatch" in run.fires()


def test_every_alert_has_a_runbook_and_every_runbook_an_alert():
    found = rules()
    for name, rule in found.items():
        assert rule["annotations"]["runbook"] == f"docs/how-to/runbooks.md#{name.lower()}"
        assert rule["annotations"]["summary"]
    assert [line[3:] for line in PAGE.read_text().splitlines() if line.startswith("## ")] == list(found)


def test_the_dashboard_shows_a_real_run(followed):
    """Every series that a panel queries is in the scrape of a run, with the label that it selects."""
    run = followed()
    run.step(60, rows(0, 200))
    there = samples(scrape(run.server.url))
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    queried = {
        found
        for panel in panels
        for target in panel["targets"]
        for found in re.findall(r"(skyband_\w+)\{(\w+)=~", target["expr"])
    }
    assert len(queried) >= 17
    missing = {name for name, label in queried if f'{name}{{{label}="trades"}}' not in there}
    assert missing == set()
    legends = {target.get("legendFormat", "") for panel in panels for target in panel["targets"]}
    assert set(re.findall(r"\{\{\s*(\w+)\s*\}\}", " ".join(legends))) <= {"stream"}
    (variable,) = [one for one in json.loads(DASHBOARD.read_text())["templating"]["list"] if one["type"] == "query"]
    assert (
        re.fullmatch(r"label_values\((skyband_\w+), stream\)", variable["definition"])[1] + '{stream="trades"}' in there
    )


def commands():
    """The commands of the page, in order, also those in lists."""
    return re.findall(r"^ *\$ (.+)$", PAGE.read_text(), re.MULTILINE)


@pytest.mark.long
def test_the_commands_of_the_runbooks(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    write_files(tmp_path / "in", [rows(0, 200), [*rows(200, 210), *rows(10, 30)]])
    (tmp_path / "skyband.yaml").write_text(FILE)
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "skyband").write_text(f'#!/bin/sh\nexec {sys.executable} -m skyband.cli "$@"\n')
    (tools / "skyband").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    run = subprocess.Popen(
        ["skyband", "run", "skyband.yaml", "--local", "--metrics", str(port)],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + 300
        while True:
            try:
                if 'skyband_late_rows_total{stream="trades"} 20.0' in scrape(f"http://127.0.0.1:{port}/metrics"):
                    break
            except OSError:
                pass
            assert time.monotonic() < until
            assert run.poll() is None
            time.sleep(0.2)
        said = {}
        for command in commands():
            done = subprocess.run(
                ["sh", "-c", command.replace("9464", str(port))],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert done.returncode == 0, (command, done.stdout, done.stderr)
            said[command] = done.stdout
        assert len(said) >= 8
        assert said["curl -s 127.0.0.1:9464/healthz"] == "ok\n"
        assert "20 late" in said["skyband ctl list"]
        assert 'skyband_late_rows_total{stream="trades"} 20.0' in next(
            text for command, text in said.items() if "late_" in command
        )
        assert "dropped 'growing'" in said["skyband ctl drop growing"]
    finally:
        run.send_signal(signal.SIGTERM)
        assert run.wait(120) == 130
