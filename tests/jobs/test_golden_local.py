"""Checkpoints of local streams that earlier versions stored: resumed, they go on as if uninterrupted."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyband.jobs import run_local
from tests import golden_local
from tests.golden_local import BEFORE, FOLDER, SEED, answers, file_of
from tests.jobs.test_followed_against_spark import FAMILIES, tables, write

SECOND = FOLDER.with_name("local_version_2")  # with checksums in the log and in the names of segments


@pytest.mark.parametrize(
    ("golden", "family"), [*((FOLDER, one) for one in FAMILIES), (SECOND, "aggregate"), (SECOND, "topk")]
)
def test_a_stream_goes_on_from_a_stored_checkpoint(tmp_path, golden, family):
    uninterrupted, resumed = tmp_path / "one", tmp_path / "other"
    parts, found = tables(SEED), {}
    for folder in (uninterrupted, resumed):
        folder.mkdir()
        file = file_of(folder, family)
        if folder == uninterrupted:
            write(folder / "in", parts[:BEFORE])
            assert answers(run_local(file, "catch-up"))
        else:
            golden_local.restore(golden / family, Path(file.checkpoint_of("s")) / "local")
        write(folder / "in", parts[BEFORE:], begin=BEFORE)
        running = run_local(file, "stream")
        running.finish()
        found[folder] = answers(running), running.metrics()["s"]["late"]
    assert found[resumed] == found[uninterrupted]
    assert len(found[resumed][0]) > 5
