"""Alerts in a topic: each is a message under the key of the alert, whatever happens to the broker and to the run."""

from __future__ import annotations

import json

import pyarrow.dataset as ds
import pytest

import skyband as sb
from skyband.jobs import run
from skyband.sharding.delivery import Wanted
from tests.connectors import test_alerts as webhooks
from tests.connectors.kafka.test_delivery import Failing
from tests.jobs.test_followed_against_spark import STREAM, tables, write
from tests.waiting import wait_for

# A client that gives up soon, so that the stream notices that the broker is dead.
IMPATIENT = "{kafka.delivery.timeout.ms: 4000, kafka.request.timeout.ms: 2000, kafka.max.block.ms: 4000}"


def file_of(folder, servers, topic, queries):
    alerts = f"{{type: kafka, servers: '{servers}', topic: {topic}, output: changes, when: {json.dumps(webhooks.WHEN)},"
    sinks = f"[{alerts} options: {IMPATIENT}}}, {{type: parquet, path: out}}]"
    (folder / "work.yaml").write_text(f"{STREAM}queries:{queries}sinks: {sinks}\nengine: {{checkpoint: state}}\n")
    return sb.read_workload(folder / "work.yaml")


@pytest.mark.long
@pytest.mark.faults
def test_a_broker_that_is_killed_and_a_batch_that_is_repeated(spark, kafka, topics, tmp_path, tally):
    """The scores of keys change while they are held, so alerts compare them with those of the window before."""
    topic, parts = topics.name(), tables(4)
    file = file_of(tmp_path, topics.servers, topic, webhooks.OTHERS["aggregate"])
    write(tmp_path / "in", parts[:2])
    running = run(file, spark=spark, watchers={"s": [Wanted(Failing(), "answers")]})
    with pytest.raises(sb.PipelineError, match="the power went out"):
        running.await_end(300)
    tally.fault("crash between sending and noting it down")
    once = len(topics.read(topic))
    assert once
    running = run(file, spark=spark)
    wait_for(lambda: running.await_end(0.3) or len(topics.read(topic)) > 2 * once)
    kafka.stop(hard=True)
    tally.fault("kill -9 of the broker")
    write(tmp_path / "in", parts[2:], begin=2)
    with pytest.raises(Exception, match=rf"cannot be sent to topic '{topic}'.*no answers are lost"):
        running.await_end(300)
    kafka.start()
    running = run(file, spark=spark)
    running.finish()
    assert running.await_end(300)
    records = [(record["key"].decode(), json.loads(record["value"])) for record in topics.read(topic)]
    alerts = dict(records)
    assert all(value == alerts[key] and value["key"] == key for key, value in records)
    assert len(records) > len(alerts)
    want = webhooks.expected(ds.dataset(tmp_path / "out").to_table())
    found = {webhooks.what(alert) for alert in alerts.values()}
    assert (found, len(alerts)) == (want, len(want))
    assert any(one["row"]["change"] == "updated" and one["when"] == "score > 6" for one in alerts.values())
