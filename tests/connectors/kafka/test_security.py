"""A broker that asks who is there: passwords come from the environment, and are told to nobody else."""

from __future__ import annotations

import json
import os

import pytest

import skyband as sb
from skyband.jobs import run
from tests.connectors.kafka.broker import PASSWORD, USER
from tests.connectors.kafka.work import POSED, rows_of, wanted
from tests.programs import skyband
from tests.sharding import cases

JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required username=alice password='${KAFKA_PASSWORD}';"
FILE = """
streams:
  rows:
    source: kafka
    servers: {servers}
    topic: {topic}
    format: json
    schema: {{ts: timestamp, id: bigint, g: string, s: double}}
    options:
      kafka.security.protocol: SASL_PLAINTEXT
      kafka.sasl.mechanism: PLAIN
      kafka.sasl.jaas.config: "{jaas}"
    time: ts
    id: id
queries: [{{name: all, k: 3, size: 20 seconds, slide: 5 seconds, by: s}}]
engine: {{master: "local[2]", memory: 1g}}
"""


@pytest.fixture
def secured(kafka, topics, tmp_path):
    rows, topic = rows_of(31, 40), topics.name()
    topics.send_rows(topic, rows)
    file = tmp_path / "work.yaml"
    file.write_text(FILE.format(servers=kafka.with_login, topic=topic, jaas=JAAS))
    assert USER in JAAS
    return file, rows


@pytest.mark.long
def test_a_run_from_the_command_line(secured):
    file, rows = secured
    done = skyband("run", file, "--once", "--json", env={**os.environ, "KAFKA_PASSWORD": PASSWORD})
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    for row in found:
        row |= {name: cases.dt.datetime.fromisoformat(row[name]) for name in ("window_start", "window_end")}
        row["score"] = float(row["score"])
    want = {key: one for key, one in wanted(rows).items() if key[0] == "all"}
    assert cases.answered(found, POSED) == want
    assert PASSWORD not in done.stderr


def test_a_wrong_password_is_told_without_it(spark, secured):
    file, _ = secured
    wrong = "incorrect horse"
    running = run(sb.read_workload(file, {"KAFKA_PASSWORD": wrong}), "once", spark=spark)
    with pytest.raises(sb.PipelineError, match=r"(?i)authentication") as caught:
        running.await_end(300)
    assert wrong not in str(caught.value)


def test_an_explanation_shows_no_secret(secured):
    file, _ = secured
    done = skyband("explain", file, "--json", env={**os.environ, "KAFKA_PASSWORD": PASSWORD})
    assert done.returncode == 0, done.stderr
    options = json.loads(done.stdout)["streams"]["rows"]["options"]
    assert options["kafka.sasl.jaas.config"] == "***"
    assert options["kafka.sasl.mechanism"] == "PLAIN"
    assert PASSWORD not in done.stdout
    read = sb.read_workload(file, {"KAFKA_PASSWORD": PASSWORD})
    assert PASSWORD not in repr(read)
    assert read.hide(f"no entry with {PASSWORD}") == "no entry with ***"


def test_what_is_wrong_with_the_password_is_not_shown(kafka, tmp_path):
    file = tmp_path / "work.yaml"
    file.write_text(FILE.format(servers=kafka.with_login, topic="t", jaas="password='s3cret'"))
    with pytest.raises(sb.WorkloadFileError, match="secrets are not allowed in a workload file") as caught:
        sb.read_workload(file)
    assert "s3cret" not in str(caught.value)
