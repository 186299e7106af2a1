"""Clocks that jump: those that rows were stamped with, that of the machine, and that of who wrote the files."""

from __future__ import annotations

import pytest

import skyband as sb
from skyband.jobs import run
from tests.faults import work
from tests.faults.feeder import Feeder
from tests.faults.machine import DAY, WrongClock
from tests.faults.process import Driver
from tests.sharding import cases
from tests.waiting import process_all

YEAR = 365 * 86_400 * work.SECOND
JUMPS = 5


def shifted(rows, by):
    return [row._replace(ts=row.ts + by) for row in rows]


def finished(file, spark):
    running = run(sb.read_workload(file), "catch-up", spark=spark)
    assert running.await_end(300)
    return running.metrics()


def by_file(files):
    """Who is on time and who is late, where each file is a micro-batch and nothing may come behind the newest."""
    kept, late, newest = [], [], None
    for rows in files:
        for row in rows:
            (kept if newest is None or row.ts >= newest else late).append(row)
        newest = max([row.ts for row in rows] + ([] if newest is None else [newest]))
    return kept, late


@pytest.mark.long
def test_event_times_jump_ahead_and_back(spark, tmp_path, tally):
    """A year ahead, back by two, and ahead again: the rows behind are late and counted, the others are right."""
    files = [work.rows_of(number) for number in range(6)]
    for number, by in {1: YEAR, 2: -YEAR, 4: YEAR, 5: 30 * YEAR}.items():
        files[number] = shifted(files[number], by)
    tally.fault("jump of event time", 5)
    files.append([work.last_row(31 * YEAR)])
    streams = ("rows", "flows")
    file = work.write_workload(tmp_path, files=1, streams=streams)
    for number, rows in enumerate(files):
        work.write_rows(tmp_path / "in", number, rows)
    running = run(sb.read_workload(file), spark=spark)  # a file is a micro-batch: --catch-up would read all in one
    for handle in running.handles.values():
        process_all(handle.query)
    metrics = running.metrics()
    running.stop()
    kept, late = by_file(files)
    assert len(late) == 2 * work.PER_FILE
    scored = [row for row in late if row.s is not None]  # no query would have ranked the others
    assert {name: one["late"] for name, one in metrics.items()} == {
        name: len(scored if name == "rows" else late) for name in streams
    }
    for rows in work.found_in(tmp_path).values():
        tally.check(rows, work.wanted(kept[:-1], streams=streams))


@pytest.mark.long
def test_the_clock_of_who_writes_files_jumps(spark, tmp_path, tally):
    """Files that are stamped a year ahead, and years back: all are read, and none twice."""
    files = [work.rows_of(number) for number in range(3)]
    now, day = 1_700_000_000, 86_400
    stamps = [now, now + 400 * day, now + 1, now - 900 * day]
    tally.fault("jump of a file's time", 3)
    streams = ("requests", "readings")
    file = work.write_workload(tmp_path, watermark="2 minutes", streams=streams)
    for number, (rows, at) in enumerate(zip([*files, [work.last_row(YEAR)]], stamps, strict=True)):
        work.write_rows(tmp_path / "in", number, rows, at)
        metrics = finished(file, spark)  # a run for each: what has been read is known from the state alone
        assert {one["rows"] for one in metrics.values()} == {len(rows)}, number
    for rows in work.found_in(tmp_path).values():
        tally.check(rows, work.wanted([row for rows in files for row in rows], streams=streams))


@pytest.mark.long
def test_the_clock_of_the_machine_jumps(tmp_path, tally):
    """Driver, Java and workers are told another time, again and again, years ahead and back: answers are the rows'."""
    clock = WrongClock(tmp_path)
    # A trigger is told by the machine's clock: set back, it makes the next micro-batch wait for as long.
    file = work.write_workload(tmp_path, files=8, streams=("readings",), trigger="0 seconds")
    driver = Driver(file, **clock.variables)
    first = clock.seen()
    random = cases.rng("clock")
    with Feeder(tmp_path / "in", every=1) as feeder:
        try:
            driver.start()
            for _ in range(JUMPS):
                before = sum(work.reached(tmp_path).values())
                driver.wait_until(lambda: sum(work.reached(tmp_path).values()) > before + 1, "answers", alive=True)  # noqa: B023
                clock.set(random.choice([-700, -1, 1, 20, 400]) * DAY)
                tally.fault("jump of the machine's clock")
            assert abs(clock.seen() - first - clock.wrong_by) < DAY / 2, "programs are told so"
            feeder.stop()
            wanted = work.wanted(feeder.rows(), streams=("readings",))
            driver.await_answers(tmp_path, wanted)
            assert driver.stop() == 130, driver.told()
        finally:
            driver.end()
    for rows in work.found_in(tmp_path).values():
        tally.check(rows, wanted)
