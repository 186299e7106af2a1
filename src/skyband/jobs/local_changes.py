"""Changes of a local job that follows folders: its streams continue with other queries between two micro-batches."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from skyband.errors import InvalidInputError
from skyband.jobs.control_server import place_of, read_moment
from skyband.jobs.journal import Change, Journal, with_query, without_query
from skyband.queries import Query
from skyband.workload_file.live_query_limits import known_stream, refuse_unfit

if TYPE_CHECKING:
    from skyband.jobs.local_job import LocalRun
    from skyband.workload_file import WorkloadFile

__all__ = ["LocalChanges"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class LocalChanges:
    """Applies the requests to a local job. Changes of queries are recorded in the journal, as on Spark."""

    def __init__(self, run: LocalRun) -> None:
        self._run = run
        self._journal = Journal(Path(str(run.file.engine.checkpoint)))

    def add(self, query: Query, stream: str | None, since: int | None = None) -> str:
        """Add a query to a stream; with `since`, windows that begin so many microseconds before now are complete."""
        stream = known_stream(self._run.file.workloads, stream)
        refuse_unfit(self._run.file.workloads, query, has_past=since is not None)
        past = {} if since is None else {query.name: since}
        self._change(stream, with_query(self._run.file, stream, query), Change("add", stream, query), past)
        end = self._run.reported_end(stream, query)
        if end is None:
            return f"added {query.name!r} to stream {stream!r}; valid from its first answer"
        moment = _EPOCH + timedelta(microseconds=end)
        return f"added {query.name!r} to stream {stream!r}; valid from the window that ends at {moment.isoformat()}"

    def drop(self, name: str) -> str:
        """Drop a query."""
        stream, query = place_of(self._run.file, name)
        self._change(stream, without_query(self._run.file, stream, name), Change("drop", stream, query), {})
        return f"dropped {name!r} from stream {stream!r}; no more windows are emitted for it"

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

    def _change(self, stream: str, file: WorkloadFile, change: Change, past: dict[str, int]) -> None:
        """Change the queries of a stream, then append to the journal; undo the change if that fails.

        The state with the new queries is stored first. After a kill between the two, the next run has the old queries.
        """
        before = self._run.file
        self._run.change(stream, file, past)
        try:
            self._journal.append(change)
        except OSError as error:
            self._run.change(stream, before, {})
            raise InvalidInputError(
                f"cannot write the change to {str(self._journal.path)!r} ({error.strerror or error}), so it would be "
                "lost at the next start. The change was undone."
            ) from error

    def _names(self, stream: str | None) -> list[str]:
        workloads = self._run.file.workloads
        return list(workloads) if stream is None else [known_stream(workloads, stream)]
