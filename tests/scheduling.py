"""Which tests run in the same process when several share the work: those that would start or compile the same twice."""

from __future__ import annotations

import re

import pytest

TOGETHER = (
    "tests/connectors/kafka/",
    "tests/dashboard/browser/",
    "tests/aggregate/",
    "tests/incomplete/",
    "tests/spark/test_sessions.py",
    "tests/test_site.py",
)
_SAP = re.compile(r"\[.*\bsap\b")


def group_of(nodeid):
    """The name of the group that a test is in; of one that is in none, its own."""
    for folder in TOGETHER:
        if nodeid.startswith(folder):
            return folder
    # The largest kernels of all; every test of theirs is told from others by its parameters.
    return "sap" if _SAP.search(nodeid) else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Hand out groups as a whole, and all other tests one by one."""
    if config.getvalue("dist") != "load":
        return None
    from xdist.scheduler.loadscope import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return group_of(nodeid)

    return Scheduling(config, log)
