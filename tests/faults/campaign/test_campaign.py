"""Faults of all kinds, drawn from a seed, against a run of all families on a standalone cluster: each answer once.

SKYBAND_FAULTS_COUNT is how many faults (1,000 for `make campaign`), SKYBAND_FAULTS_SEED draws others. After
SKYBAND_FAULTS_MINUTES, or as soon as there is a file `stop` in the folder SKYBAND_FAULTS_FOLDER, no more faults come,
and answers are compared. The timeline goes to that folder, fault by fault. SKYBAND_FAULTS_SPARKS are folders with
earlier versions of Spark, oldest first: the campaign begins with the first, and goes on with the next ones.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import platform
import random
import threading
import time
import traceback
from collections import Counter
from pathlib import Path

import pyspark
import pytest

from skyband.errors import MissingDependencyError
from tests.connectors.kafka.broker import broker_jars, connector
from tests.connectors.postgres.server import binaries
from tests.connectors.redis.server import binary
from tests.connectors.s3.server import jar
from tests.downloads import NotFetchedError
from tests.faults import work
from tests.faults.campaign.blows import BLOWS, MODULES, bursts
from tests.faults.campaign.stage import Stage
from tests.faults.length import MINUTES

SEED = int(os.environ.get("SKYBAND_FAULTS_SEED", "59"))
COUNT = int(os.environ.get("SKYBAND_FAULTS_COUNT", "12"))
FOLDER = Path(os.environ["SKYBAND_FAULTS_FOLDER"]) if "SKYBAND_FAULTS_FOLDER" in os.environ else None
OLDER = [one for one in os.environ.get("SKYBAND_FAULTS_SPARKS", "").split(os.pathsep) if one]
PATIENCE = 900  # seconds until answers come again
CALM = 1.0  # seconds, the most between a recovery and the next burst
HEADS = ("second", "burst", "fault", "what it hit", "seconds until all streams answered", "ends of the run")

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(binaries() is None or binary() is None, reason="needs servers of PostgreSQL and Redis"),
]


def programs():
    """Whether the programs of an object store and of a broker can be had; they are fetched if need be."""
    found = {}
    for name, needed in {"store": [jar], "broker": [connector, broker_jars]}.items():
        with contextlib.suppress(NotFetchedError, MissingDependencyError):
            found[name] = all(fetch() is not None for fetch in needed)
    return {"store": False, "broker": False, **found}


def test_a_campaign_of_faults(tmp_path, tally, request):
    stage = Stage(tmp_path, programs(), OLDER)
    try:
        timeline = Timeline(stage)
        stage.begin()
        await_answers(stage, 0)
        source = random.Random(f"calm {SEED}")
        for burst in bursts(SEED, timeline.kinds):
            ends = len(stage.codes)
            hit = strike(stage, burst, COUNT - timeline.count, timeline)
            began = time.monotonic()
            await_answers(stage, stage.needed())
            timeline.add(hit, time.monotonic() - began, len(stage.codes) - ends)
            if stage.upgrades() and timeline.count >= COUNT * (1 - stage.upgrades() / (len(OLDER) + 1)):
                began = stage.seconds(), time.monotonic()
                what = stage.upgrade()
                await_answers(stage, stage.needed())
                timeline.add([(began[0], "restart with a newer Spark", what)], time.monotonic() - began[1], 1)
            if timeline.count >= COUNT or timeline.is_over():
                break
            time.sleep(source.uniform(0, CALM))
        stage.feeder.finish()
        every = work.wanted(stage.feeder.rows, [work.ALL, work.EACH, work.MORE])
        wanted = [row for row in every if row[0] != "more"]
        stage.finish()
        unexpected, kept = stage.unexpected(), stage.kept()
        found = stage.found(lambda: request.getfixturevalue("spark"))
    finally:
        stage.close()
    for kind, count in timeline.counts.items():
        tally.fault(kind, count)
    tally.note(f"{timeline.count:,} faults in {timeline.seconds:,.0f} seconds, drawn with SKYBAND_FAULTS_SEED={SEED}")
    assert not unexpected
    for name in found:
        tally.check([row for row in found[name] if not row[0].startswith("extra")], wanted)
        check_extras(tally, found[name], [row for row in every if row[0] == "more"])
    last = max(row[2] for row in wanted if row[0] == "all")
    assert not timeline.errors, "the test could not inject all that it should"
    assert kept == sorted({row[4] for row in wanted if row[0] == "all" and row[2] == last})


def strike(stage, burst, most, timeline):
    """Inject a burst of at most so many faults: of each, the second, the kind and what it hit.

    A fault begins while earlier ones last, but not while one of the same target does.
    """
    hit, running, begun = [], {}, 0

    def inject(drawn):
        began = stage.seconds()
        try:
            what = drawn.blow.strike(stage, random.Random(drawn.seed))
        except Exception as error:  # the campaign goes on without it, and fails at its end
            timeline.failed(drawn.blow.kind, error)
            return
        if what is not None:
            hit.append((began, drawn.blow.kind, what))

    for drawn, pause in burst:
        for one in drawn:
            if begun == most:
                break
            if one.blow.target in running:
                running[one.blow.target].join()
            running[one.blow.target] = threading.Thread(target=inject, args=(one,), name=one.blow.kind)
            running[one.blow.target].start()
            begun += 1
        time.sleep(pause)
    for thread in running.values():
        thread.join()
    return sorted(hit)


def await_answers(stage, needed):
    """Wait until each stream has an answer to which rows have come that were not there at the last fault."""
    began = time.monotonic()
    while stage.answered() <= needed:
        assert not stage.is_rejected(), stage.driver.told()
        assert time.monotonic() < began + PATIENCE, f"no answers for {PATIENCE} seconds\n{stage.driver.told()}"
        time.sleep(0.1)


def check_extras(tally, rows, every):
    """Queries that came and went: without a gap between their first window and their last."""
    for name in {row[0] for row in rows if row[0].startswith("extra")}:
        tally.check_extra([row for row in rows if row[0] == name], every, joined=False)


class Timeline:
    """What was injected, written down fault by fault, so that a campaign that fails has one, too."""

    def __init__(self, stage):
        self._began = time.monotonic()
        self.kinds = [kind for module in MODULES for kind in of(module) if BLOWS[kind].possible(stage)]
        self.count = self.bursts = 0
        self.seconds = 0.0
        self.counts = Counter()
        self.errors = []
        if FOLDER is not None:
            self._write("w", HEADS)
            about = {"seed": SEED, "kinds": len(self.kinds), "spark": pyspark.__version__}
            about |= {
                "python": platform.python_version(),
                "namespaces": stage.network.can_be_cut,
                "load": os.getloadavg()[0],
                "store": stage.store is not None,
                "broker": stage.broker is not None,
            }
            (FOLDER / "campaign.json").write_text(json.dumps(about, indent=2))

    def add(self, hit, recovered, ends):
        """A burst, after which all streams answered again so many seconds later; the run had ended so often."""
        self.bursts += 1
        for began, kind, what in hit:
            self.count += 1
            self.counts[kind] += 1
            self.seconds = began
            if FOLDER is not None:
                self._write("a", (f"{began:.1f}", self.bursts, kind, what, f"{recovered:.1f}", ends))

    def failed(self, kind, error):
        """A fault could not be injected, which is an error of the test."""
        self.errors.append((kind, error))
        if FOLDER is not None:
            with (FOLDER / "errors.txt").open("a") as file:
                file.write(f"{kind}\n{''.join(traceback.format_exception(error))}\n")

    def is_over(self):
        """Whether no more faults may come, however many there were."""
        late = MINUTES is not None and time.monotonic() > self._began + 60 * MINUTES
        return late or (FOLDER is not None and (FOLDER / "stop").exists())

    def _write(self, mode, row):
        with (FOLDER / "campaign.csv").open(mode, newline="") as file:
            csv.writer(file).writerow(row)


def of(module):
    """The kinds of faults that a module registers, in its order."""
    return [kind for kind, one in BLOWS.items() if one.strike.__module__ == module.__name__]
