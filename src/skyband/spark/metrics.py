"""Metrics of a stream, collected from the progress that Spark reports after every micro-batch."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.live import Live
from rich.text import Text

from skyband.sharding import batch_events
from skyband.spark.control import CONTROL_FOLDER
from skyband.spark.plan import StreamInfo

__all__ = ["Metrics", "StreamProgress", "show_progress"]

_COUNTED_IN = {"taken": "rows", "dropped_null": "dropped_null", "pruned": "pruned"}
_COUNTED_TO_SHARDS = {"envelopes": "envelopes", "envelope_bytes": "envelope_bytes"}
_COUNTED_AT_SOURCE = {"malformed": "malformed", "unreadable": "unreadable"}  # topics and files only
_COUNTED_LATE = {"late_used": "late_used"}  # with an allowed lateness
# If the answers of shards are merged.
_COUNTED_HELD = {"late": "late", "over_limit": "over_limit", "unrankable": "unrankable"}
_COUNTED_DELETES = {"unknown_deletes": "unknown_deletes"}  # if rows can delete keys
_COUNTED_OUT = {"late": "late", "windows": "windows", "answered": "answers"}


class StreamProgress:
    """Sums the metrics of the micro-batches of one run; each micro-batch is counted once."""

    def __init__(self, stream_info: StreamInfo | None = None) -> None:
        self.stream_info = stream_info
        self._lock = threading.Lock()
        self._batches = 0
        self._last: dict[str, int] = {}  # by Spark run id: the last counted batch
        self._processed: dict[str, tuple[int, str]] = {}  # by Spark run id: the last processed report
        self._counts = dict.fromkeys([*_COUNTED_IN.values(), *_COUNTED_OUT.values()], 0)
        self._shard_sizes: dict[str, int] = {}
        self._newest: int | None = None
        self._newest_of: dict[str, int] = {}  # by stream, if rows come from several streams
        self._last_end: int | None = None
        self._milliseconds = 0

    def take(self, query: StreamingQuery) -> None:
        """Count the new progress reports of a query.

        `recentProgress` serializes up to a hundred reports, so this reads `lastProgress` first. Usually that report is
        already counted, or directly follows the last counted one.
        """
        last = query.lastProgress
        if last is None:
            return
        run, batch, reported_at = str(last["runId"]), int(last["batchId"]), str(last["timestamp"])
        with self._lock:
            if self._processed.get(run) == (batch, reported_at):
                return
            known = self._last.get(run)
        follows = known is not None and batch == known + 1 and last["observedMetrics"]
        for report in [last] if follows else query.recentProgress:
            self.add(report)
        with self._lock:
            self._processed[run] = (batch, reported_at)

    def add(self, report: Any) -> None:
        """Count the report on one micro-batch, unless it is already counted."""
        run, batch = str(report["runId"]), int(report["batchId"])
        with self._lock:
            seen = report["observedMetrics"] or {}
            if batch <= self._last.get(run, -1) or not seen:
                return
            _announce(report, seen)
            self._last[run] = batch
            self._batches += 1
            self._milliseconds += int((report["durationMs"] or {}).get("triggerExecution", 0))
            sources_of_counts = [name for name in _fields(seen) if name.startswith("skyband_source")]  # one per stream
            malformed = sum(_value(seen.get(name), "malformed") or 0 for name in (*sources_of_counts, "skyband_in"))
            observations = (
                *((name, _COUNTED_AT_SOURCE) for name in sources_of_counts),
                ("skyband_in", {**_COUNTED_IN, **_COUNTED_AT_SOURCE, **_COUNTED_TO_SHARDS}),
                ("skyband_to_shards", _COUNTED_TO_SHARDS),  # if there are combiners
                ("skyband_held", {**_COUNTED_HELD, **_COUNTED_DELETES, **_COUNTED_LATE}),
                ("skyband_out", {**_COUNTED_OUT, **_COUNTED_LATE}),
            )
            for name, source in observations:
                for column, metric in source.items():
                    if (count := _value(seen.get(name), column)) is not None:
                        self._counts[metric] = self._counts.get(metric, 0) + count
            # If every query has a filter, rows that match none of them do not reach the tasks that count.
            filtered = self.stream_info is not None and self.stream_info.filtered
            sources = report["sources"] or [] if filtered else []
            read = [source for source in sources if CONTROL_FOLDER not in source["description"]]
            unseen = sum(int(source["numInputRows"]) for source in read) - (
                _value(seen.get("skyband_in"), "taken") or 0
            )
            self._counts["rows"] += max(0, unseen, malformed)
            for place, name in enumerate(self.stream_info.streams if self.stream_info else ()):
                if (newest := _value(seen.get("skyband_streams"), f"newest_{place}")) is not None:
                    self._newest_of[name] = max(newest, self._newest_of.get(name, newest))
            out = seen.get("skyband_out")
            self._last_end = _latest(self._last_end, _value(out, "last_end"))
            for shards in (out, seen.get("skyband_held")):  # if answers are merged, sizes are observed before the merge
                self._newest = _latest(self._newest, _value(shards, "newest"))
                for column in _fields(shards):
                    if column.startswith(("candidates_", "bytes_")) and _value(shards, column) is not None:
                        self._shard_sizes[column] = _value(shards, column) or 0

    def count(self, *, batches: int = 0, milliseconds: int = 0, **counts: int | None) -> None:
        """Add counts from outside of micro-batches; None is ignored."""
        with self._lock:
            self._batches += batches
            self._milliseconds += milliseconds
            for metric, count in counts.items():
                if count is not None:
                    self._counts[metric] = self._counts.get(metric, 0) + count

    @property
    def newest(self) -> int | None:
        """The newest position of all rows so far; None before the first row."""
        return self._newest

    def metrics(self) -> dict[str, Any]:
        """Return the metrics, by name."""
        with self._lock:
            found: dict[str, Any] = {"algorithm": self.stream_info.algorithm if self.stream_info else None}
            if self.stream_info is not None and self.stream_info.reader is not None:
                found["reader"] = self.stream_info.reader
            found |= {"batches": self._batches, **self._counts}
            for name in ("candidates", "bytes"):
                found[name] = sum(size for column, size in self._shard_sizes.items() if column.startswith(f"{name}_"))
            found["state_bytes"] = found.pop("bytes")
            found["bound"] = None if self.stream_info is None else self.stream_info.bound
            lag = None
            if (
                self.stream_info is not None
                and self.stream_info.axis == "time"
                and None not in (self._newest, self._last_end)
            ):
                lag = max(0, self._newest - self._last_end) / 1e6  # type: ignore[operator]  # neither is None
            found["emit_lag"] = lag
            if self._newest_of:
                first = max(self._newest_of.values())
                found["lags"] = {name: (first - newest) / 1e6 for name, newest in self._newest_of.items()}
            found["seconds"] = self._milliseconds / 1e3
            return found


class Metrics(StreamingQueryListener):
    """A listener that collects the metrics of every Skyband stream of a session.

    >>> listener = Metrics()
    >>> spark.streams.addListener(listener)  # doctest: +SKIP
    >>> listener.metrics()  # by the query's name or id
    {}
    """

    def __init__(self) -> None:
        self._streams: dict[str, StreamProgress] = {}

    def metrics(self) -> dict[str, dict[str, Any]]:
        """Return the metrics of each stream, by its name, or by its id if it has no name."""
        return {name: progress.metrics() for name, progress in list(self._streams.items())}

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Count a micro-batch."""
        report = event.progress
        seen = report.observedMetrics or {}
        if "skyband_out" in seen:
            self._streams.setdefault(str(report.name or report.id), StreamProgress()).add(report)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Do nothing: the metrics are retained."""


def _announce(progress: Any, seen: Any) -> None:
    """Report a micro-batch to listeners. Spark reports when it began, and the time of its parts, not their order."""
    if not batch_events.are_wanted():
        return
    began = int(datetime.fromisoformat(str(progress["timestamp"])).timestamp() * 1000) * 1_000_000
    parts = {str(name): int(milliseconds) for name, milliseconds in (progress["durationMs"] or {}).items()}
    counts = {f"{name}_ms": milliseconds for name, milliseconds in parts.items()}
    for name, column, metric in (("skyband_in", "taken", "rows"), ("skyband_out", "windows", "windows")):
        counts[metric] = _value(seen.get(name), column) or 0
    late = [_value(seen.get(name), "late") for name in ("skyband_held", "skyband_out")]
    counts["late"] = sum(count for count in late if count is not None)
    ended = began + 1_000_000 * parts.get("triggerExecution", 0)
    name = str(progress["name"] or progress["id"])
    batch_events.report(batch_events.BatchEvent(name, int(progress["batchId"]), began, ended, (), counts))


def _fields(row: Any) -> list[str]:
    if row is None:
        return []
    return list(row) if isinstance(row, dict) else list(row.asDict())


def _value(row: Any, column: str) -> int | None:
    if row is None or column not in _fields(row):
        return None
    found = row[column]
    return None if found is None else int(found)


def _latest(before: int | None, now: int | None) -> int | None:
    return now if before is None or (now is not None and now > before) else before


@contextmanager
def show_progress(collect: Callable[[], StreamProgress], *, wanted: bool | None) -> Iterator[None]:
    """Display a progress line while the block runs. Default for `wanted`: only if stderr is a terminal."""
    if not (sys.stderr.isatty() if wanted is None else wanted):
        yield
        return
    done = threading.Event()

    def line() -> Text:
        now = collect().metrics()
        speed = now["rows"] / now["seconds"] if now["seconds"] else 0.0
        return Text(
            f"{now['rows']:,} rows in {now['batches']} batches ({speed:,.0f}/s), {now['windows']:,} windows answered, "
            f"{now['candidates']:,} rows held, {now['late']:,} late"
        )

    with Live(line(), console=Console(stderr=True), refresh_per_second=2, transient=False) as live:

        def follow() -> None:
            while not done.wait(0.5):
                live.update(line())

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            live.update(line())
