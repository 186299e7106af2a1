"""Stopping Spark takes no longer than it may: then Java is ended, and with it the wait."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from pyspark import SparkContext

from skyband.cli import spark_session


@pytest.fixture
def killed(monkeypatch):
    found = threading.Event()
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=SimpleNamespace(kill=found.set)))
    monkeypatch.setattr(spark_session, "PATIENCE", 0.05)
    return found


def test_a_spark_that_does_not_stop_loses_its_java(killed):
    def stop():
        assert killed.wait(30), "it would wait for ever"
        raise ConnectionResetError

    spark_session._stop(SimpleNamespace(stop=stop))


def test_a_spark_that_stops_keeps_it(killed):
    spark_session._stop(SimpleNamespace(stop=lambda: None))
    assert not killed.wait(0.3)
