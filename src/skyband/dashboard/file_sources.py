"""Which files of a folder belong together, and how queries of one name are told apart that do not."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path, PurePath
from typing import NamedTuple

from skyband.dashboard.query_info import QueryInfo

__all__ = ["Ident", "Source", "labels_of", "source_of"]

_OF_A_SINK = re.compile(r"(.+)-\d{8}\.parquet")
# What writers of many files call them: part-00000-<uuid>-c000.snappy.parquet, part.0.parquet, data_0.parquet, 0.parquet
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}"
_NUMBER = rf"(?:{_UUID}|\d+)"
_PART = re.compile(
    rf"(?:(?:part|data|chunk|file)[-_.]?)?{_NUMBER}"
    rf"(?:[-_.](?:{_NUMBER}|tid|c\d+|snappy|zstd|gz|gzip|lz4|lz4raw|brotli))*\.parquet",
    re.IGNORECASE,
)


class Source(NamedTuple):
    """Files whose answers are those of one writer: a file of its own, the files of a sink, or the parts of a folder."""

    place: str  # below the folder, as people are told
    kind: str  # "file", "sink" or "parts"
    stream: str | None = None  # of a sink


class Ident(NamedTuple):
    """What tells one query from another: where it was found, its name there, its family and its windows' length."""

    source: Source
    name: str
    family: str = "topk"
    axis: str = "time"
    size: int | None = None  # in microseconds or objects; None where answers do not tell


def source_of(path: Path, folder: Path, title: str, *, alone: bool = False) -> Source:
    """The source that a file belongs to; `alone`, if it is known to belong to none but itself.

    >>> source_of(Path("a/x-00000007.parquet"), Path("a"), "a")
    Source(place='x', kind='sink', stream='x')
    >>> source_of(Path("a/day=1/part-0.parquet"), Path("a"), "a").place
    'a'
    >>> source_of(Path("a/b/x.parquet"), Path("a"), "a").place
    'b/x.parquet'
    """
    below = path.relative_to(folder)
    if not alone:
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
    """What each query is called on the page: its name, and where others have that, too, where it was found.

    `known` are queries that a workload file has: who is one of them has its name before others. `length` has words for
    the windows of each; they come in where the place does not tell them apart.
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


def is_of(ident: Ident, asked: QueryInfo) -> bool:
    """Whether answers can be those of a query of a workload file."""
    window = None if asked.query is None else asked.query.window
    sized = ident.size is None or window is None or ident.size == window.longest
    return sized and ident.source.stream in (None, asked.stream)


def _order(ident: Ident) -> tuple[str | int, ...]:
    return ident.name, ident.source.place, ident.source.kind, ident.size or 0, ident.family, ident.axis


def _free(label: str, taken: Collection[str]) -> str:
    """The label, or where a query is called like that the first of its kind that is free."""
    number, found = 1, label
    while found in taken:
        number += 1
        found = f"{label} #{number}"
    return found
