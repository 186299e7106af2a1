"""A disk that fills up in mid-stream, of the state or of a sink: the run says so, ends, and goes on with new room."""

from __future__ import annotations

import subprocess

import pytest

from tests.faults import work
from tests.faults.feeder import Feeder
from tests.faults.process import Driver

PAGE = 4096


@pytest.fixture
def small_disk(tmp_path):
    """A folder that holds sixteen megabytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "skyband-faults", folder],
        check=False,
        capture_output=True,
        text=True,
    )
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be made here, which takes the rights of root: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def fill(ballast):
    """Take what room there is; what is open may grow no longer."""
    with ballast.open("ab", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * PAGE)
        except OSError:
            return


@pytest.mark.long
@pytest.mark.parametrize(("place", "streams"), [("out", ["rows"]), ("state", ["requests"])])
def test_a_disk_fills_up(tmp_path, small_disk, tally, place, streams):
    where = {"checkpoint" if place == "state" else "sink": f"small/{place}"}
    sink = where.get("sink", "out")
    file = work.write_workload(tmp_path, files=8, streams=streams, **where)
    driver, ballast = Driver(file), small_disk / "ballast"
    with Feeder(tmp_path / "in", every=1) as feeder:
        try:
            driver.start()
            driver.wait_until(
                lambda: min(work.reached(tmp_path, sink, streams).values()) > 1, "all streams answer", alive=True
            )
            fill(ballast)
            tally.fault(f"full disk of the {'state' if place == 'state' else 'answers'}")
            assert driver.ended() == 3, driver.told()
            feeder.stop()
            said = [line for line in driver.told().splitlines() if line.startswith("skyband: ")]
            assert len(said) == 1, driver.told()
            assert "No space left on device" in said[0]
            fill(ballast)  # what was begun and given up has left some room
            driver.start()  # to no avail
            assert driver.ended() in (2, 3), driver.told()
            assert "No space left on device" in driver.told().splitlines()[-1], driver.told()
            ballast.unlink()
            driver.start()
            wanted = work.wanted(feeder.rows(), streams=streams)
            driver.await_answers(tmp_path, wanted, sink)
            assert driver.stop() == 130, driver.told()
        finally:
            driver.end()
    for rows in work.found_in(tmp_path, sink).values():
        tally.check(rows, wanted)
