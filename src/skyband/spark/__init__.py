"""Skyband on Spark: the same queries over batch and streaming data frames.

`answers` turns a data frame of rows into a data frame of answers, `start` runs one to its end or for ever, `session`
makes a local Spark that is set up right.
"""

from __future__ import annotations

from skyband.spark import needs

needs.check()

from skyband.spark.control import Control  # noqa: E402 - what is missing is said first
from skyband.spark.metrics import Metrics  # noqa: E402
from skyband.spark.pipeline import answers  # noqa: E402
from skyband.spark.running import Handle, start  # noqa: E402
from skyband.spark.runs import Run, run  # noqa: E402
from skyband.spark.sessions import session  # noqa: E402

__all__ = ["Control", "Handle", "Metrics", "Run", "answers", "run", "session", "start"]
