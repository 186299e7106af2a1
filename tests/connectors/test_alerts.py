"""Alerts: each is sent at least once, always with the same key, whatever happens to the receiver and to the run."""

from __future__ import annotations

import json
import random
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import skyband as sb
from skyband.errors import InvalidInputError, PipelineError
from skyband.jobs import run, run_local
from skyband.sinks import Alerts, Kafka
from tests.jobs.test_followed_against_spark import STREAM, tables, write

QUERIES = """
  - {name: all, k: 4, size: 60 seconds, slide: 20 seconds, by: v}
  - {name: low, k: 3, size: 60 seconds, slide: 20 seconds, by: v, order: asc}
"""
OTHERS = {  # scores that change while a row is held
    "half_life": """
  - {name: all, k: 4, size: 60 seconds, slide: 20 seconds, by: v, half_life: 30 seconds}
  - {name: low, k: 3, size: 60 seconds, slide: 20 seconds, by: v, order: asc, half_life: 50 seconds}
""",
    "aggregate": """
  - {name: all, type: aggregate, k: 2, size: 60 seconds, slide: 20 seconds, key: [r, g], aggregate: min, value: v}
  - {name: low, type: aggregate, k: 2, size: 60 seconds, slide: 5 seconds, key: [r, g], aggregate: count, order: asc}
""",
}
WHEN = ["enters top 2", "leaves top 2", "leader changes", "score > 6"]


class Receiver:
    """A webhook on loopback. `refuse` says how often it answers with an error, or closes the connection."""

    def __init__(self, refuse=0.0, most=10**9):
        self.received, self.keys = [], []
        random_, lock = random.Random(3), threading.Lock()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with lock:
                    bad = random_.random() < refuse
                    if not bad and len(receiver.received) < most:
                        receiver.received.append(json.loads(body))
                        receiver.keys.append(self.headers["Idempotency-Key"])
                        # An alert that was stored, and whose response was lost, is sent again.
                        bad = random_.random() < refuse / 2
                    elif len(receiver.received) >= most:
                        bad = True
                if bad and random_.random() < 0.5:
                    self.close_connection = True
                    return
                self.send_response(503 if bad else 204)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/alerts"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@contextmanager
def receiver(**how):
    found = Receiver(**how)
    try:
        yield found
    finally:
        found.close()


def file_of(folder, url, retry, queries=QUERIES):
    sinks = f"[{{type: memory}}, {{type: alerts, when: {json.dumps(WHEN)}, url: '{url}', retry: {retry}}}]"
    (folder / "work.yaml").write_text(f"{STREAM}queries:{queries}sinks: {sinks}\nengine: {{checkpoint: state}}\n")
    return sb.read_workload(folder / "work.yaml")


def expected(answers):
    """By the definitions: the alerts between each window and the next."""
    found = set()
    for name in ("all", "low"):
        rows = [row for row in answers.to_pylist() if row["query"] == name]
        before: list[tuple] = []
        for end in sorted({row["window_end"] for row in rows}):
            now = [
                (identity_of(row), row["score"])
                for row in sorted((r for r in rows if r["window_end"] == end), key=lambda r: r["rank"])
            ]
            old, new = ([one[0] for one in ranked] for ranked in (before, now))
            found |= {(name, end.isoformat(), "enters top 2", id_) for id_ in set(new[:2]) - set(old[:2])}
            found |= {(name, end.isoformat(), "leaves top 2", id_) for id_ in set(old[:2]) - set(new[:2])}
            if old and new[0] != old[0]:
                found.add((name, end.isoformat(), "leader changes", new[0]))
            over = {id_ for id_, score in before if score > 6}
            found |= {(name, end.isoformat(), "score > 6", id_) for id_, score in now if score > 6 and id_ not in over}
            before = now
    return found


def identity_of(row):
    return row["id"] if "id" in row else (row["r"], row["g"])


def ended(running):
    running.finish()
    assert running.await_end(300)


