"""Queries as text: three spellings of one question, read into `TopK` and `Workload`.

`topk` reads the short spelling, `cql` the one of the papers, `flink` the one of Flink's Window Top-N. They take the
text apart with `skyband.sqltext` and gather what they find in a `Draft`; from there on nobody knows how it was spelled.
"""

from __future__ import annotations

from skyband.spelling.reading import parse, sql
from skyband.spelling.statement import Statement

__all__ = ["Statement", "parse", "sql"]
