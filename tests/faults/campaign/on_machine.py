"""Faults of the machine: its network, disks and clock."""

from __future__ import annotations

import time

from tests.faults.campaign.blow import blow
from tests.faults.campaign.on_processes import AWAY, was_read_only
from tests.faults.campaign.stage import WORKERS

DAY = 86_400
# Set back by much, a clock delays the next micro-batch by as much: it is one that Spark's trigger asks.
JUMPS = (-1, 1, 5, 30, 600, 3600, DAY, 30 * DAY, 400 * DAY)
LATEST = 3000 * DAY  # the clock is not set ahead by more


def _cut(stage, name, random):
    """Nothing arrives in either direction, and no end is told."""
    stage.network.cut(name)
    try:
        seconds = random.uniform(0.2, 2 * AWAY)
        time.sleep(seconds)
    finally:
        stage.network.mend(name)
    return f"{name}, {seconds:.1f} s"


def _can_cut(stage):
    return stage.network.can_be_cut


@blow("executors", 5, possible=_can_cut)
def network_cut_to_a_worker(stage, random):
    return _cut(stage, random.choice(WORKERS), random)


@blow("database", 3, possible=_can_cut)
def network_cut_to_the_database(stage, random):
    return _cut(stage, "database", random)


@blow("cache", 3, possible=_can_cut)
def network_cut_to_the_cache(stage, random):
    return _cut(stage, "cache", random)


@blow("store", 3, possible=lambda stage: _can_cut(stage) and stage.store is not None)
def network_cut_to_the_object_store(stage, random):
    return _cut(stage, "store", random)


@blow("broker", 3, possible=lambda stage: _can_cut(stage) and stage.broker is not None)
def network_cut_to_the_broker(stage, random):
    return _cut(stage, "broker", random)


def _fill(stage, name, random):
    disk = stage.disks[name]
    disk.fill()
    try:
        seconds = random.uniform(0.5, AWAY)
        time.sleep(seconds)
    finally:
        disk.clear()
    return f"for {seconds:.1f} s"


@blow("disk of the state", 1, ends_run=True, possible=lambda stage: stage.disks["state"].can_be_full)
def full_disk_of_the_state(stage, random):
    return _fill(stage, "state", random)


@blow("disk of the answers", 1, ends_run=True, possible=lambda stage: stage.disks["out"].can_be_full)
def full_disk_of_the_answers(stage, random):
    return _fill(stage, "out", random)


@blow("disk of temporary files", 2, possible=lambda stage: stage.disks["temp"].can_be_full)
def full_disk_of_temporary_files(stage, random):
    return _fill(stage, "temp", random)


@blow("folder of lines", 1, ends_run=True)
def revoked_rights_of_a_folder(stage, random):
    folder = stage.folder / "lines"
    return "and granted again" if was_read_only(folder, random) else None


@blow("disk", 4)
def slow_disk(stage, random):
    milliseconds = random.choice([5, 20, 100])
    stage.slow.set(1000 * milliseconds)
    try:
        time.sleep(random.uniform(0.5, 2 * AWAY))
    finally:
        stage.slow.set(0)
    return f"{milliseconds} ms for each change of a file"


@blow("clock", 4)
def jump_of_the_clock(stage, random):
    """The clock of all processes of the run, of its cluster, of the object store and of the broker."""
    seconds = random.choice(JUMPS)
    if stage.clock.wrong_by + seconds > LATEST:
        seconds = 1
    stage.clock.set(stage.clock.wrong_by + seconds)
    return f"by {seconds} s"
