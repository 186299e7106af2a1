"""Runs that stop in the middle, brokers that do, and answers that go to a topic: nothing lost, nothing twice."""

from __future__ import annotations

import datetime as dt
import json

import pytest

import skyband as sb
from skyband.jobs import run
from skyband.sharding.delivery import Wanted
from tests.connectors.kafka.topics import Sent, value_of
from tests.connectors.kafka.work import POSED, SECOND, finished, rows_of, wanted, workload
from tests.sharding import cases
from tests.spark.frames import read_answers, read_lines
from tests.waiting import wait_for

LATER = 900 * SECOND


def written(folder):
    return cases.answered(read_answers(folder), POSED)


def sent(records):
    """Messages by key, as the definitions have answers; the same window again must be the same message."""
    found = {}
    for record in records:
        key, value = json.loads(record["key"]), json.loads(record["value"])
        assert key == {name: value[name] for name in ("query", "g") if name in value}
        bounds = [cases.micros(dt.datetime.fromisoformat(value[name])) for name in ("window_start", "window_end")]
        answer = [(*bounds, row["rank"], row["id"], float(row["score"])) for row in value["rows"]]
        windows = found.setdefault((key["query"], key.get("g", "-")), {})
        assert windows.setdefault(bounds[1], answer) == answer
    return {key: [row for end in sorted(windows) for row in windows[end]] for key, windows in found.items()}


class Failing:
    """Fails once answers have come: after sinks were served, before Spark notes it down."""

    def take(self, batch, rows):
        if rows.num_rows:
            raise OSError("the power went out")


@pytest.mark.long
@pytest.mark.faults
def test_restarts_and_a_crash_between_sending_and_noting_it_down(spark, topics, tmp_path, tally):
    rows, topic, out = rows_of(21, 150), topics.name(), topics.name()
    sinks = f"[{{type: parquet, path: out}}, {{type: kafka, servers: '{topics.servers}', topic: {out}}}]"
    file = workload(tmp_path, topics, topic, more="dead_letters: malformed", sinks=sinks)
    topics.send(topic, [*(Sent(value_of(row)) for row in rows[:70]), Sent(b"junk")])
    running = run(file, "catch-up", spark=spark, watchers={"rows": [Wanted(Failing(), "answers")]})
    with pytest.raises(sb.PipelineError, match="the power went out"):
        running.await_end(300)
    tally.fault("crash between writing and noting it down")
    tally.fault("poison pill")
    once = len(topics.read(out))
    assert once
    finished(file, spark, "catch-up")
    assert len(topics.read(out)) == 2 * once, "a batch that is run again sends again"
    last = (rows[-1][0] + LATER, 1.0, 1, "a")
    topics.send_rows(topic, [*rows[70:], last])
    finished(file, spark, "catch-up")
    tally.check_answers(written(tmp_path / "out"), wanted(rows))
    assert sent(topics.read(out)) == wanted(rows)
    [letter] = read_lines(tmp_path / "malformed", "*/part-*")
    assert letter["offset"] == 70
    with pytest.raises(sb.InvalidInputError, match="belong to a stored state"):
        run(file, "once", spark=spark)


@pytest.mark.long
@pytest.mark.faults
def test_a_broker_that_is_killed_and_restarts_in_mid_stream(spark, kafka, topics, tmp_path, tally):
    rows, topic = rows_of(22, 120), topics.name()
    topics.send_rows(topic, rows[:60])
    file = workload(tmp_path, topics, topic, sinks="[{type: parquet, path: out}]")
    running = run(file, spark=spark)
    try:
        until(running, lambda: written(tmp_path / "out"))
        kafka.stop(hard=True)
        tally.fault("kill -9 of the broker")
        assert not running.await_end(2)
        kafka.start()
        topics.send_rows(topic, [*rows[60:], (rows[-1][0] + LATER, 1.0, 1, "a")])
        until(running, lambda: written(tmp_path / "out") == wanted(rows))
    finally:
        running.stop()
    tally.check_answers(written(tmp_path / "out"), wanted(rows))


def until(running, true):
    def is_true():
        assert not running.await_end(0.3), "the stream has ended"
        return true()

    wait_for(is_true)
