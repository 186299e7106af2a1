"""Which column of a table of answers says when they were final."""

from __future__ import annotations

import pyarrow as pa

__all__ = ["moment_of"]


def moment_of(rows: pa.Table | pa.Schema) -> str:
    """The column that says when answers were final; where it is `time`, rows bring no columns of their own."""
    names = rows.names if isinstance(rows, pa.Schema) else rows.column_names
    return "window_end" if "window_end" in names else "time"
