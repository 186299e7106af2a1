"""The time budget of `make test-long`: what is skipped, and in which order tests run."""

from __future__ import annotations

import itertools
import time
from types import SimpleNamespace

import pytest

from tests import time_budget


@pytest.fixture
def budget(monkeypatch):
    def of(minutes, began):
        monkeypatch.setenv(time_budget.MINUTES, str(minutes))
        monkeypatch.setenv(time_budget.BEGAN, str(began))

    monkeypatch.delenv(time_budget.MINUTES, raising=False)
    monkeypatch.delenv(time_budget.BEGAN, raising=False)
    return of


def test_without_a_budget_every_test_runs(budget):
    assert time_budget.left() is None
    time_budget.pytest_runtest_setup(None)


def test_a_test_that_starts_in_time_runs(budget):
    budget(minutes=1000, began=time.time())
    time_budget.pytest_runtest_setup(None)


def test_a_test_that_starts_too_late_is_skipped_and_counted(budget):
    budget(minutes=10, began=time.time() - 601)
    with pytest.raises(pytest.skip.Exception, match=time_budget.REASON):
        time_budget.pytest_runtest_setup(None)
    lines = []
    late = SimpleNamespace(longrepr=("file", 1, f"Skipped: {time_budget.REASON}"))
    other = SimpleNamespace(longrepr=("file", 1, "Skipped: no server"))
    reporter = SimpleNamespace(stats={"skipped": [late, other, late]}, section=lines.append, line=lines.append)
    time_budget.pytest_terminal_summary(reporter)
    assert lines == ["time budget", "2 tests were skipped: 10 minutes were over before they began."]


def test_every_file_comes_first_on_some_day_and_keeps_its_order():
    items = [SimpleNamespace(nodeid=f"tests/test_{file}.py::test_{test}") for file in "abcdefgh" for test in range(3)]
    first = set()
    for day in range(40):
        order = time_budget.rotated(items, day)
        assert sorted(item.nodeid for item in order) == [item.nodeid for item in items]
        files = [item.nodeid.partition("::")[0] for item in order]
        assert sum(one != other for one, other in itertools.pairwise(files)) == 7
        first.add(files[0])
    assert len(first) == 8
