"""`answers`, `start` with sinks and `skyband run` over a Spark Connect server on this machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pyspark
import pytest

from tests.class_archive import SHORT_LIVED
from tests.jobs import test_job as job
from tests.sharding import cases
from tests.spark import bounded_run
from tests.spark.cluster import HOME, PATIENCE, end
from tests.spark.frames import read_answers, write_files
from tests.waiting import wait_for

HAS_STREAMS = not pyspark.__version__.startswith("4.0.")
needs_streams = pytest.mark.skipif(not HAS_STREAMS, reason="Spark has stateful streams over Connect since 4.1")
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("connect")
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": 0,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": SHORT_LIVED,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": 2,
        "spark.python.daemon.module": "skyband.spark.worker_daemon",
    }
    given = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            [HOME / "bin" / "spark-submit", "--master", "local[2]", "--class", SERVER, *given, "spark-internal"],
            env={**bounded_run.environment(), "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1"},
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd=folder,
        )
    try:
        started = r"Spark Connect server started at: (?:\S*/)?127\.0\.0\.1:(\d+)"
        text = lambda: (folder / "log").read_text(errors="replace")  # noqa: E731
        wait_for(lambda: re.search(started, text()) or server.poll() is not None, PATIENCE)
        assert server.poll() is None, text()
        yield f"sc://127.0.0.1:{re.search(started, text())[1]}"
    finally:
        end(server)


def ran(folder, *arguments):
    """Run a program in its own process: a process has either classic sessions or those of Spark Connect."""
    environment = {name: value for name, value in bounded_run.environment().items() if not name.startswith("PYSPARK")}
    done = subprocess.run(
        [sys.executable, "-m", *map(str, arguments)],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return done.returncode, done.stderr


# Spark gives the process of foreachBatch ten seconds to start, which a busy machine may not keep.
@needs_streams
@pytest.mark.release
def test_answers_and_sinks(address, tmp_path):
    write_files(tmp_path / "in", bounded_run.batches(2))
    code, errors = ran(tmp_path, "tests.spark.connect_run", tmp_path, address)
    assert code == 0, errors
    for folder in ("batch", "out"):
        assert cases.answered(read_answers(tmp_path / folder), bounded_run.POSED) == bounded_run.wanted(2)


def workload(folder, address, more=""):
    text = job.STREAM + job.QUERIES + "sinks: [{type: jsonl, path: out}]\n"
    (folder / "work.yaml").write_text(
        f"{text}engine: {{checkpoint: state, settings: {{spark.remote: '{address}'}}}}\n{more}"
    )


def final(rows):
    """The windows that the watermark has closed: it is at the newest row, in whole milliseconds."""
    newest = max(row[0] for row in rows) // 1000 * 1000
    found = {key: [row for row in answers if row[1] <= newest] for key, answers in job.wanted(rows).items()}
    return {key: answers for key, answers in found.items() if answers}


@needs_streams
@pytest.mark.release
def test_workload_files(address, tmp_path):
    rows = job.rows_of(1)
    write_files(tmp_path / "in", [rows[:40], rows[40:80]])
    workload(tmp_path, address)
    code, errors = ran(tmp_path, "skyband.cli", "run", "work.yaml", "--catch-up")
    assert code == 0, errors
    assert job.whole(job.lines_of(tmp_path / "out")) == final(rows[:80])

    # As if the client had been killed after the server stored the answers, and before it wrote the last files.
    marks = tmp_path / "state" / "rows" / "skyband" / "delivered"
    for mark in marks.rglob("*"):
        if mark.is_file():
            os.remove(mark)
    (marks / "0" / "part-0.txt").write_text("0\n")
    for path in (tmp_path / "out").glob("rows-*.jsonl"):
        if int(path.stem.rpartition("-")[2]) > 0:
            path.unlink()
    write_files(tmp_path / "in", [rows[80:]], begin=2)
    code, errors = ran(tmp_path, "skyband.cli", "run", "work.yaml", "--catch-up")
    assert code == 0, errors
    assert job.whole(job.lines_of(tmp_path / "out")) == final(rows)


@pytest.mark.long
def test_once_and_what_is_rejected(address, tmp_path):
    rows = job.rows_of(1)
    write_files(tmp_path / "in", [rows[:40], rows[40:]])
    workload(tmp_path, address)
    code, errors = ran(tmp_path, "skyband.cli", "run", "work.yaml", "--once")
    assert code == 0, errors
    assert f"runs on Spark: the Spark Connect server '{address}' is named" in errors
    assert job.whole(job.lines_of(tmp_path / "out")) == job.wanted(rows)
    code, errors = ran(tmp_path, "skyband.cli", "verify", "work.yaml")
    assert code == 0, errors
    code, errors = ran(tmp_path, "skyband.cli", "run", "work.yaml", "--catch-up", "--fresh")
    assert code == 2
    assert "--fresh (fresh=True) is not supported over Spark Connect" in errors
    assert "Traceback" not in errors


@pytest.mark.skipif(HAS_STREAMS, reason="of Spark 4.0")
def test_streams_of_an_older_spark_are_rejected(address, tmp_path):
    write_files(tmp_path / "in", [job.rows_of(1)])
    workload(tmp_path, address)
    code, errors = ran(tmp_path, "skyband.cli", "run", "work.yaml", "--catch-up")
    assert code == 2
    assert f"streams over Spark Connect require Spark 4.1 or newer, got {pyspark.__version__}" in errors
    assert "Traceback" not in errors
