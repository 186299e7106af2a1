"""What leaves a pipeline: whole answers or changes, and how the row's own columns are named there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

__all__ = ["COPY", "Output", "without_copies"]

Output = Literal["answers", "changes", "both"]
COPY = "row_"  # begins the name of a row's own column where answers have another column of that name


def without_copies(columns: Iterable[str]) -> list[str]:
    """The columns without second copies of those that groups are told by: which there are depends on the queries.

    >>> without_copies(["price", "symbol", "row_symbol", "row_rank"])
    ['price', 'symbol', 'row_rank']
    """
    known = list(columns)
    return [name for name in known if not (name.startswith(COPY) and name.removeprefix(COPY) in known)]
