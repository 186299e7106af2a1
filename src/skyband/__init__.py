"""Skyband: continuous top-k queries over data streams, exact, in one pass, with minimal state.

>>> import skyband as sb
>>> query = sb.TopK(name="best", k=1, size=3, slide=1)
>>> sb.replay(query, None, [4.0, 8.0, 6.0, 2.0])["score"].to_pylist()
[4.0, 8.0, 8.0, 8.0]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# The function takes the name over from the package `skyband.algorithms`, so the package must be loaded before it.
from skyband.catalogue import algorithms
from skyband.errors import (
    InvalidInputError,
    InvalidQueryError,
    InvalidSQLError,
    MissingDependencyError,
    PipelineError,
    SkybandError,
    SnapshotError,
    UnknownNameError,
    UnsupportedError,
    WorkloadFileError,
)
from skyband.queries import AggregateTopK, IncompleteTopK, TopK, UncertainTopK
from skyband.workload import Workload

if TYPE_CHECKING:
    from skyband.changes import ChangeFeed
    from skyband.monitor import Monitor, replay
    from skyband.spelling import sql
    from skyband.workfile import read_workload

__all__ = [
    "AggregateTopK",
    "ChangeFeed",
    "IncompleteTopK",
    "InvalidInputError",
    "InvalidQueryError",
    "InvalidSQLError",
    "MissingDependencyError",
    "Monitor",
    "PipelineError",
    "SkybandError",
    "SnapshotError",
    "TopK",
    "UncertainTopK",
    "UnknownNameError",
    "UnsupportedError",
    "Workload",
    "WorkloadFileError",
    "algorithms",
    "read_workload",
    "replay",
    "sql",
]

__version__ = "0.1.0"

# Compiled engines and Arrow are loaded when first used: asking a question costs nothing, `import skyband` stays quick.
_LATER = {
    "ChangeFeed": "skyband.changes",
    "Monitor": "skyband.monitor",
    "read_workload": "skyband.workfile",
    "replay": "skyband.monitor",
    "sql": "skyband.spelling",
}
_PACKAGES = ("aggregate", "incomplete", "uncertain")


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _PACKAGES:
        return import_module(f"skyband.{name}")
    if name not in _LATER:
        raise AttributeError(f"module 'skyband' has no attribute {name!r}")
    value = getattr(import_module(_LATER[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
