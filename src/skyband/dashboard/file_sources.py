"""Grouping of answer files into sources, and unique labels for queries with the same name."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path, PurePath
from typing import NamedTuple

from skyband.dashboard.query_info import QueryInfo

__all__ = ["Ident", "Source", "labels_of", "source_of"]

_OF_A_SINK = re.compile(r"(.+)-\d{8}\.parquet")
# File names of multi-file writers: part-00000-<uuid>-c000.snappy.parquet, part.0.parquet, data_0.parquet, 0.parquet
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}"
_NUMBER = rf"(?:{_UUID}|\d+)"
_PART = re.compile(
    rf"(?:(?:part|data|chunk|file)[-_.]?)?{_NUMBER}"
    rf"(?:[-_.](?:{_NUMBER}|tid|c\d+|snappy|zstd|gz|gzip|lz4|lz4raw|brotli))*\.parquet",
    re.IGNORECASE,
)


class Source(NamedTuple):
    """The files of one writer: a single file, the files of a sink, or the part files of a folder."""

    place: str  # path below the folder, as shown on the page
    kind: str  # "file", "sink" or "parts"
    stream: str | None = None  # of a sink


class Ident(NamedTuple):
    """The identity of a query: its source, its name there, its family and the length of its windows."""

    source: Source
    name: str
    family: str = "topk"
    axis: str = "time"
    size: int | None = None  # in microseconds or objects; None if unknown


def source_of(path: Path, folder: Path, title: str, *, alone: bool = False) -> Source:
    """Return the source of a file. With `alone`, the file is a source by itself.

    >>> source_of(Path("a/x-00000007.parquet"), Path("a"), "a")
    Source(place='x', kind='sink', stream='x')
    >>> source_of(Path("a/day=1/part-0.parquet"), Path("a"), "a").place
    'a'
    >>> source_of(Path("a/b/x.parquet"), Path("a"), "a").place
    'b/x.parquet'
    >>> source_of(Path("a/x-00000008.parquet/part-00000.parquet"), Path("a"), "a")
    Source(place='x', kind='sink', stream='x')
    """
    below = path.relative_to(folder)
    if not alone:
        if _OF_A_SINK.fullmatch(path.parent.name) and path.parent != folder:  # a micro-batch that tasks have written
            path, below = path.parent, below.parent
        # Folders such as day=2024-01-01 are parts of the data above them.
        above = PurePath(*(part for part in below.parent.parts if "=" not in part))
        if found := _OF_A_SINK.fullmatch(path.name):
            return Source((above / found[1]).as_posix(), "sink", found[1])
        if _PART.fullmatch(path.name):
            return Source(above.as_posix() if above.parts else title, "parts")
    return Source(below.as_posix(), "file")


def labels_of(
    idents: Iterable[Ident], known: Mapping[str, QueryInfo], length: Mapping[Ident, str | None]
) -> dict[Ident, str]:
    """Return the label of each query on the page: its name, with its source if several queries have that name.

    `known` are the queries of a workload file; they have priority for their names. `length` describes the windows of
    each query. It is added to the label if name and source are not unique.
    """
    by_name: defaultdict[str, list[Ident]] = defaultdict(list)
    for ident in idents:
        by_name[ident.name].append(ident)
    found: dict[Ident, str] = {}
    crowded: list[Ident] = []
    for name, mine in by_name.items():
        named = [ident for ident in mine if is_of(ident, known[name])] if name in known else mine
        if len(named) == 1:
            found[named[0]] = name
        crowded += [ident for ident in mine if ident not in found]
    taken = {*found.values(), *known}
    for ident in sorted(crowded, key=_order):
        twins = sum(one.source.place == ident.source.place for one in by_name[ident.name])
        where = ident.source.place + (f", {length.get(ident)}" if twins > 1 and length.get(ident) else "")
        found[ident] = _free(f"{ident.name} ({where})", taken)
        taken.add(found[ident])
    return found


def is_of(ident: Ident, info: QueryInfo) -> bool:
    """Return whether the answers can belong to this query of a workload file."""
    window = None if info.query is None else info.query.window
    sized = ident.size is None or window is None or ident.size == window.longest
    return sized and ident.source.stream in (None, info.stream)


def _order(ident: Ident) -> tuple[str | int, ...]:
    return ident.name, ident.source.place, ident.source.kind, ident.size or 0, ident.family, ident.axis


def _free(label: str, taken: Collection[str]) -> str:
    """Return the label, with a number appended if it is already taken."""
    number, found = 1, label
    while found in taken:
        number += 1
        found = f"{label} #{number}"
    return found
