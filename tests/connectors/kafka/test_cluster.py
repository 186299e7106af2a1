"""Workers and drivers of a standalone cluster are killed at random: each answer is once in each sink.

The campaign of `tests/faults` has the other sinks: folders of Parquet and JSON, Delta, Iceberg, PostgreSQL and Redis.
"""

from __future__ import annotations

import csv
import datetime as dt
import random

import pytest

from tests.connectors.kafka.test_delivery import LATER, sent, written
from tests.connectors.kafka.test_transactions import committed
from tests.connectors.kafka.work import POSED, rows_of, wanted, workload
from tests.faults.process import Driver
from tests.sharding import cases
from tests.spark.cluster import Cluster
from tests.spark.frames import read_answers
from tests.waiting import wait_for

pytestmark = [pytest.mark.long, pytest.mark.faults]

WORKERS = ("first", "second")
ENGINE = """
engine:
  master: "{master}"
  memory: 768m
  settings:
    spark.cores.max: 2
    spark.executor.cores: 1
    spark.executor.memory: 600m
    spark.driver.host: 127.0.0.1
    spark.driver.bindAddress: 127.0.0.1
    spark.sql.shuffle.partitions: 2
"""
SINKS = """
  - {{type: csv, path: cells}}
  - {{type: parquet, path: out, writers: tasks}}
  - {{type: kafka, servers: "{servers}", topic: {out}, delivery: exactly_once,
     options: {{kafka.max.block.ms: 600000}}}}
"""
ROWS = 400


def test_workers_and_drivers_that_are_killed(spark, topics, tmp_path, tally):
    rows, topic, out = rows_of(61, ROWS), topics.name(), topics.name()
    source = random.Random(61)
    workload(tmp_path, topics, topic, more="rows_per_batch: 20", sinks=SINKS.format(servers=topics.servers, out=out))
    topics.send_rows(topic, [*rows, (rows[-1][0] + LATER, 1.0, 1, "a")])
    (tmp_path / "cluster").mkdir()
    cluster = Cluster(tmp_path / "cluster", restarts=True)
    file = tmp_path / "work.yaml"
    file.write_text(file.read_text() + ENGINE.format(master=cluster.url))
    driver = Driver(file, SPARK_LOCAL_IP="127.0.0.1")
    try:
        cluster.add_workers(*WORKERS)
        driver.start()
        for fault in source.sample(["worker", "worker", "worker", "driver", "java"], 5):
            before = files(tmp_path)
            wait_for(lambda before=before: not driver.is_alive() or files(tmp_path) > before, 600)
            assert driver.is_alive(), driver.told()
            if fault == "worker":
                name = source.choice(WORKERS)
                cluster.kill_worker(name)
                cluster.add_workers(name)
                tally.fault("kill -9 of a worker")
            else:
                driver.kill("everything" if fault == "driver" else "java")
                driver.start()
                tally.fault("kill -9 of the driver")
        wait_for(lambda: not driver.is_alive() or written(tmp_path / "out") == wanted(rows), 600)
        assert driver.stop() == 130, driver.told()
    finally:
        driver.end()
        cluster.stop()
    tally.check_answers(written(tmp_path / "out"), wanted(rows))
    tally.check_answers(sent(committed(topics, out)), wanted(rows))
    expected = sorted(place(row) for row in read_answers(tmp_path / "out"))
    assert sorted(place(row) for row in cells(tmp_path / "cells")) == expected
    assert len(POSED) == len({row[0] for row in expected})


def files(folder):
    """How many micro-batches have answers."""
    return len(list((folder / "out").glob("*.parquet")))


def cells(folder):
    """The rows of CSV files."""
    return [row for path in sorted(folder.glob("*.csv")) for row in csv.DictReader(path.open(newline=""))]


def place(row):
    """What identifies a row of an answer, and its values."""
    return (
        row["query"],
        row["g"] or "",
        _micros(row["window_end"]),
        int(row["rank"]),
        int(row["id"]),
        float(row["score"]),
    )


def _micros(bound):
    return cases.micros(dt.datetime.fromisoformat(bound) if isinstance(bound, str) else bound)
