"""Being asked to end: interrupted until it is heeded, then noted; asked again, the process ends at once."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from skyband.cli.signals import INTERRUPTED, StopSignals

TWICE = """
import signal, sys, time
from skyband.cli import signals
signals.TWICE = float(sys.argv[1])
with signals.StopSignals() as one:
    one.defer()
    signal.raise_signal(signal.SIGTERM)
    time.sleep(0.05)
    signal.raise_signal(signal.SIGINT)
    print("went on")
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_interrupts_what_does_not_look(number):
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), StopSignals() as stop_signals:
        signal.raise_signal(number)
    assert stop_signals.requested.is_set()
    assert signal.getsignal(number) is before


def test_once_heeded_it_is_noted_whoever_took_its_place():
    with StopSignals() as stop_signals:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        stop_signals.defer()
        assert not stop_signals.requested.is_set()
        signal.raise_signal(signal.SIGINT)
        assert stop_signals.requested.is_set()


@pytest.mark.parametrize(("at_once", "code", "said"), [("60", 0, "went on\n"), ("0", INTERRUPTED, "")])
def test_who_asks_again_is_not_kept_waiting(at_once, code, said):
    done = subprocess.run([sys.executable, "-c", TWICE, at_once], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, said, "")
