"""A limit for the minutes of a test run: what has not started by then is skipped, and the summary says how much.

`make test-long MINUTES=25` gives the long tests a budget, so that a slow machine runs fewer of them instead of running
out of time. The files start at another place each day, so over several days all tests run on such a machine, too.
"""

from __future__ import annotations

import os
import time

import pytest

MINUTES, BEGAN = "SKYBAND_TEST_MINUTES", "SKYBAND_TESTS_BEGAN"
REASON = "the time budget of the run is used up"


def rotated(items, day):
    """The tests with those of another file first each day; tests of a file stay together and in order."""
    files = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    names = list(files)
    start = int(day * 0.618034 % 1 * len(names))  # far from that of the day before
    return [item for name in names[start:] + names[:start] for item in files[name]]


def left():
    """The seconds until the budget is used up; None if there is no budget."""
    if MINUTES not in os.environ:
        return None
    began = float(os.environ.setdefault(BEGAN, str(time.time())))  # worker processes get it from the first one
    return began + 60 * float(os.environ[MINUTES]) - time.time()


def pytest_runtest_setup(item):
    """Skip a test that would start too late."""
    seconds = left()
    if seconds is not None and seconds < 0:
        pytest.skip(REASON)


def pytest_terminal_summary(terminalreporter):
    """Say how many tests did not run."""
    late = [report for report in terminalreporter.stats.get("skipped", []) if REASON in str(report.longrepr)]
    if late:
        terminalreporter.section("time budget")
        budget = os.environ[MINUTES]
        terminalreporter.line(f"{len(late)} tests were skipped: {budget} minutes were over before they began.")
