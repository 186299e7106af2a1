"""What is asked: what queries of all families have in common, their workload, and the registry of families."""

from __future__ import annotations

from skyband.queries.base import Query, moment_among
from skyband.queries.fields import Axis

__all__ = ["Axis", "Query", "moment_among"]
