"""Faults of the processes of the run and of its cluster."""

from __future__ import annotations

import os
import random as random_
import signal
import time
from contextlib import suppress

from tests.faults.campaign.blow import blow
from tests.faults.campaign.stage import WORKERS, python_workers, set_writable

LONGEST = 1.0  # seconds of a pause
AWAY = 2.0  # seconds that a process is away


def paused(pids, random):
    """Stop processes, and let them continue."""
    hit = []
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            hit.append(pid)
    time.sleep(random.uniform(0.1, LONGEST))
    for pid in hit:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    return f"{len(hit)} processes" if hit else None


def killed(pids):
    """End processes at once."""
    hit = 0
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            hit += 1
    return f"{hit} processes" if hit else None


def one_of(pids, random):
    """A list with one of them, or none."""
    return [random.choice(sorted(pids))] if pids else []


@blow("run")
def pause_of_the_whole_run(stage, random):
    return paused(stage.driver.members(), random)


@blow("run")
def pause_of_java(stage, random):
    return paused(filter(None, [stage.driver.java()]), random)


@blow("run")
def pause_of_the_driver_in_python(stage, random):
    return paused([stage.driver.process.pid], random) if stage.driver.is_alive() else None


@blow("executors", 5)
def pause_of_an_executor(stage, random):
    return paused(one_of(stage.cluster.all_executors(), random), random)


@blow("python workers", 5)
def pause_of_python_workers(stage, random):
    return paused(python_workers(stage.cluster), random)


@blow("executors", 3)
def pause_of_a_worker(stage, random):
    return paused(stage.cluster.members(random.choice(WORKERS)), random)


@blow("master", 3)
def pause_of_the_master(stage, random):
    return paused(stage.cluster.members("master"), random)


@blow("run", 1, ends_run=True)
def kill_of_the_run(stage, random):
    return killed(stage.driver.members())


@blow("run", 1, ends_run=True)
def kill_of_the_driver_in_python(stage, random):
    return killed([stage.driver.process.pid]) if stage.driver.is_alive() else None


@blow("run", 1, ends_run=True)
def kill_of_java(stage, random):
    return killed(filter(None, [stage.driver.java()]))


@blow("executors", 4)
def kill_of_an_executor(stage, random):
    return killed(one_of(stage.cluster.all_executors(), random))


@blow("python workers", 7)
def kill_of_a_python_worker(stage, random):
    return killed(one_of(python_workers(stage.cluster), random))


@blow("executors", 2)
def kill_of_a_worker(stage, random):
    """As if its machine were switched off, and on again."""
    name = random.choice(WORKERS)
    stage.cluster.kill_worker(name)
    time.sleep(random.uniform(0, AWAY))
    stage.cluster.add_workers(name)
    return name


@blow("master", 2)
def kill_of_the_master(stage, random):
    stage.cluster.kill_worker("master")
    time.sleep(random.uniform(0, AWAY))
    stage.cluster.start_master()
    return "with its stored state"


def away(random: random_.Random):
    """Wait for as long as something is away."""
    time.sleep(random.uniform(0, AWAY))


def was_read_only(folder, random: random_.Random):
    """Forbid to create files in a folder for a while; returns whether that is possible here."""
    if not folder.is_dir() or not set_writable(folder, allowed=False):
        return False
    try:
        time.sleep(random.uniform(0.2, AWAY))
    finally:
        set_writable(folder, allowed=True)
    return True
