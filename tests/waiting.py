"""Waiting for something that another thread, process or server does."""

from __future__ import annotations

import time


def wait_for(condition, seconds=300, pause=0.1):
    """Wait until `condition()` holds, and ask no more then: what held once may not hold at the next look."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} seconds"
        time.sleep(pause)
