"""Workload files: streams, queries and sinks in YAML.

`read_workload` reads and validates a file, `schema` and `keys` describe the format, and `starter` writes a first file
for data that `sample_of` has inspected.
"""

from __future__ import annotations

from skyband.errors import Problem
from skyband.sinks import Sink
from skyband.workload_file.models import EngineSection, Stream
from skyband.workload_file.reader import WorkloadFile, read_workload
from skyband.workload_file.sampling import DataSample, sample_of
from skyband.workload_file.schema import Key, keys, schema
from skyband.workload_file.starter import starter

__all__ = [
    "DataSample",
    "EngineSection",
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
