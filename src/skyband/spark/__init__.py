"""Skyband on Spark: the same queries over batch and streaming data frames.

`answers` turns a data frame of rows into a data frame of answers, `start` runs one to its end or for ever, `run` runs a
workload file, `session` makes a local Spark that is set up right.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from skyband.spark import needs

needs.check()  # what is missing is said first

if TYPE_CHECKING:
    from skyband.spark.control import Control
    from skyband.spark.metrics import Metrics
    from skyband.spark.pipeline import answers
    from skyband.spark.running import Handle, start
    from skyband.spark.runs import Run, run
    from skyband.spark.sessions import session

__all__ = ["Control", "Handle", "Metrics", "Run", "answers", "run", "session", "start"]

# Spark's workers load this package each time a stream starts, and need little of it.
_LATER = {
    "Control": "control",
    "Handle": "running",
    "Metrics": "metrics",
    "Run": "runs",
    "answers": "pipeline",
    "run": "runs",
    "session": "sessions",
    "start": "running",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'skyband.spark' has no attribute {name!r}")
    value = getattr(import_module(f"skyband.spark.{_LATER[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
