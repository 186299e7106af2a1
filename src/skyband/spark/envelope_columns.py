"""The columns of envelopes as Spark rows. A module of its own, because planning a source needs no compiled code."""

from __future__ import annotations

__all__ = ["ENVELOPES", "ENVELOPE_NAMES"]

ENVELOPES = (
    "shard long, rows binary, note binary, control string, newest timestamp, oldest long, "
    "taken long, dropped_null long, pruned long"
)
ENVELOPE_NAMES = [part.split()[0] for part in ENVELOPES.split(", ")]
