"""Waiting for something that another thread, process or server does."""

from __future__ import annotations

import time


def wait_for(condition, seconds=300, pause=0.1):
    """Wait until `condition()` holds, and ask no more then: what held once may not hold at the next look."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} seconds"
        time.sleep(pause)


def process_all(query):
    """Wait until a stream of Spark's has processed the rows that are there now.

    Spark's method may return at the end of a trigger that looked for rows before they were there. The second call
    returns at the end of a later one.
    """
    for _ in range(2):
        query.processAllAvailable()
