"""Stopping Spark takes no longer than it may: then Java is ended, and with it the wait."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from pyspark import SparkContext

from skyband.cli import spark_session
from tests.waiting import wait_for


@pytest.fixture
def killed(monkeypatch):
    found = threading.Event()
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=SimpleNamespace(kill=found.set)))
    return found


def test_a_spark_that_does_not_stop_loses_its_java(killed, monkeypatch):
    monkeypatch.setattr(spark_session, "STOP_TIMEOUT", 0.05)

    def stop():
        assert killed.wait(300), "it would wait for ever"
        raise ConnectionResetError

    spark_session._stop(SimpleNamespace(stop=stop))


def test_a_spark_that_stops_keeps_it(killed):
    started = []
    spark_session._stop(SimpleNamespace(stop=lambda: started.extend(timers())))
    wait_for(lambda: not set(started) & set(timers()))  # its end is not waited for any more
    assert len(started) == 1
    assert not killed.is_set()


def timers():
    alive = threading.enumerate()
    return [one for one in alive if isinstance(one, threading.Timer) and one.interval == spark_session.STOP_TIMEOUT]
