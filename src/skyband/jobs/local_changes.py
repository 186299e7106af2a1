"""Requests to a local job that follows folders: it emits windows and moves time, and keeps its queries."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from skyband.errors import UnsupportedError
from skyband.jobs.control_server import read_moment
from skyband.queries import Query
from skyband.workload_file.live_query_limits import known_stream

if TYPE_CHECKING:
    from skyband.jobs.local_job import LocalRun

__all__ = ["LocalChanges"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class LocalChanges:
    """Applies the requests that a local job supports."""

    def __init__(self, run: LocalRun) -> None:
        self._run = run

    def add(self, query: Query, stream: str | None) -> str:
        """Reject the change."""
        raise self._unsupported("added")

    def drop(self, name: str) -> str:
        """Reject the change."""
        raise self._unsupported("dropped")

    def flush(self, stream: str | None) -> str:
        """Emit every window that contains a row, with the next micro-batch."""
        names = self._names(stream)
        self._run.send({"kind": "end"}, names)
        return f"flushing {', '.join(names)}: every window with a row is emitted; later rows for these windows are late"

    def advance(self, to: str, stream: str | None) -> str:
        """Move event time forward without rows, with the next micro-batch."""
        moment, names = read_moment(to), self._names(stream)
        self._run.send({"kind": "advance", "at": (moment - _EPOCH) // _MILLISECOND * 1000}, names)
        return f"advancing {', '.join(names)} to {moment.isoformat()}; earlier rows that arrive from now on are late"

    def queries(self) -> dict[str, list[str]]:
        """Return the running queries by stream."""
        return {name: list(map(str, workload)) for name, workload in self._run.file.workloads.items()}

    def _names(self, stream: str | None) -> list[str]:
        workloads = self._run.file.workloads
        return list(workloads) if stream is None else [known_stream(workloads, stream)]

    def _unsupported(self, what: str) -> UnsupportedError:
        return UnsupportedError(
            f"queries of a run with --local cannot be {what} while it runs. Stop it, edit {self._run.file.path} and "
            "run it again: it resumes with the changed queries."
        )
