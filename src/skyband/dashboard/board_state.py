"""The data source of a page: a running job, or a folder of answers, with queries, metrics and history."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from skyband import __version__
from skyband.dashboard.history import History
from skyband.dashboard.query_info import QueryInfo, query_infos, stream_of

if TYPE_CHECKING:
    from skyband.dashboard.control import RunControl
    from skyband.queries.workload import Workload
    from skyband.workload_file import WorkloadFile

__all__ = ["LiveShow", "Numbers", "Show", "state_of"]

Numbers = Callable[[], Mapping[str, Mapping[str, Any]]]


class Show(Protocol):
    """The data source of a page."""

    title: str
    history: History
    live: bool
    ended: bool
    control: RunControl | None
    version: int  # changes with the queries and their columns

    def refresh(self) -> int:
        """Process pending answers and return the version of the history."""

    def queries(self) -> Mapping[str, QueryInfo]:
        """The queries, by name."""

    def workloads(self) -> Mapping[str, Workload[Any]]:
        """The known workloads, by stream."""

    def algorithm(self, stream: str) -> str:
        """The algorithm requested for a stream's queries."""

    def numbers(self) -> Mapping[str, Mapping[str, Any]]:
        """The metrics, by stream."""

    def problem(self) -> str | None:
        """The reason why the source is unhealthy; None if it is healthy or has ended."""


class LiveShow:
    """A workload file that runs in this process."""

    live = True

    def __init__(self, title: str, *, history: History | None = None, control: RunControl | None = None) -> None:
        self.title = title
        self.history = history or History()
        self.control = control
        self.ended = False
        self.version = 0
        self._file: Callable[[], WorkloadFile] | None = None
        self._numbers: Numbers = dict
        self._problem: Callable[[], str | None] = lambda: None
        self._workloads: Mapping[str, Workload[Any]] = {}
        self._queries: dict[str, QueryInfo] = {}
        self._shape = 0
        self._lock = threading.Lock()

    def begin(
        self,
        file: Callable[[], WorkloadFile],
        numbers: Numbers,
        problem: Callable[[], str | None] = lambda: None,
    ) -> None:
        """Attach the running job: functions that return its current file, its metrics and its health problem."""
        self._file, self._numbers, self._problem = file, numbers, problem
        self.refresh()

    def end(self) -> None:
        """Mark the job as ended. The answers stay available."""
        self.refresh()
        self.ended = True
        self.history.wake()

    def refresh(self) -> int:
        """Process pending answers and a changed workload; return the version of the history."""
        with self._lock:
            if self._file is not None and (file := self._file()).workloads is not self._workloads:
                self._queries = query_infos(file)
                self.history.set_queries(self._queries)
                self._workloads = file.workloads
                self.version += 1
            version = self.history.settle()
            shape = self.history.shape
            if shape != self._shape:  # the first answers of a stream define its columns
                self._shape = shape
                self.version += 1
            return version

    def queries(self) -> Mapping[str, QueryInfo]:
        """The queries, by name."""
        return self._queries

    def workloads(self) -> Mapping[str, Workload[Any]]:
        """The workloads, by stream."""
        return self._workloads

    def algorithm(self, stream: str) -> str:
        """The algorithm that the workload file sets for a stream."""
        return "auto" if self._file is None else self._file().algorithm_of(stream)

    def numbers(self) -> Mapping[str, Mapping[str, Any]]:
        """The metrics, by stream. `restarts` equals `changes`, because only a live change restarts a stream."""
        return {name: {**one, "restarts": one.get("changes", 0)} for name, one in self._numbers().items()}

    def problem(self) -> str | None:
        """The reason why the job is unhealthy; None if it is healthy or has ended."""
        return self._problem()


def state_of(show: Show) -> dict[str, Any]:
    """Return the state of a show as JSON values."""
    queries = show.queries()
    streams = list(dict.fromkeys(one.stream for one in queries.values()))
    return {
        "title": show.title,
        "version": __version__,
        "live": show.live,
        "ended": show.ended,
        "control": show.control is not None,
        "streams": [stream_of(name, queries.values()) for name in streams],
        "queries": [one.to_dict(show.history.columns(one.name)) for one in queries.values()],
    }
