"""All commands that work without Spark, where neither Java nor pyspark can be found, as programs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request

import pytest

from tests.jobs.test_local_job import BLOCKED, without_java
from tests.servers import free_port
from tests.waiting import wait_for

FILE = """
streams: {trades: {path: in, format: csv, time: at, watermark: 5 seconds}}
queries:
  - {name: best, k: 2, size: 20 seconds, slide: 10 seconds, by: price}
  - {name: each, k: 1, size: 20 seconds, by: price, partition_by: [symbol]}
sinks: [{type: terminal}, {type: parquet, path: out}]
"""
LINES = "at,symbol,price\n2024-01-01 00:00:00,a,1\n2024-01-01 00:00:25,b,5\n2024-01-01 00:00:07,a,3\n"
MORE = "at,symbol,price\n2024-01-01 00:02:00,a,7\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    put(tmp_path, "1.csv", LINES)
    (tmp_path / "skyband.yaml").write_text(FILE)
    return tmp_path


def put(folder, name, text):
    (folder / name).write_text(text)
    os.utime(folder / name, (1_000_000_000, 1_000_000_000))
    (folder / name).rename(folder / "in" / name)


def following(folder, *arguments):
    environment = {**os.environ, "PATH": "/nowhere"}
    environment.pop("JAVA_HOME", None)
    return subprocess.Popen(
        [sys.executable, "-c", BLOCKED, "run", "--local", *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_once_runs_in_this_process_and_says_so(folder):
    done = without_java(folder, "run", "--once", "--json")
    assert done.returncode == 0, done.stderr
    assert "runs in this process, without Spark: the package pyspark cannot be imported" in done.stderr
    assert len(done.stdout.splitlines()) == 8


def test_a_continuous_run_says_what_to_do(folder):
    done = without_java(folder, "run")
    assert done.returncode == 4
    assert "add --local" in done.stderr


def test_what_needs_spark_says_so(folder):
    (folder / "in" / "1.csv").write_text("at,symbol,price\n2024-01-01 00:00,a,1\n")
    done = without_java(folder, "run", "--once")
    assert done.returncode == 4
    assert "'2024-01-01 00:00' in column 'at'" in done.stderr
    assert "Spark may support it, but the package pyspark cannot be imported" in done.stderr
    done = without_java(folder, "run", "--local", "--spark")
    assert done.returncode == 2


def test_explain_init_and_verify(folder):
    done = without_java(folder, "explain")
    assert done.returncode == 0, done.stderr
    assert "skyband run --once runs in this process, without Spark" in done.stdout
    done = without_java(folder, "explain", "--json")
    assert json.loads(done.stdout)["once"]["engine"] == "local"
    done = without_java(folder, "init", "in", "--file", "new.yaml")
    assert done.returncode == 0, done.stderr
    assert "skyband run new.yaml --local" in done.stdout
    done = without_java(folder, "verify")
    assert done.returncode == 0, done.stderr
    assert "all 8 answer rows agree" in done.stdout
    assert "verifies in this process, without Spark" in done.stderr
    assert without_java(folder, "run", "new.yaml", "--once").returncode == 0


def test_the_demo():
    done = without_java(None, "demo")
    assert done.returncode == 0, done.stderr
    assert "runs in this process, without Spark" in done.stdout
    assert "answers checked are equal to a full sort of their window" in " ".join(done.stdout.split())


def test_following_a_folder_stopping_and_resuming(folder):
    metrics_at, page_at = free_port(), free_port()
    with following(folder, "--metrics", str(metrics_at), "--page-at", str(page_at)) as process:
        try:
            lines = [process.stdout.readline() for _ in range(4)]
            assert all("best" in line or "each" in line for line in lines)
            page = urllib.request.urlopen(f"http://127.0.0.1:{page_at}/", timeout=300).read()
            assert b"<html" in page.lower()
            metrics = urllib.request.urlopen(f"http://127.0.0.1:{metrics_at}/metrics", timeout=300).read().decode()
            assert 'skyband_rows_total{stream="trades"} 3.0' in metrics
            done = without_java(folder, "ctl", "list")
            assert "best: TOPK price, 2 OVER 20 SECONDS EVERY 10 SECONDS" in done.stdout
            done = without_java(folder, "ctl", "add", "more: TOPK price, 1 OVER 1 MINUTE", "--since", "1 hour")
            assert "added 'more' to stream 'trades'; valid from the window" in done.stdout, done.stderr
            assert "dropped 'more'" in without_java(folder, "ctl", "drop", "more").stdout
            assert without_java(folder, "run", "--local", "--catch-up").returncode == 2  # the state is locked
        finally:
            process.send_signal(signal.SIGTERM)
        err = process.stderr.read()
    assert process.returncode == 130
    assert "Resume with: skyband run skyband.yaml --local" in err
    put(folder, "2.csv", MORE)
    done = without_java(folder, "run", "--local", "--catch-up", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stderr.splitlines()[-1])["streams"]["trades"]["rows"] == 1
    with following(folder, "--json") as process:
        wait_for(lambda: without_java(folder, "ctl", "flush").returncode == 0)
        assert json.loads(process.stdout.readline())["query"] == "best"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=300)
    done = without_java(folder, "verify", "--answers", "out")
    assert done.returncode == 0, done.stdout


def test_control_of_the_dashboard_needs_spark(folder):
    done = without_java(folder, "run", "--local", "--page-at", str(free_port()), "--allow-control")
    assert done.returncode == 2
    assert "--allow-control is not supported with --local" in done.stderr
