"""A run of all families, killed again and again at any moment while rows go on coming: each answer is there once.

SKYBAND_FAULTS_SEED draws other moments.
"""

from __future__ import annotations

import os
import time
from itertools import count

import pytest

import skyband as sb
from skyband.jobs.journal import Journal
from skyband.jobs.mailbox import mailbox_of
from tests.faults import work
from tests.faults.feeder import Feeder
from tests.faults.length import MINUTES
from tests.faults.process import PATIENCE, Driver, newest
from tests.sharding import cases

SEED = int(os.environ.get("SKYBAND_FAULTS_SEED", "9"))
# A blow beside the one that follows a change, and as many as there is time for.
SOME, MANY = 1, 20 if MINUTES is None else max(21, 3 * MINUTES)
# A start of Spark takes a while; where there is little time, one family is killed again and again, and else all.
STREAMS = ("rows",) if MINUTES is None else work.STREAMS
# What is waited for before the blow: nothing but some time after the start of the process; a batch that is planned and
# not done; answers that were just written, and need not be noted down; a change that was asked for.
MOMENTS = ("written", "batch", "start", "change", "start", "start", "written")
SQL = "TOPK s, 5 OVER 15 SECONDS EVERY 5 SECONDS"


class Killings:
    """The run, who feeds it, and who kills it."""

    def __init__(self, folder, feeder):
        self.random = cases.rng("killed", SEED)
        self.folder, self.feeder = folder, feeder
        self.file = folder / "work.yaml"
        self.driver = Driver(self.file)
        self.asked = count()
        self.told = []  # of each blow: the moment, the victim, and how long the process lived

    def blow(self, moment):
        """Start it unless it runs, wait for the moment, and kill it."""
        if self.driver.process is None or not self.driver.is_alive():
            self.driver.start()
        began = time.monotonic()
        getattr(self, f"await_{moment}")()
        victim = self.random.choice(["everything", "everything", "driver", "java"])
        code = self.driver.kill(victim)
        self.told.append(f"{moment}, {victim}, {time.monotonic() - began:.1f} s")
        if self.driver.lost_java:
            assert code == 3, (code, self.told, self.driver.told())
            assert self.driver.told().splitlines()[-1].startswith("skyband: "), self.driver.told()
        else:
            assert code == -9, (code, self.told, self.driver.told())

    def await_start(self):
        time.sleep(self.random.uniform(0.1, 7))

    def await_batch(self):
        states = [self.folder / "state" / stream for stream in STREAMS]
        before = [newest(state / "offsets") for state in states]
        self.driver.wait_until(
            lambda: any(
                newest(state / "offsets") > old and newest(state / "commits") < newest(state / "offsets")
                for state, old in zip(states, before, strict=True)
            ),
            "a batch begins",
            alive=True,
        )
        time.sleep(self.random.uniform(0, 0.6))

    def await_written(self):
        before = work.reached(self.folder)
        stream = self.random.choice(STREAMS)
        self.driver.wait_until(
            lambda: work.reached(self.folder)[stream] > before[stream], "answers are written", alive=True
        )
        time.sleep(self.random.choice([0, self.random.uniform(0, 0.2)]))

    def await_change(self):
        """It is asked for another query, and killed while it makes room for it, or a little later."""
        self.await_heard()
        box = mailbox_of(sb.read_workload(self.file))
        box.send({"kind": "add", "sql": f"extra{next(self.asked)}: {SQL}", "stream": "rows"})
        time.sleep(self.random.uniform(0, 3))

    def await_heard(self):
        box = mailbox_of(sb.read_workload(self.file))
        self.driver.wait_until(box.is_heard, "somebody listens", alive=True)

    def ask(self, **message):
        box = mailbox_of(sb.read_workload(self.file))
        reply = box.ask(message, PATIENCE)
        assert reply is not None, self.driver.told()
        return reply


@pytest.mark.parametrize("kills", [SOME, pytest.param(MANY, marks=pytest.mark.long)])
def test_killed_at_any_moment(tmp_path, tally, kills):
    work.write_workload(tmp_path, files=25, streams=STREAMS)
    tally.note(f"killed at moments drawn with SKYBAND_FAULTS_SEED={SEED}")
    with Feeder(tmp_path / "in", every=1) as feeder:
        killings = Killings(tmp_path, feeder)
        try:
            moments = [MOMENTS[number % len(MOMENTS)] for number in range(kills)]
            killings.random.shuffle(moments)
            for number, moment in enumerate(moments):
                if number == kills // 3:
                    valid_from = add_more(killings)
                    if kills > SOME:
                        killings.driver.kill()
                    tally.fault("change of a running workload")
                killings.blow(moment)
                tally.fault("kill -9 of the driver")
                if moment == "change":
                    tally.fault("change of a running workload")
            feeder.stop()
            killings.driver.start()
            every = work.wanted(feeder.rows(), [work.ALL, work.EACH, work.MORE], STREAMS)
            wanted = [row for row in every if row[0] != "more" or row[2] >= valid_from]
            killings.driver.await_answers(tmp_path, wanted)
            assert killings.driver.stop() == 130, killings.driver.told()
            assert "Spark reads the files" not in killings.driver.told(), "tasks read and reduce them"
        finally:
            killings.driver.end()
    joined = {change.query.name for change in Journal(tmp_path / "state").read()} - {"more"}
    for rows in work.found_in(tmp_path).values():
        tally.check([row for row in rows if not row[0].startswith("extra")], wanted)
        extra = {row[0] for row in rows if row[0].startswith("extra")}
        assert extra >= joined, "who was written down is answered"
        for name in extra:
            mine = [row for row in rows if row[0] == name]
            tally.check_extra(mine, [row for row in every if row[0] == "more"], joined=name in joined)


def add_more(killings):
    """A query that joins between two blows; from which window on it is answered."""
    killings.driver.start()
    killings.await_heard()
    before = work.reached(killings.folder)
    killings.driver.wait_until(lambda: work.reached(killings.folder)["rows"] > before["rows"], "answers", alive=True)
    said = killings.ask(kind="add", sql=f"more: {SQL}", stream="rows")
    moment = said["done"].partition("valid from the window that ends at ")[2]
    return cases.micros(cases.dt.datetime.fromisoformat(moment))
