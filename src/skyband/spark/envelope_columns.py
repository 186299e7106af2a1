"""The columns of envelopes as Spark rows. A separate module, because planning a source needs no compiled code."""

from __future__ import annotations

__all__ = ["ENVELOPES", "ENVELOPE_NAMES", "SCANNED"]

ENVELOPES = (
    "shard long, rows binary, note binary, control string, newest timestamp, oldest long, "
    "taken long, dropped_null long, pruned long"
)
# What tasks return that read rows: envelopes, then rows with their counts, in which the columns of envelopes are null.
SCANNED = f"{ENVELOPES}, source_rows long, malformed long, unreadable long, stream string, stream_newest long"
ENVELOPE_NAMES = [part.split()[0] for part in ENVELOPES.split(", ")]
