"""States of shards and snapshots of monitors that earlier versions stored: resumed, they go on as if uninterrupted."""

from __future__ import annotations

import pytest

import skyband as sb
from tests import golden_states
from tests.golden_states import CASES, ENGINES, FOLDER, ROWS, load


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]()


def test_a_shard_goes_on_from_a_stored_state(case):
    before, after = case.run(0, case.half), case.run(case.half, None, load(FOLDER, case))
    whole = case.run(0, None)
    assert before.answers
    assert after.answers
    assert before.answers + after.answers == whole.answers
    if case.wanted is not None:
        assert sorted(whole.answers, key=repr) == sorted(case.wanted, key=repr)


@pytest.mark.parametrize("name", golden_states.monitors())
def test_a_monitor_goes_on_from_a_stored_snapshot(name):
    _goes_on(golden_states.monitors()[name], FOLDER / f"monitor_{name}.snapshot.gz")


@pytest.mark.parametrize("version", sorted(folder.name for folder in ENGINES.iterdir()))
@pytest.mark.parametrize("name", golden_states.engine_monitors())
def test_an_engine_goes_on_from_a_snapshot_of_each_version(name, version):
    _goes_on(golden_states.engine_monitors()[name], ENGINES / version / f"{name}.snapshot.gz")


def test_the_newest_version_of_the_format_has_snapshots():
    assert (ENGINES / str(sb.Monitor.state_format.version)).is_dir()


def _goes_on(watched, path):
    monitor = watched.monitor()
    watched.push(monitor, slice(0, ROWS // 2))
    before = monitor.answers()
    resumed = watched.resume(golden_states.read(path))
    assert resumed.answers().equals(before), "what was not read is read after"
    watched.push(resumed, slice(ROWS // 2, ROWS))
    resumed.finish()
    found = before.to_pylist() + resumed.answers().to_pylist()
    assert sorted(found, key=repr) == sorted(watched.wanted().to_pylist(), key=repr)
