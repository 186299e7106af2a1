"""The messages of alerts, with a writer in the place of Spark's: one message for each alert, under its key."""

from __future__ import annotations

import json
from random import Random

import pytest

import skyband as sb
from skyband.connectors.alert_rows import alerts_of
from skyband.errors import PipelineError
from skyband.queries.answer_schema import OLD_SCORE
from skyband.sharding.delivery import Opening, Wanted, has_old_scores, parts_of
from skyband.sinks import Kafka, Memory
from tests.connectors import test_alert_crossings as crossings
from tests.sharding import test_reported_answers as feeds

WHEN = ["enters top 1", "score > 3", "score <= 1"]


class Writer:
    """Takes what Spark's writer of data frames takes. `broken`: the broker cannot be reached."""

    def __init__(self):
        self.sent, self.broken = [], False

    def createDataFrame(self, table):  # noqa: N802 - Spark's name
        self._table = table
        return self

    def coalesce(self, number):
        self._tasks = number
        return self

    @property
    def write(self):
        return self

    def format(self, name):
        self._format = name
        return self

    def options(self, **given):
        self._options = given
        return self

    def save(self):
        if self.broken:
            raise OSError("Topic t not present in metadata after 4000 ms.")
        self.sent.append((self._format, self._tasks, self._options, self._table.to_pydict()))


def test_the_messages_and_keys_of_alerts():
    query = sb.AggregateTopK(name="q", k=2, size="4 seconds", slide="2 seconds", key="who", value="v")
    writer, sink = Writer(), Kafka(servers="a:1,b:2", topic="t", output="changes", when=WHEN)
    outlet = sink.open(Opening(writer, "s", lambda: sb.Workload(query)))
    wanted = Wanted.of(sink, outlet)
    assert has_old_scores([wanted])
    rows = feeds.draw_rows(Random(3), 60)
    changes, _ = feeds.streamed(
        Random(4), crossings.plan_of([query], "changes", 2), [rows[:20], rows[20:]], 0, flush=None
    )
    ends = sorted(set(changes["window_end"].to_pylist()))
    batches = [changes.filter([end == one for end in changes["window_end"].to_pylist()]) for one in ends]
    for number, batch in enumerate(batches):
        ((_, part),) = parts_of(batch, [wanted], sb.Workload(query), "changes")
        outlet.take(number, part)
    alerts = list(alerts_of(changes, WHEN, {"q": ()}))
    sent = [pair for *_, table in writer.sent for pair in zip(table["key"], table["value"], strict=True)]
    assert len(alerts) > 20
    assert sorted(sent) == sorted((alert["key"], json.dumps(alert, ensure_ascii=False)) for alert in alerts)
    assert {(kind, tasks) for kind, tasks, *_ in writer.sent} == {("kafka", 1)}
    assert all(given == {"kafka.bootstrap.servers": "a:1,b:2", "topic": "t"} for _, _, given, _ in writer.sent)
    quiet = [batch for batch in batches if not list(alerts_of(batch, WHEN, {"q": ()}))]
    assert len(writer.sent) == len(batches) - len(quiet)  # nothing is sent for a batch without alerts
    before = writer.sent[-1]
    number = len(batches) - 1 - batches[::-1].index(next(one for one in batches[::-1] if one not in quiet))
    writer.broken = True
    with pytest.raises(PipelineError, match=r"cannot be sent to topic 't' \(.*not present in metadata"):
        outlet.take(number, batches[number])
    writer.broken = False
    outlet.take(number, batches[number])
    assert writer.sent[-1] == before  # the same keys and messages again


def test_only_alerts_receive_the_scores_of_the_window_before():
    query = sb.AggregateTopK(name="q", k=2, size="4 seconds", key="who", value="v")
    rows = feeds.draw_rows(Random(5), 20)
    both, _ = feeds.streamed(Random(6), crossings.plan_of([query], "both", 1), [rows], 0, flush=None)
    assert OLD_SCORE.name in both.column_names
    workload = sb.Workload(query)
    for sink, has_it in (
        (Kafka(servers="a:1", topic="t", output="changes"), False),
        (Kafka(servers="a:1", topic="t", output="changes", when=WHEN), True),
        (sb.sinks.Alerts(when=WHEN), True),
        (Memory(output="changes"), False),
        (Memory(), False),
    ):
        wanted = Wanted.of(sink, sink.open(Opening(Writer(), "s", lambda: workload)))
        ((_, part),) = parts_of(both, [wanted], workload, "both")
        assert (OLD_SCORE.name in part.column_names) is has_it
        assert has_old_scores([wanted]) is has_it
