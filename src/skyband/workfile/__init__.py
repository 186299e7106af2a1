"""Workload files: streams, queries and sinks written down in YAML; read, checked, published as a schema, begun.

`read_workload` reads one, `schema` and `keys` say what one may hold, `starter` writes the first one for `sample_of`
some data.
"""

from __future__ import annotations

from skyband.workfile.model import Engine, Sink, Stream
from skyband.workfile.reading import WorkloadFile, read_workload

__all__ = ["Engine", "Sink", "Stream", "WorkloadFile", "read_workload"]
