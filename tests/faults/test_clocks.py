"""Clocks that jump: those that rows were stamped with, that of the machine, and that of who wrote the files."""

from __future__ import annotations

from glob import glob

import pytest

import skyband as sb
from skyband.spark import run
from tests.faults import work
from tests.faults.feeder import Feeder
from tests.faults.process import Driver
from tests.sharding import cases

YEAR = 365 * 86_400 * work.SECOND
JUMPS = 6
FAKETIME = glob("/usr/lib/*/faketime/libfaketimeMT.so.1")


def shifted(rows, by):
    return [row._replace(ts=row.ts + by) for row in rows]


def finished(file, spark):
    running = run(sb.read_workload(file), "catch-up", spark=spark)
    assert running.await_end(180)
    return running.metrics()


def by_file(files):
    """Who is on time and who is late, where each file is a micro-batch and nothing may come behind the newest."""
    kept, late, newest = [], [], None
    for rows in files:
        for row in rows:
            (kept if newest is None or row.ts >= newest else late).append(row)
        newest = max([row.ts for row in rows] + ([] if newest is None else [newest]))
    return kept, late


def test_event_times_jump_ahead_and_back(spark, tmp_path, tally):
    """A year ahead, back by two, and ahead again: the rows behind are late and counted, the others are right."""
    files = [work.rows_of(number) for number in range(9)]
    for number, by in {2: YEAR, 3: YEAR, 4: -YEAR, 6: YEAR, 7: 30 * YEAR, 8: 30 * YEAR}.items():
        files[number] = shifted(files[number], by)
    tally.fault("jump of event time", 6)
    files.append([work.last_row(31 * YEAR)])
    file = work.write_workload(tmp_path, files=1)
    for number, rows in enumerate(files):
        work.write_rows(tmp_path / "in", number, rows)
    metrics = finished(file, spark)
    kept, late = by_file(files)
    assert len(late) == 2 * work.PER_FILE
    scored = [row for row in late if row.s is not None]  # no query would have ranked the others
    assert {name: one["late"] for name, one in metrics.items()} == {
        name: len(scored if name == "rows" else late) for name in work.STREAMS
    }
    for rows in work.found_in(tmp_path).values():
        tally.check(rows, work.wanted(kept[:-1]))


def test_the_clock_of_who_writes_files_jumps(spark, tmp_path, tally):
    """Files that are stamped a year ahead, and years back: all are read, and none twice."""
    files = [work.rows_of(number) for number in range(3)]
    now, day = 1_700_000_000, 86_400
    stamps = [now, now + 400 * day, now + 1, now - 900 * day]
    tally.fault("jump of a file's time", 3)
    file = work.write_workload(tmp_path, watermark="2 minutes")
    for number, (rows, at) in enumerate(zip([*files, [work.last_row(YEAR)]], stamps, strict=True)):
        work.write_rows(tmp_path / "in", number, rows, at)
        metrics = finished(file, spark)  # a run for each: what has been read is known from the state alone
        assert {one["rows"] for one in metrics.values()} == {len(rows)}, number
    for rows in work.found_in(tmp_path).values():
        tally.check(rows, work.wanted([row for rows in files for row in rows]))


def test_the_clock_of_the_machine_jumps(tmp_path, tally):
    """Driver, Java and workers are told another time, again and again, years ahead and back: answers are the rows'."""
    if not FAKETIME:
        pytest.skip("libfaketime, which tells programs another time, is not installed here")
    clock = tmp_path / "clock"
    clock.write_text("+0")
    told = {"FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_CACHE_DURATION": "1"}
    still = {"FAKETIME_DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1"}  # those that no one sets
    driver = Driver(work.write_workload(tmp_path, files=8), LD_PRELOAD=FAKETIME[0], **told, **still)
    random = cases.rng("clock")
    with Feeder(tmp_path / "in", every=1) as feeder:
        try:
            driver.start()
            for _ in range(JUMPS):
                before = sum(work.reached(tmp_path).values())
                driver.wait_until(lambda: sum(work.reached(tmp_path).values()) > before + 3, "answers", alive=True)  # noqa: B023
                clock.write_text(f"{random.choice([-700, -1, 1, 20, 400]):+}d")
                tally.fault("jump of the machine's clock")
            feeder.stop()
            wanted = work.wanted(feeder.rows())
            driver.await_answers(tmp_path, wanted)
            assert driver.stop() == 130, driver.told()
        finally:
            driver.end()
    for rows in work.found_in(tmp_path).values():
        tally.check(rows, wanted)
