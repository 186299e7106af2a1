"""Recipes by hand: the services of compose on loopback, and the program of the Spark operator."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband import streams
from skyband.cli.signals import INTERRUPTED
from skyband.spark.ivy import NotFetchedError
from tests.connectors.kafka.broker import Broker, broker_jars, connector
from tests.connectors.kafka.topics import Sent, Topics
from tests.connectors.postgres.server import Postgres, binaries
from tests.programs import COMMAND, LONGEST, skyband
from tests.servers import PASSWORD, free_port
from tests.test_deploy import DEPLOY, container, read
from tests.waiting import wait_for

ROWS = 4_000


@pytest.fixture
def kafka(spark, tmp_path):
    """The service `kafka`, with the topic that the service `topics` creates; `spark` writes to it."""
    try:
        connector()
        classpath = broker_jars()
    except NotFetchedError as error:
        pytest.skip(f"Kafka is not tested: {error}")
    (tmp_path / "kafka").mkdir()
    broker = Broker(tmp_path / "kafka", classpath)
    yield broker
    broker.stop()


@pytest.fixture
def postgres():
    """The service `postgres`, with its user and database."""
    if binaries() is None:
        pytest.skip("there is no PostgreSQL server on this machine; on Debian: apt-get install postgresql")
    found = Postgres()
    about = read("docker-compose.yaml")["services"]["postgres"]["environment"]
    found.execute(f"CREATE ROLE {about['POSTGRES_USER']} LOGIN PASSWORD '{PASSWORD}'")
    found.execute(f"CREATE DATABASE {about['POSTGRES_DB']} OWNER {about['POSTGRES_USER']}")
    yield found
    found.remove()


def trades():
    """An hour of trades: enough for every window of both queries."""
    made = streams.trades(ROWS, seed=7)
    step = 3_600_000_000 // ROWS
    at = pa.array([made.position[0] + number * step for number in range(ROWS)]).cast(pa.timestamp("us", "UTC"))
    return pa.table({"at": at, "symbol": made.symbol.tolist(), "price": made.price, "shares": made.size})


def record(row):
    return Sent(json.dumps({**row, "at": row["at"].isoformat()}).encode())


@pytest.mark.release
@pytest.mark.kafka
def test_the_service_answers_is_healthy_and_stops(spark, kafka, postgres, tmp_path):
    recipe = read("docker-compose.yaml")["services"]["skyband"]
    state, port = tmp_path / "state", free_port()
    state.mkdir(mode=0o700)
    file = tmp_path / "skyband.yaml"
    file.write_text((DEPLOY / "skyband.yaml").read_text().replace("/var/lib/skyband", str(state)))
    here = {"kafka:9092": kafka.servers, "postgres:5432": f"127.0.0.1:{postgres.port}"}
    environment = {name: str(value) for name, value in recipe["environment"].items()}
    environment["PGPASSWORD"] = PASSWORD
    for name, address in here.items():
        environment = {key: value.replace(name, address) for key, value in environment.items()}

    def local(word):
        return word.replace("/etc/skyband/skyband.yaml", str(file)).replace("0.0.0.0:9464", f"127.0.0.1:{port}")

    rows = trades()
    Topics(spark, kafka.servers).send("trades", [record(row) for row in rows.to_pylist()])
    command = [*COMMAND, *map(local, container()["args"])]
    with (tmp_path / "log").open("wb") as log:
        known = {**os.environ, **environment, "SPARK_LOCAL_IP": "127.0.0.1"}
        process = subprocess.Popen(command, cwd=state, env=known, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        check = [sys.executable if word == "python" else word for word in recipe["healthcheck"]["test"][1:]]
        check = [word.replace("9464", str(port)) for word in check]

        def is_healthy():
            assert process.poll() is None, (tmp_path / "log").read_text()[-4000:]
            return subprocess.run(check, capture_output=True, check=False).returncode == 0

        wait_for(is_healthy, 600, pause=1)

        def has_read_all():
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as found:
                lines = found.read().decode().splitlines()
            counts = [float(line.split()[-1]) for line in lines if line.startswith("skyband_rows_total{")]
            return sum(counts) == ROWS

        wait_for(has_read_all, 600, pause=1)
        flushed = skyband("ctl", "flush", "--file", file, env=known)
        assert flushed.returncode == 0, flushed.stderr
        assert "big" in skyband("ctl", "list", "--file", file, env=known).stdout
        process.send_signal(signal.SIGTERM)
        assert process.wait(300) == INTERRUPTED, (tmp_path / "log").read_text()[-4000:]
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    queries = sb.read_workload(file, environment).workloads["trades"]
    wanted = sb.replay(queries, rows, time="at").to_arrow()
    found = postgres.execute("SELECT query, rank, score FROM answers", database="skyband")
    assert wanted.num_rows > 500
    assert sorted(found) == sorted(zip(*(wanted[name].to_pylist() for name in ("query", "rank", "score")), strict=True))


@pytest.mark.release
def test_the_program_of_the_operator_answers_exactly(tmp_path):
    made = streams.trades(ROWS, seed=7)
    ids = pa.array(made.trade_id)
    rows = trades().rename_columns(["ts", "symbol", "price", "shares"]).append_column("trade_id", ids)
    rows = rows.select(["ts", "trade_id", "symbol", "price", "shares"])
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
    pq.write_table(rows, tmp_path / "in" / "trades.parquet")
    places = [str(tmp_path / name) for name in ("in", "out", "state")]
    command = [sys.executable, DEPLOY / "spark-operator" / "job.py", *places, "--once"]
    known = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    known["PYSPARK_SUBMIT_ARGS"] = "--master local[2] --conf spark.sql.shuffle.partitions=2 pyspark-shell"
    done = subprocess.run(command, env=known, capture_output=True, text=True, timeout=LONGEST, check=False)
    assert done.returncode == 0, done.stderr
    largest = sb.TopK(name="largest", k=10, size="10 minutes", slide="1 minute", by="price * shares")
    wanted = sb.replay(largest, rows, time="ts", id="trade_id").to_arrow()
    found = pq.read_table(tmp_path / "out").sort_by([("window_end", "ascending"), ("rank", "ascending")])
    assert found["trade_id"].to_pylist() == wanted["trade_id"].to_pylist()
