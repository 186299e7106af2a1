"""Scans: the queries of a workload that rank the same rows by the same score in the same groups."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from zlib import crc32

from skyband.queries.sharing import places_by
from skyband.topk.query import TopK

__all__ = ["Scan", "scans_of"]


class Scan(NamedTuple):
    """What its queries have in common, and their places in the workload. Both directions may be among them."""

    by: str | None
    where: str | None
    partition_by: tuple[str, ...]
    places: tuple[int, ...]

    @property
    def identity(self) -> str:
        """What tells the scan from others, in this run and the next."""
        return repr((self.by, self.where, self.partition_by))

    def home(self, shards: int) -> int:
        """The shard of a scan without groups; the same whatever other scans there are."""
        return crc32(self.identity.encode()) % shards


def scans_of(queries: Iterable[TopK]) -> tuple[Scan, ...]:
    """The scans of a workload, in the order in which they first appear.

    >>> import skyband as sb
    >>> big = sb.TopK(name="big", k=3, size="1 hour", by="price")
    >>> small = sb.TopK(name="small", k=3, size="1 day", by="price", order="asc")
    >>> far = sb.TopK(name="far", k=3, size="1 day", by="distance")
    >>> [(scan.by, scan.places) for scan in scans_of([big, far, small])]
    [('price', (0, 2)), ('distance', (1,))]
    """
    return tuple(Scan(*shared, places) for shared, places in places_by(TopK.scan_key, queries).items())
