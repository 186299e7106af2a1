"""Partials whose panes have not ended: written down once, read when their time comes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from skyband.aggregate.reducer import pane_ends
from skyband.data.arrow import from_bytes, to_bytes
from skyband.sharding.shard import Segments
from skyband.snapshot import StateFormat, unchanged

__all__ = ["OpenPanes"]

_SEGMENT = 1 << 15  # partials: fewer panes are put together up to here


class OpenPanes:
    """Stores partials in segments of their own, numbered down from -1, beside those of an engine."""

    def __init__(self, segments: Segments, pane: tuple[int, int]) -> None:
        self._segments = segments
        self._pane = pane
        self._next = -1
        self._kept: dict[int, tuple[int, int, int]] = {}  # by number: the oldest pane, its end, how many partials

    def __len__(self) -> int:
        return sum(size for _, _, size in self._kept.values())

    @property
    def oldest(self) -> int | None:
        """Where the oldest pane begins; None if nothing waits."""
        return min((low for low, _, _ in self._kept.values()), default=None)

    def take(self, fresh: pa.Table | None, clock: int) -> pa.Table | None:
        """Put new partials to those that wait, and give out those whose panes end at or before `clock`."""
        due = [number for number, (_, end, _) in self._kept.items() if end <= clock]
        tables = [] if fresh is None or not fresh.num_rows else [fresh]
        for number in due:
            tables.append(_unpacked(self._segments.get(number)))
            self._segments.remove(number)
            del self._kept[number]
        if not tables:
            return None
        table = pa.concat_tables(tables, promote_options="default").combine_chunks()
        ended = pane_ends(table, self._pane) <= clock
        if not ended.all():
            self._keep(table.filter(pa.array(~ended)))
        return table.filter(pa.array(ended)) if ended.any() else None

    def state(self) -> dict[str, Any]:
        """Everything that `load` needs; the segments stay where they are."""
        return {"next": self._next, "kept": [[number, *kept] for number, kept in self._kept.items()]}

    def load(self, state: dict[str, Any]) -> None:
        """Continue from what `state` returned."""
        self._next = state["next"]
        self._kept = {number: (low, end, size) for number, low, end, size in state["kept"]}

    def _keep(self, table: pa.Table) -> None:
        """Write partials down, those of one pane together, and few panes with few partials too."""
        ends = pane_ends(table, self._pane)
        order = np.argsort(ends, kind="stable")
        table, ends = table.take(pa.array(order)), ends[order]
        low = 0
        while low < ends.size:
            high = min(int(np.searchsorted(ends, ends[min(low + _SEGMENT, ends.size) - 1], side="right")), ends.size)
            first = int(np.searchsorted(ends, ends[low], side="right"))
            if first - low >= _SEGMENT // 2:
                high = first  # a pane that is large enough goes alone: it is not read before it ends
            self._segments.put(self._next, _packed(table.slice(low, high - low)))
            self._kept[self._next] = (int(ends[low]) - self._pane[0], int(ends[low]), high - low)
            self._next -= 1
            low = high


# A table has no place for a version but the metadata of its schema.
SEGMENT = StateFormat("aggregate segment of open panes", [unchanged])
_VERSION = b"skyband_version"


def _packed(table: pa.Table) -> bytes:
    data = to_bytes(table.replace_schema_metadata({_VERSION: str(SEGMENT.version)}))
    return len(data).to_bytes(8, "little") + bytes(pa.compress(data, codec="lz4", asbytes=True))


def _unpacked(data: bytes) -> pa.Table:
    table = from_bytes(pa.decompress(data[8:], int.from_bytes(data[:8], "little"), codec="lz4", asbytes=True))
    version = int((table.schema.metadata or {}).get(_VERSION, 1))
    return SEGMENT.migrated({"version": version, "partials": table})["partials"].replace_schema_metadata(None)