def what(alert):
    end = alert["window_end"].replace("Z", "+00:00")
    return alert["query"], end, alert["when"], identity_of(alert["row"])


def checked(received, keys, answers):
    assert {what(alert) for alert in received} == expected(answers)
    assert len({json.dumps(alert, sort_keys=True) for alert in received}) == len(set(keys)) == len(expected(answers))
    assert keys == [alert["key"] for alert in received]


@pytest.mark.long
def test_a_receiver_that_fails_and_loses_responses(tmp_path):
    write(tmp_path / "in", tables(4))
    with receiver(refuse=0.3) as hook:
        running = run_local(file_of(tmp_path, hook.url, "60 seconds"), "stream")
        running.finish()
        assert running.await_end(300)
        assert len(hook.received) > len(set(hook.keys)) > 30  # some were sent again
        checked(hook.received, hook.keys, running.memory("s"))


@pytest.mark.parametrize(
    ("on", "family"),
    [
        ("local", "topk"),
        pytest.param("spark", "topk", marks=pytest.mark.slow),
        ("local", "aggregate"),
        pytest.param("local", "half_life", marks=pytest.mark.long),
        *(pytest.param("spark", family, marks=pytest.mark.long) for family in OTHERS),
    ],
)
def test_a_receiver_that_dies_stops_the_run_and_loses_nothing(tmp_path, on, family, request):
    """The run is started again with another receiver: it knows which windows came before."""
    write(tmp_path / "in", tables(4))
    spark = {} if on == "local" else {"spark": request.getfixturevalue("spark")}
    begin = run_local if on == "local" else run
    queries = OTHERS.get(family, QUERIES)
    received, keys, answers = [], [], []
    for most in (11, 10**9):
        with receiver(most=most) as hook:
            running = begin(file_of(tmp_path, hook.url, "0 seconds", queries), "stream", **spark)
            if most == 11:
                with pytest.raises(Exception, match="no alert is lost"):  # on Spark, in an error of Spark
                    ended(running)
            else:
                ended(running)
            received += hook.received
            keys += hook.keys
    whole = tmp_path / "whole"
    whole.mkdir()
    write(whole / "in", tables(4))
    with receiver() as other:
        again = run_local(file_of(whole, other.url, "0 seconds", queries), "stream")
        again.finish()
        assert again.await_end(300)
        answers = again.memory("s")
    checked(received, keys, answers)


def test_nobody_listens_at_the_start(tmp_path):
    write(tmp_path / "in", tables(4))
    with receiver() as hook:
        url = hook.url
    with pytest.raises(PipelineError, match=r"cannot be sent to http://127\.0\.0\.1"):
        run_local(file_of(tmp_path, url, "0 seconds"), "stream")


def test_alerts_in_the_log(tmp_path, caplog):
    write(tmp_path / "in", tables(4))
    (tmp_path / "work.yaml").write_text(
        f"{STREAM}queries:{QUERIES}sinks: [{{type: alerts, when: [leader changes], queries: [all]}}]\n"
    )
    caplog.set_level("WARNING", "skyband.alerts")
    running = run_local(sb.read_workload(tmp_path / "work.yaml"), "once")
    assert running.await_end(300)
    alerts = [
        json.loads(one.getMessage().removeprefix("alert ")) for one in caplog.records if one.name == "skyband.alerts"
    ]
    assert alerts
    assert {(alert["query"], alert["row"]["rank"], alert["before"]["old_rank"]) for alert in alerts} == {("all", 1, 1)}


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ("enters top 0", "enters top 3"),
        ("score >", "score > 100"),
        ("leader", "leader changes"),
        ("score > x", "score > 100"),
    ],
)
def test_conditions_that_are_wrong(when, message):
    with pytest.raises(InvalidInputError, match=message):
        Alerts(when=[when])
    with pytest.raises(InvalidInputError, match="needs output: changes"):
        Kafka(servers="a:1", topic="t", when=["leader changes"])
