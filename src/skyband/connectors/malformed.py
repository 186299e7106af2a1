"""The columns that mark malformed rows and records on their way through Spark."""

from __future__ import annotations

from skyband.spark.expressions import HIDDEN

__all__ = ["RECORD", "WRONG"]

WRONG = f"{HIDDEN}wrong"  # the column that says what is wrong with a record; null for nothing
RECORD = f"{HIDDEN}record"  # the record itself, for dead letters
