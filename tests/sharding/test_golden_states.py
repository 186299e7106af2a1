"""States of shards and snapshots of monitors that earlier versions stored: resumed, they go on as if uninterrupted."""

from __future__ import annotations

import pyarrow as pa
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
    # Snapshots of version 3 and before do not tell which approximate scores are exact.
    unknown = ["exact"] if name.startswith("incomplete") and name.endswith("approximate") else []
    _goes_on(golden_states.monitors()[name], FOLDER / f"monitor_{name}.snapshot.gz", unknown)


@pytest.mark.parametrize("version", sorted(folder.name for folder in ENGINES.iterdir()))
@pytest.mark.parametrize("name", golden_states.engine_monitors())
def test_an_engine_goes_on_from_a_snapshot_of_each_version(name, version):
    _goes_on(golden_states.engine_monitors()[name], ENGINES / version / f"{name}.snapshot.gz")


def test_the_newest_version_of_the_format_has_snapshots():
    assert (ENGINES / str(sb.Monitor.state_format.version)).is_dir()


def _goes_on(watched, path, unknown=()):
    monitor = watched.monitor()
    watched.push(monitor, slice(0, ROWS // 2))
    before = monitor.answers()
    resumed = watched.resume(golden_states.read(path))
    earlier = resumed.answers()
    assert earlier.drop_columns(unknown).equals(before.drop_columns(unknown)), "what was not read is read after"
    watched.push(resumed, slice(ROWS // 2, ROWS))
    resumed.finish()
    found = pa.concat_tables([before, resumed.answers()]).drop_columns(unknown).to_pylist()
    wanted = watched.wanted().drop_columns(unknown).to_pylist()
    assert sorted(found, key=repr) == sorted(wanted, key=repr)
