"""Workload files: streams, queries and sinks written down in YAML.

`read_workload` reads one, `schema` and `keys` say what one may hold, `starter` writes the first one, for data that
`sample_of` has looked at.
"""

from __future__ import annotations

from skyband.errors import Problem
from skyband.workfile.model import Engine, Sink, Stream
from skyband.workfile.reading import WorkloadFile, read_workload
from skyband.workfile.sample import DataSample
from skyband.workfile.sampling import sample_of
from skyband.workfile.schema import Key, keys, schema
from skyband.workfile.starter import starter

__all__ = [
    "DataSample",
    "Engine",
    "Key",
    "Problem",
    "Sink",
    "Stream",
    "WorkloadFile",
    "keys",
    "read_workload",
    "sample_of",
    "schema",
    "starter",
]
