"""Envelopes of change events: records that contain a row before and after a change, and what the change was.

An envelope of Debezium is an object with ``before``, ``after``, ``op`` and ``ts_ms``, or one with it as ``payload``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from skyband.connectors.section import Wrong

__all__ = ["AFTER", "CHANGES", "DELETE", "OP", "OP_TIME", "UPSERT", "Envelope", "added_columns", "envelope_rules"]

Envelope = Literal["debezium"]

OP, OP_TIME = "op", "op_time"  # the columns that an envelope adds to those of the row
DELETE, UPSERT = "d", "u"
AFTER = ("c", "r", "u")  # created, read by a snapshot, updated: the row is the one after the change
CHANGES = (*AFTER, DELETE)


def added_columns(raw: Mapping[str, Any]) -> list[str]:
    """Return the columns that a source adds to those of its rows.

    >>> added_columns({"envelope": "debezium"}), added_columns({"tombstones": "delete"}), added_columns({})
    (['op', 'op_time'], ['op'], [])
    """
    if raw.get("envelope") is not None:
        return [OP, OP_TIME]
    return [OP] if raw.get("tombstones") == "delete" else []


def envelope_rules(raw: Mapping[str, Any]) -> Wrong:
    """Report keys that envelopes and tombstones cannot be combined with."""
    if raw.get("envelope") is not None:
        if raw.get("format") not in (None, "json"):
            yield "envelope", f"is JSON, so it cannot be combined with format: {raw['format']}; write format: json."
        if "schema" not in raw and raw.get("format") == "json":
            yield "schema", "is missing; with envelope, it has the columns of the row before and after a change."
        if raw.get("tombstones") == "delete":
            yield "tombstones", "delete is for topics without envelope; an envelope says itself that a row was deleted."
    if isinstance(raw.get("schema"), dict):
        for column in raw["schema"]:
            if str(column).lower() in added_columns(raw):
                yield ("schema", column), f"{column!r} is a column that the envelope adds; rename the column."
