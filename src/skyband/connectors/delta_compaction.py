"""Merges small files of a Delta table beside the stream that appends them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from math import ceil
from time import time
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from skyband.connectors.table_errors import cause_of

__all__ = ["Compaction", "Compactor"]

_LOG = logging.getLogger(__name__)
_SIZE = 100 << 20  # bytes; what deltalake uses without a target
_HOURS = 3600


class Compaction(NamedTuple):
    """When files are merged, and to what size."""

    age: float  # seconds after which a small file is merged
    size: int | None = None  # bytes of a merged file; smaller files are small
    retention: float | None = None  # seconds for which replaced files stay, rounded up to hours; None: forever


class Compactor:
    """Starts a compaction when the oldest small file has the age for it. Appends do not conflict with it.

    Ages are those in the log of the table, so runs that end sooner than a file is old enough, such as scheduled ones,
    also merge files. `load` returns the newest version of the table.
    """

    def __init__(self, load: Callable[[], Any], compaction: Compaction, where: str) -> None:
        self._load, self._plan, self._where = load, compaction, where
        self._thread: threading.Thread | None = None
        self._due: float | None = None  # when the oldest small file has the age; None: it is unknown

    def compact_if_due(self, table: Any) -> None:
        """Start a compaction in a thread, if it is time for one. `table` is the version of the last commit."""
        if self._thread is not None and self._thread.is_alive():
            return
        if self._due is None:
            self._due = self._oldest(table) + self._plan.age
        if time() >= self._due:
            self._due = time() + self._plan.age  # what could not be merged is not tried again and again
            self._thread = threading.Thread(target=self.compact, name="skyband-compaction", daemon=True)
            self._thread.start()

    def compact(self) -> None:
        """Merge small files, with one task, which leaves the other processors to the stream; remove replaced files."""
        try:
            table = self._load()
            table.optimize.compact(target_size=self._plan.size, max_concurrent_tasks=1)
            if self._plan.retention is not None:
                table.vacuum(
                    retention_hours=ceil(self._plan.retention / _HOURS), dry_run=False, enforce_retention_duration=False
                )
        except Exception as error:  # answers are complete without it
            _LOG.warning("%s: small files were not merged: %s", self._where, cause_of(error))

    def join(self) -> None:
        """Wait for a compaction that is running."""
        if self._thread is not None:
            self._thread.join()

    def _oldest(self, table: Any) -> float:
        """Return the time at which the oldest of several small files was added; now, if there are none."""
        found = pa.table(table.get_add_actions(flatten=True))
        small = found.filter(pc.less(found["size_bytes"], self._plan.size or _SIZE))
        if small.num_rows < 2:
            return time()
        return float(pc.min(small["modification_time"]).as_py()) / 1000
