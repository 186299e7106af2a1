"""Parts of files that tasks read independently: row groups of Parquet files, and ranges of bytes of lines."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from skyband.connectors.arrow.delta_changes import stored_path
from skyband.connectors.file_formats import is_packed

__all__ = ["Split", "balanced", "splits_of"]

SMALLEST = 4 << 20  # bytes; reading a smaller part in a separate task costs more than it saves
MOST_OPENED = 1000  # Parquet files whose footers are read to split them


class Split(NamedTuple):
    """A part of a file. Equal bounds of `begin` and `end` of neighbours neither lose nor repeat a row."""

    file: Path
    begin: int = 0  # the first row group, or the first byte
    end: int | None = None  # after the last one; None: the whole file
    size: int = 0  # bytes, for balance
    limit: int | None = None  # bytes of the file that are read at most, if it may have grown


def splits_of(
    kind: str, files: Sequence[tuple[Path, int]], tasks: int, *, keep_empty: bool = False, whole: bool = False
) -> list[Split]:
    """Split files of known sizes, so that each of `tasks` tasks can have an equal share of the bytes.

    `keep_empty`: also return files without bytes, which Spark ignores. `whole`: files are not split.

    >>> [(split.begin, split.end) for split in splits_of("json", [(Path(__file__), 10 << 20)], 2)]
    [(0, 5242880), (5242880, 10485760)]
    """
    share = max(SMALLEST, -(-sum(size for _, size in files) // max(1, tasks)))
    found: list[Split] = []
    opened = 0
    for file, size in files:
        if not size and not keep_empty:
            continue  # as on Spark, a file without bytes has no rows
        if kind == "parquet" and size > share // 2 and opened < MOST_OPENED:
            opened += 1
            found += _row_groups(file, size)
        elif kind != "parquet" and not whole:
            found += _ranges(file, size, share)  # of lines, or of blocks
        else:
            found.append(Split(file, size=size))
    return found


def balanced(splits: Iterable[Split], tasks: int) -> list[list[Split]]:
    """Distribute splits over tasks: the largest first, each to the task with the fewest bytes.

    Within a task they keep their order, so that its rows are nearly sorted by time.
    """
    ordered = list(splits)
    tasks = max(1, min(tasks, len(ordered)))
    loads, places = [0] * tasks, list[list[int]]([] for _ in range(tasks))
    for place in sorted(range(len(ordered)), key=lambda at: -ordered[at].size):
        lightest = loads.index(min(loads))
        loads[lightest] += ordered[place].size + 1
        places[lightest].append(place)
    return [[ordered[place] for place in sorted(some)] for some in places if some]


def _row_groups(file: Path, size: int) -> list[Split]:
    try:
        with pq.ParquetFile(stored_path(file)) as opened:
            metadata = opened.metadata
            sizes = [metadata.row_group(at).total_byte_size for at in range(metadata.num_row_groups)]
    except (pa.ArrowException, OSError):
        return [Split(file, size=size)]  # the task that reads it reports the problem
    whole = max(1, sum(sizes))
    return [Split(file, at, at + 1, size * part // whole) for at, part in enumerate(sizes)]


def _ranges(file: Path, size: int, share: int) -> list[Split]:
    """Split a file of lines by bytes; not a compressed file, nor one that cannot be opened."""
    if is_packed(file.name) or not os.access(file, os.R_OK):
        return [Split(file, size=size)]
    parts = max(1, round(size / share))
    bounds = [size * at // parts for at in range(parts + 1)]
    return [Split(file, low, high, high - low, size) for low, high in pairwise(bounds)]
