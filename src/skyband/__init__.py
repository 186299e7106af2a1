"""Skyband: continuous top-k queries over data streams, exact, in one pass, with minimal state.

>>> import skyband as sb
>>> query = sb.TopK(name="best", k=1, size=3, slide=1)
>>> sb.replay(query, None, [4.0, 8.0, 6.0, 2.0])["score"].to_pylist()
[4.0, 8.0, 8.0, 8.0]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

from skyband.aggregate.query import AggregateTopK
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
from skyband.incomplete.query import IncompleteTopK
from skyband.queries.workload import Workload
from skyband.sql.reader import sql  # imported eagerly, because the function replaces the package of the same name
from skyband.topk.algorithms import algorithms
from skyband.topk.query import TopK
from skyband.uncertain.query import UncertainTopK

if TYPE_CHECKING:
    from skyband import client as client
    from skyband import sinks as sinks
    from skyband.data.answers import Answers
    from skyband.data.change_feed import ChangeFeed
    from skyband.topk.monitor import Monitor, replay
    from skyband.workload_file import read_workload

__all__ = [
    "AggregateTopK",
    "Answers",
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

# Compiled engines and Arrow are imported on first use, so that `import skyband` and creating queries are fast.
__getattr__, _, _ = lazy_loader.attach(
    __name__,
    submodules=["aggregate", "client", "incomplete", "sinks", "topk", "uncertain"],
    submod_attrs={
        "data.answers": ["Answers"],
        "data.change_feed": ["ChangeFeed"],
        "topk.monitor": ["Monitor", "replay"],
        "workload_file.reader": ["read_workload"],
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
