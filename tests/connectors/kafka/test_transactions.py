"""Answers in transactions: each message is once among those that are committed, whatever is killed."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from functools import partial

import pytest
from py4j.protocol import Py4JJavaError

import skyband as sb
from skyband.connectors.kafka_transactions import TransactionalTopic
from skyband.jobs import run
from skyband.sharding.delivery import Wanted
from tests.connectors.kafka.test_delivery import LATER, Failing, sent
from tests.connectors.kafka.work import finished, rows_of, wanted, workload
from tests.programs import COMMAND
from tests.waiting import wait_for

pytestmark = [pytest.mark.long, pytest.mark.faults]


def committed(topics, topic):
    """The messages of a topic; each key and window must be there once."""
    records = topics.read(topic, "read_committed")
    answers = Counter((record["key"], json.loads(record["value"])["window_end"]) for record in records)
    assert not [answer for answer, count in answers.items() if count > 1]
    return records


def file_of(folder, topics, topic, out, more=""):
    sink = f"{{type: kafka, servers: '{topics.servers}', topic: {out}, delivery: exactly_once}}"
    return workload(folder, topics, topic, more=more, sinks=f"[{sink}, {{type: parquet, path: out}}]")


def send_without_commit(self, sent, committed):
    """What a process has done that is killed before it commits."""
    self._producer.beginTransaction()
    for key, value in sent:
        self._producer.send(self._kafka().clients.producer.ProducerRecord(self._topic, key, value))
    self._producer.flush()
    raise OSError("killed in mid-transaction")


def test_crashes_before_and_after_a_commit(spark, topics, tmp_path, tally, monkeypatch):
    rows, topic, out = rows_of(51, 120), topics.name(), topics.name()
    file = file_of(tmp_path, topics, topic, out)
    topics.send_rows(topic, rows[:60])
    with monkeypatch.context() as patched:
        patched.setattr(TransactionalTopic, "_commit", send_without_commit)
        running = run(file, "catch-up", spark=spark)
        with pytest.raises(sb.PipelineError, match="killed in mid-transaction"):
            running.await_end(300)
    tally.fault("crash in mid-transaction")
    assert count(topics, out)
    assert not committed(topics, out)
    running = run(file, "catch-up", spark=spark, watchers={"rows": [Wanted(Failing(), "answers")]})
    with pytest.raises(sb.PipelineError, match="the power went out"):
        running.await_end(300)
    tally.fault("crash between sending and noting it down")
    once = len(committed(topics, out))
    assert once
    finished(file, spark, "catch-up")
    assert len(committed(topics, out)) == once, "a batch that is run again sends nothing"
    last = (rows[-1][0] + LATER, 1.0, 1, "a")
    topics.send_rows(topic, [*rows[60:], last])
    finished(file, spark, "catch-up")
    tally.check_answers(sent(committed(topics, out)), wanted(rows))
    shutil.rmtree(tmp_path / ".skyband")
    shutil.rmtree(tmp_path / "out")
    with pytest.raises(sb.InvalidInputError, match=r"contains answers of stream 'rows' from another run.*sends all"):
        run(file, "catch-up", spark=spark)
    before = len(committed(topics, out))
    running = run(file, "catch-up", spark=spark, fresh=True)
    assert running.await_end(300)
    assert len(topics.read(out, "read_committed")) == 2 * before


def test_processes_that_are_killed(spark, topics, tmp_path, tally):
    """kill -9 of the driver and its JVM while micro-batches are sent."""
    rows, topic, out = rows_of(52, 160), topics.name(), topics.name()
    file = file_of(tmp_path, topics, topic, out, "rows_per_batch: 10")
    topics.send_rows(topic, rows)
    topics.send_rows(topic, [(rows[-1][0] + LATER, 1.0, 1, "a")])
    for _ in range(2):
        before = count(topics, out)
        with (tmp_path / "log").open("ab") as log:
            process = subprocess.Popen(
                [*COMMAND, "run", tmp_path / "work.yaml"], stdout=log, stderr=log, process_group=0
            )
        try:
            wait_for(partial(has_more, process, topics, out, before + 3))
            assert process.poll() is None, (tmp_path / "log").read_text()[-2000:]
        finally:
            kill(process)
        tally.fault("kill -9 of the driver")
    finished(file, spark, "catch-up")
    tally.check_answers(sent(committed(topics, out)), wanted(rows))


def has_more(process, topics, topic, than):
    return process.poll() is not None or count(topics, topic) > than


def count(topics, topic):
    """How many messages a topic has, committed or not; 0 before it exists."""
    try:
        return len(topics.read(topic))
    except Py4JJavaError as error:
        if "UnknownTopicOrPartition" not in str(error):
            raise
        return 0


def kill(process):
    """End a process and those that it started, by their ids."""
    import psutil

    children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    for one in [process, *children]:
        one.kill()
    process.wait(60)


def test_what_cannot_be_sent_in_transactions(spark, topics, tmp_path):
    topic, out = topics.name(), topics.name()
    topics.send_rows(topic, rows_of(53, 20))
    file = file_of(tmp_path, topics, topic, out)
    text = (tmp_path / "work.yaml").read_text()
    many = "".join(f"\n  - {{name: q{number}, k: 1, size: 1 hour, by: s}}" for number in range(301))
    (tmp_path / "work.yaml").write_text(text.replace("\nqueries:", f"\nqueries:{many}"))
    with pytest.raises(sb.InvalidInputError, match="supports at most 300 queries, and this sink has 303"):
        run(sb.read_workload(tmp_path / "work.yaml"), "catch-up", spark=spark)
    assert file.sinks[0].delivery == "exactly_once"
    assert not (tmp_path / "out").exists()
