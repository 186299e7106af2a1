"""Faults of all kinds, drawn from a seed, against a run of all families on a standalone cluster: each answer once.

SKYBAND_FAULTS_COUNT is how many faults (1,000 for `make campaign`), SKYBAND_FAULTS_SEED draws others. The timeline goes
to the folder SKYBAND_FAULTS_FOLDER.
"""

from __future__ import annotations

import csv
import os
import random
import time
from pathlib import Path

import pytest

from tests.connectors.postgres.server import binaries
from tests.connectors.redis.server import binary
from tests.faults import work
from tests.faults.campaign.blows import BLOWS
from tests.faults.campaign.stage import Stage

SEED = int(os.environ.get("SKYBAND_FAULTS_SEED", "9"))
COUNT = int(os.environ.get("SKYBAND_FAULTS_COUNT", "12"))
PATIENCE = 600  # seconds until answers come again
DOUBLE = 0.3  # of all faults come before the run has recovered from the one before
CALM = 1.5  # seconds, the most between a recovery and the next fault
HEADS = ("second", "fault", "what it hit", "seconds until answers came")

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(binaries() is None or binary() is None, reason="needs servers of PostgreSQL and Redis"),
]


def test_a_campaign_of_faults(tmp_path, tally):
    source = random.Random(SEED)
    stage = Stage(tmp_path)
    timeline = []
    try:
        stage.begin()
        await_more(stage, 0)
        while len(timeline) < COUNT:
            blow = source.choices(list(BLOWS), list(BLOWS.values()))[0]
            began, before = stage.seconds(), stage.answered()
            hit = blow(stage, source)
            if hit is None:  # there was nothing to hit
                time.sleep(0.2)
                continue
            recovered = None
            if source.random() >= DOUBLE or len(timeline) == COUNT - 1:
                recovered = await_more(stage, before)
                time.sleep(source.uniform(0, CALM))
            timeline.append((began, blow.__name__.replace("_", " "), hit, recovered))
            keep(timeline)
        stage.feeder.finish()
        rows = stage.feeder.rows
        every = work.wanted(rows, [work.ALL, work.EACH, work.MORE])
        wanted = [row for row in every if row[0] != "more"]
        stage.finish(wanted)
        unexpected, found, kept = stage.unexpected(), stage.found(), stage.kept()
    finally:
        stage.close()
    for _, kind, _, _ in timeline:
        tally.fault(kind)
    tally.note(f"{len(timeline):,} faults in {timeline[-1][0]:,.0f} seconds, drawn with SKYBAND_FAULTS_SEED={SEED}")
    assert not unexpected
    for name in ("parquet", "jsonl", "delta", "iceberg", "postgres"):
        tally.check([row for row in found[name] if not row[0].startswith("extra")], wanted)
        check_extras(tally, found[name], [row for row in every if row[0] == "more"])
    last = max(row[2] for row in wanted if row[0] == "all")
    assert kept == sorted(row[4] for row in wanted if row[0] == "all" and row[2] == last)


def await_more(stage, before):
    """Wait until there are more answers than before; how many seconds that took."""
    began = time.monotonic()
    while stage.answered() <= before:
        assert not stage.is_rejected(), stage.driver.told()
        assert time.monotonic() < began + PATIENCE, f"no answers for {PATIENCE} seconds\n{stage.driver.told()}"
        time.sleep(0.05)
    return time.monotonic() - began


def check_extras(tally, rows, every):
    """Queries that came and went: without a gap between their first window and their last."""
    for name in {row[0] for row in rows if row[0].startswith("extra")}:
        tally.check_extra([row for row in rows if row[0] == name], every, joined=False)


def keep(timeline):
    """Write the timeline after each fault, so that a campaign that fails has one."""
    if "SKYBAND_FAULTS_FOLDER" not in os.environ:
        return
    with Path(os.environ["SKYBAND_FAULTS_FOLDER"], "campaign.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(HEADS)
        for began, kind, hit, recovered in timeline:
            writer.writerow((f"{began:.1f}", kind, hit, "" if recovered is None else f"{recovered:.1f}"))
