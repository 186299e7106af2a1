"""Skyband on Spark: the same queries over batch and streaming data frames.

`answers` turns a data frame of rows into a data frame of answers. `start` runs a bounded or unbounded stream. `session`
creates a local Spark session with the required settings. `skyband.jobs.run` runs a workload file.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import lazy_loader

from skyband.spark import requirements

requirements.check()  # report missing dependencies before anything else fails

if TYPE_CHECKING:
    from skyband.connectors.read_files import read_files
    from skyband.spark.control import Control
    from skyband.spark.metrics import Metrics
    from skyband.spark.pipeline import answers
    from skyband.spark.sessions import configure, session
    from skyband.spark.stream_handle import Handle
    from skyband.spark.stream_start import start

__all__ = ["Control", "Handle", "Metrics", "answers", "configure", "read_files", "session", "start"]

# Lazy, because Spark's workers import this package each time a stream starts and need little of it.
_attribute, _, _ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "control": ["Control"],
        "metrics": ["Metrics"],
        "pipeline": ["answers"],
        "sessions": ["configure", "session"],
        "stream_handle": ["Handle"],
        "stream_start": ["start"],
    },
)


def __getattr__(name: str) -> Any:
    if name == "read_files":  # a connector, which builds on this package
        return import_module("skyband.connectors.read_files").read_files
    return _attribute(name)


def __dir__() -> list[str]:
    return __all__
