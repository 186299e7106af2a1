"""Whether a run is called healthy: never an ill one for long, and never an idle one ill."""

from __future__ import annotations

import logging

import pytest

from skyband.rate_limited_log import RateLimitedLog
from skyband.spark.health import PATIENCE, Beat, Pulse
from tests.waiting import wait_for

IDLE = Beat("7")
BUSY = Beat("7", is_busy=True)


class Watched:
    """A pulse whose clock and streams are the test's."""

    def __init__(self):
        self.now, self.beats = 0.0, {}
        self.pulse = Pulse(lambda: dict(self.beats), clock=lambda: self.now)

    def after(self, seconds, **beats):
        """What is wrong when so much time has passed, and the streams are then seen like this."""
        self.now += seconds
        self.beats = beats
        self.pulse.look()
        return self.pulse.ailment()


def test_a_stream_that_waits_is_well_however_long():
    watched = Watched()
    for seconds in (0, 5, 5, 10 * PATIENCE, 1e6):
        assert watched.after(seconds, s=IDLE) is None
    # Seen busy twice, with a year between, and waiting meanwhile: no batch took a year.
    assert watched.after(5, s=BUSY) is None
    assert watched.after(5, s=IDLE) is None
    assert watched.after(3e7, s=BUSY) is None
    assert watched.after(PATIENCE, s=BUSY) is None


def test_a_stream_whose_batches_end_is_well():
    watched = Watched()
    for batch in range(1000):
        assert watched.after(5, s=Beat(batch, is_busy=True)) is None


def test_a_batch_that_does_not_end():
    watched = Watched()
    watched.after(5, s=BUSY, other=IDLE)
    assert watched.after(PATIENCE, s=BUSY, other=IDLE) is None
    told = watched.after(5, s=BUSY, other=IDLE)
    assert told == "stream 's' makes no progress: one micro-batch has been running for 605 seconds, more than 600."
    assert watched.pulse.ailment(named=False).startswith("a stream makes no progress")
    assert watched.after(5, s=Beat("8"), other=IDLE) is None


def test_streams_of_long_batches_are_given_longer():
    watched = Watched()
    watched.after(0, s=BUSY)
    watched.after(PATIENCE / 2, s=Beat("8", is_busy=True))
    assert watched.after(5 * PATIENCE, s=Beat("8", is_busy=True)) is None
    assert watched.after(5, s=Beat("8", is_busy=True)) is not None


def test_a_stream_that_failed_and_one_that_was_started_again():
    watched = Watched()
    assert watched.after(5, s=Beat(has_failed=True)) == "stream 's' has failed; see the log of the run for the reason."
    assert watched.after(5, s=Beat()) is None
    assert watched.after(5) is None


def test_nobody_tells_how_the_streams_are():
    watched = Watched()
    watched.after(5, s=IDLE)

    def hang():
        raise ConnectionRefusedError

    watched.pulse._look = hang
    with pytest.raises(ConnectionRefusedError):
        watched.pulse.look()
    watched.now += PATIENCE
    assert watched.pulse.ailment() is None
    watched.now += 1
    assert watched.pulse.ailment() == "Spark has not reported the status of the run for 601 seconds."


def test_it_looks_by_itself_whatever_happens(monkeypatch):
    looks = []

    def look():
        looks.append(None)
        if len(looks) < 3:
            raise OSError(24, "Too many open files")
        return {"s": Beat(has_failed=True)}

    monkeypatch.setattr("skyband.spark.health.EVERY", 0.01)
    with Pulse(look) as pulse:
        wait_for(lambda: pulse.ailment() is not None)


def test_a_warning_that_comes_often_is_logged_seldom(caplog):
    quiet = RateLimitedLog(logging.getLogger("skyband.test"), seconds=1000)
    assert [quiet.warning("no room for %s", place) for place in range(50)] == [True] + [False] * 49
    assert [record.getMessage() for record in caplog.records] == ["no room for 0"]
    quiet._next = float("-inf")
    quiet.warning("no room for %s", "x")
    assert caplog.records[-1].getMessage() == "no room for x (and 49 such warnings since the last one)"
