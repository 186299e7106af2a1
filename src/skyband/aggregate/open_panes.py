"""Store partials of panes that have not ended: written once, read when the pane closes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from skyband.aggregate.panes import IrregularPanes, LatticePanes
from skyband.aggregate.plan import is_key_name
from skyband.aggregate.reducer import pane_ends
from skyband.data.arrow import from_bytes, to_bytes
from skyband.sharding.shard import Segments
from skyband.snapshot import StateFormat, unchanged

__all__ = ["OpenPanes"]

_SEGMENT = 1 << 15  # partials: small panes are combined up to this size


class OpenPanes:
    """Store partials in segments with negative numbers, from -1 down. The engine's segments are numbered from 0 up."""

    def __init__(self, segments: Segments, panes: LatticePanes | IrregularPanes, key: str) -> None:
        self._segments = segments
        self._panes = panes
        self._key = key  # the column with the key: stored partials may have the name that another workload gave it
        self._next = -1
        self._kept: dict[
            int, tuple[int, int, int]
        ] = {}  # by segment: mark and end of the oldest pane, number of partials
        self._newest: int | None = None  # if partials of other panes are stored: the newest row before the change

    def __len__(self) -> int:
        return sum(size for _, _, size in self._kept.values())

    @property
    def oldest(self) -> int | None:
        """A position in the oldest pane, None if there is none."""
        return min((low for low, _, _ in self._kept.values()), default=None)

    def take(self, fresh: pa.Table | None, clock: int) -> pa.Table | None:
        """Add new partials, and return all partials whose panes end at or before `clock`."""
        self._change_panes()
        due = [number for number, (_, end, _) in self._kept.items() if end <= clock]
        tables = [] if fresh is None or not fresh.num_rows else [fresh]
        for number in due:
            tables.append(self._named(_unpacked(self._segments.get(number))))
            self._segments.remove(number)
            del self._kept[number]
        if not tables:
            return None
        table = pa.concat_tables(tables, promote_options="default").combine_chunks()
        ended = pane_ends(table, self._panes) <= clock
        if not ended.all():
            self._keep(table.filter(pa.array(~ended)))
        return table.filter(pa.array(ended)) if ended.any() else None

    def held(self) -> pa.Table | None:
        """Return the partials of all open panes. They remain."""
        self._change_panes()
        tables = [self._named(_unpacked(self._segments.get(number))) for number in self._kept]
        return pa.concat_tables(tables, promote_options="default").combine_chunks() if tables else None

    def state(self) -> dict[str, Any]:
        """Return the state for `load`, without the segments."""
        changed = {} if self._newest is None else {"newest": self._newest}
        return {"next": self._next, "kept": [[number, *kept] for number, kept in self._kept.items()], **changed}

    def load(self, state: dict[str, Any], newest: int | None = None) -> None:
        """Restore the state that `state` returned. With other panes, `newest` is the position of the newest row."""
        self._next = state["next"]
        self._newest = state.get("newest", newest)
        self._kept = {number: (low, end, size) for number, low, end, size in state["kept"]}

    def _change_panes(self) -> None:
        """Move the partials of other panes to the current ones.

        The rows of a partial are at or before the newest row. Its mark may be later, in windows of queries that begin
        after this row, so it is moved back. No bound of a continued query is between the two positions.
        """
        newest, self._newest = self._newest, None
        if newest is None or not self._kept:
            return
        tables = [self._named(_unpacked(self._segments.get(number))) for number in self._kept]
        for number in self._kept:
            self._segments.remove(number)
        self._kept.clear()
        table = pa.concat_tables(tables, promote_options="default").combine_chunks()
        marks = np.minimum(table["pane"].to_numpy(), newest)
        self._keep(table.set_column(table.column_names.index("pane"), "pane", pa.array(marks)))

    def _named(self, table: pa.Table) -> pa.Table:
        return table.rename_columns([self._key if is_key_name(name) else name for name in table.column_names])

    def _keep(self, table: pa.Table) -> None:
        """Store partials in segments: large panes separately, small panes combined."""
        ends = pane_ends(table, self._panes)
        order = np.argsort(ends, kind="stable")
        table, ends = table.take(pa.array(order)), ends[order]
        low = 0
        while low < ends.size:
            high = min(int(np.searchsorted(ends, ends[min(low + _SEGMENT, ends.size) - 1], side="right")), ends.size)
            first = int(np.searchsorted(ends, ends[low], side="right"))
            if first - low >= _SEGMENT // 2:
                high = first  # a large pane has its own segment, so it is not read before it ends
            self._segments.put(self._next, _packed(table.slice(low, high - low)))
            self._kept[self._next] = (int(self._panes.marks_of(ends[low : low + 1] - 1)[0]), int(ends[low]), high - low)
            self._next -= 1
            low = high


# The version of a table is stored in the metadata of its schema.
SEGMENT = StateFormat("aggregate segment of open panes", [unchanged])
_VERSION = b"skyband_version"


def _packed(table: pa.Table) -> bytes:
    data = to_bytes(table.replace_schema_metadata({_VERSION: str(SEGMENT.version)}))
    return len(data).to_bytes(8, "little") + bytes(pa.compress(data, codec="lz4", asbytes=True))


def _unpacked(data: bytes) -> pa.Table:
    table = from_bytes(pa.decompress(data[8:], int.from_bytes(data[:8], "little"), codec="lz4", asbytes=True))
    version = int((table.schema.metadata or {}).get(_VERSION, 1))
    return SEGMENT.migrated({"version": version, "partials": table})["partials"].replace_schema_metadata(None)
