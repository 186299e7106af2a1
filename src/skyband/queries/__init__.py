"""Queries: the base class, workloads, and the registry of families."""

from __future__ import annotations

from skyband.queries.base import Query
from skyband.queries.fields import Axis

__all__ = ["Axis", "Query"]
