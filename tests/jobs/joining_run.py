"""Runs a workload file on Spark, and kills itself: `python -m tests.jobs.joining_run FILE WHEN`.

WHEN: ``sent`` when the past was sent to the shards, ``read`` while it is read, ``delivered`` when the first answers
after that were written and Spark has not noted it down; ``never`` runs to the end.
"""

from __future__ import annotations

import os
import signal
import sys

import skyband as sb
from skyband.jobs import run
from skyband.jobs.history import RepeatedBatches
from skyband.sharding.delivery import Wanted
from skyband.spark import session
from skyband.spark.control import Control


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


class Killing:
    """A receiver of answers that kills the process."""

    def take(self, batch, rows):
        kill()


def main(path, when):
    watchers = {"rows": [Wanted(Killing(), "answers")]} if when == "delivered" else {}
    send, step = Control.send, RepeatedBatches.step
    if when == "sent":
        Control.send = lambda self, messages: (send(self, messages), kill())
    if when == "read":
        RepeatedBatches.step = lambda self, *arguments: (step(self, *arguments), kill())
    spark = session("joining", master="local[2]", memory="512m")
    running = run(sb.read_workload(path), "stream", spark=spark, watchers=watchers)
    running.finish()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
